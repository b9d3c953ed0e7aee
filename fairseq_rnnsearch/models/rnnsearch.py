"""RNNsearch and RNNencdec as fairseq models. The mathematics is in ``network``."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import NamedTuple, Optional

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
)
from omegaconf import DictConfig, open_dict
from torch import Tensor

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels import KERNELS, Memory
from fairseq_rnnsearch.network import (
    DECODER_ORDERS,
    Decoder,
    DecoderState,
    EncodedSource,
    Encoder,
    initialize,
)

MODEL = "rnnsearch"

# the recurrences set no limit; fairseq wants a number
ANY_LENGTH = 1_000_000


@dataclass
class RNNSearchConfig(FairseqDataclass):
    """Sizes and switches; the defaults are the paper's (appendix A.2.3)."""

    encoder_embed_dim: int = field(
        default=620, metadata={"help": "size m of the source embedding (paper: 620)"}
    )
    encoder_hidden_size: int = field(
        default=1000, metadata={"help": "units n of each encoder direction (paper: 1000)"}
    )
    decoder_embed_dim: int = field(
        default=620, metadata={"help": "size m of the target embedding (paper: 620)"}
    )
    decoder_hidden_size: int = field(
        default=1000, metadata={"help": "units n of the decoder (paper: 1000)"}
    )
    attention_size: int = field(
        default=1000, metadata={"help": "hidden units n' of the alignment model (paper: 1000)"}
    )
    maxout_size: int = field(
        default=500, metadata={"help": "maxout units l of the deep output (paper: 500)"}
    )
    decoder_order: ChoiceEnum(list(DECODER_ORDERS)) = field(
        default="program",
        metadata={"help": "order inside one decoder step: the authors' program, or as printed in "
                  "the paper's appendix A.2.2 or section 3.1"},
    )  # fmt: skip
    output_layer: ChoiceEnum(["single", "factorised"]) = field(
        default="single",
        metadata={"help": "W_o as one matrix (paper) or as the authors' product of two"},
    )
    fixed_context: bool = field(
        default=False,
        metadata={"help": "RNNencdec: the context is always the last forward state"},
    )
    dropout: float = field(
        default=0.0,
        metadata={"help": "dropout of embedded words and of the maxout layer (paper: none)"},
    )
    embedding_dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout of embedded words (default: --dropout)"}
    )
    readout_dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout of the maxout layer (default: --dropout)"}
    )
    kernels: ChoiceEnum(list(KERNELS)) = field(
        default="auto",
        metadata={"help": "implementation of the recurrences: fast (CPU), reference (plain, runs "
                  "anywhere), or auto, the fast one wherever it runs"},
    )  # fmt: skip


class EncoderOut(NamedTuple):
    """What the encoder hands to the decoder.

    Attributes:
        source: one row per sentence, in beam search one per hypothesis.
        sentence: ``(rows,)``, the sentence that each row belongs to.
    """

    source: EncodedSource
    sentence: Tensor

    def select(self, new_order: Tensor) -> "EncoderOut":
        """Rows in a new order; nothing is copied while hypotheses stay within sentences."""
        sentence = self.sentence.index_select(0, new_order)
        if torch.equal(sentence, self.sentence):
            return self
        return EncoderOut(EncodedSource(*_select_rows(self.source, new_order)), sentence)


class RNNSearchEncoder(FairseqEncoder):
    """fairseq's view of ``network.Encoder``."""

    def __init__(self, dictionary, network: Encoder) -> None:
        super().__init__(dictionary)
        self.network = network

    def forward(self, src_tokens: Tensor, src_lengths: Tensor = None, **_) -> EncoderOut:
        """``(batch, source)`` word numbers, padded on either side."""
        source = self.network(src_tokens, src_tokens.eq(self.dictionary.pad()))
        return EncoderOut(source, torch.arange(src_tokens.size(0), device=src_tokens.device))

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Select rows: one for each hypothesis of the beam, in a new order."""
        return encoder_out.select(new_order)

    def max_positions(self) -> int:
        return ANY_LENGTH


class RNNSearchDecoder(FairseqIncrementalDecoder):
    """fairseq's view of ``network.Decoder``."""

    def __init__(self, dictionary, network: Decoder) -> None:
        super().__init__(dictionary)
        self.network = network

    @property
    def has_alignment(self) -> bool:
        """Whether there are alignment weights to look at: not in RNNencdec."""
        return self.network.alignment_model is not None

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut | None = None,
        incremental_state: dict | None = None,
        features_only: bool = False,
        target: Tensor | None = None,
        label_smoothing: float = 0.0,
        **_,
    ) -> tuple[Tensor | tuple[Tensor, Tensor], dict]:
        """Score the words after ``prev_output_tokens``, ``(batch, target)``.

        With an incremental state only the last column is new, and only the last position is
        returned. Given the right words, ``target``, the summed cost of those that are no padding
        and their summed -log p stand in the place of the logits, which are never all there.

        Returns:
            logits ``(batch, target, words)`` and ``{"attn": [weights]}`` with weights
            ``(batch, target, source)``; ``{"attn": None}`` for RNNencdec.
        """
        x, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        if target is not None:
            rows = target.flatten().ne(self.dictionary.pad()).nonzero().squeeze(1)
            t, words = (part.index_select(0, rows) for part in (x.flatten(0, 1), target.flatten()))
            return self.network.cost(t, words, label_smoothing), extra
        return (x if features_only else self.output_layer(x)), extra

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut | None = None,
        incremental_state: dict | None = None,
        **_,
    ) -> tuple[Tensor, dict]:
        """Like ``forward``, but t_i, ``(batch, target, l)``, instead of logits."""
        if incremental_state is not None:
            t, alpha = self._step(prev_output_tokens[:, -1], encoder_out, incremental_state)
            t, alpha = t.unsqueeze(1), None if alpha is None else alpha.unsqueeze(1)
        else:
            leading = _leading_padding(prev_output_tokens, self.dictionary.pad())
            words = _roll_rows(prev_output_tokens, -leading)
            t, alpha = self.network(words, encoder_out.source)
            t = _roll_rows(t, leading)
            alpha = None if alpha is None else _roll_rows(alpha, leading)
        return t, {"attn": None if alpha is None else [alpha]}

    def output_layer(self, features: Tensor) -> Tensor:
        """t_i to logits."""
        return self.network.output(features)

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Softmax of the logits, in float32 or wider."""
        logits = net_output[0]
        accurate = torch.promote_types(logits.dtype, torch.float32)
        softmax = torch.log_softmax if log_probs else torch.softmax
        return softmax(logits, dim=-1, dtype=accurate)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Follow the beam: row i goes on from what row ``new_order[i]`` has read."""
        saved = self.get_incremental_state(incremental_state, "decoder")
        if saved is None:
            return
        sentence = saved.sentence.index_select(0, new_order)
        memory = saved.memory
        if memory is not None and not torch.equal(sentence, saved.sentence):
            memory = Memory(*_select_rows(memory, new_order))
        state = DecoderState(*_select_rows(saved.state, new_order))
        self._save(incremental_state, _Saved(state, memory, sentence))

    def max_positions(self) -> int:
        return ANY_LENGTH

    def _step(
        self, previous: Tensor, encoder_out: EncoderOut, incremental_state: dict
    ) -> tuple[Tensor, Tensor | None]:
        saved = self.get_incremental_state(incremental_state, "decoder")
        memory = saved.memory if saved else self.network.remember(encoder_out.source)
        t, alpha, state = self.network.step(
            previous, encoder_out.source, memory, saved.state if saved else None
        )
        self._save(incremental_state, _Saved(state, memory, encoder_out.sentence))
        return t, alpha

    def _save(self, incremental_state: dict, saved: "_Saved") -> None:
        self.set_incremental_state(incremental_state, "decoder", saved)


class _Saved(NamedTuple):
    """The decoder between two steps of a beam search."""

    state: DecoderState
    memory: Memory | None
    sentence: Tensor


@register_model(MODEL, dataclass=RNNSearchConfig)
class RNNSearchModel(FairseqEncoderDecoderModel):
    """RNNsearch, or RNNencdec with ``--fixed-context``."""

    offers_cost = True  # see RNNSearchDecoder.forward

    @classmethod
    def build_model(cls, cfg: RNNSearchConfig, task) -> "RNNSearchModel":
        """Build from a configuration and the task's dictionaries.

        Raises:
            UserError: for a size below one or a dropout outside [0, 1).
        """
        _add_younger_options(cfg)
        _check(cfg)
        embedding_dropout, readout_dropout = (
            cfg.dropout if part is None else part
            for part in (cfg.embedding_dropout, cfg.readout_dropout)
        )
        source, target = task.source_dictionary, task.target_dictionary
        encoder = Encoder(
            len(source),
            cfg.encoder_embed_dim,
            cfg.encoder_hidden_size,
            bidirectional=not cfg.fixed_context,
            dropout=embedding_dropout,
            kernels=str(cfg.kernels),
        )
        decoder = Decoder(
            len(target),
            cfg.decoder_embed_dim,
            cfg.decoder_hidden_size,
            summary_size=cfg.encoder_hidden_size,
            context_size=cfg.encoder_hidden_size * (1 if cfg.fixed_context else 2),
            alignment_size=None if cfg.fixed_context else cfg.attention_size,
            maxout_size=cfg.maxout_size,
            order=str(cfg.decoder_order),
            factorised_output=cfg.output_layer == "factorised",
            embedding_dropout=embedding_dropout,
            readout_dropout=readout_dropout,
            kernels=str(cfg.kernels),
        )
        model = cls(RNNSearchEncoder(source, encoder), RNNSearchDecoder(target, decoder))
        initialize(model)
        return model

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None) -> NamedTuple:
        """Load a checkpoint's parameters.

        Raises:
            UserError: when the checkpoint was trained with dictionaries of other sizes, or holds
                numbers that are not finite.
        """
        broken = [n for n, value in state_dict.items() if not torch.isfinite(value).all()]
        if broken:
            raise UserError(
                f"{len(broken)} of {len(state_dict)} parameters hold numbers that are not finite, "
                f"{broken[0]} first: take a checkpoint from before training went wrong"
            )
        for side, network in (("encoder", self.encoder), ("decoder", self.decoder)):
            trained = state_dict.get(f"{side}.network.embedding.weight")
            words = len(network.dictionary)
            if trained is not None and trained.size(0) != words:
                language = "source" if side == "encoder" else "target"
                path = getattr(network.dictionary, "path", None)
                file = f" ({path})" if path else ""
                raise UserError(
                    f"the {language} dictionary has {words} symbols{file}, but the checkpoint was "
                    f"trained with {trained.size(0)}: give the data folder (or dict files) that "
                    "the checkpoint was trained with"
                )
        return super().load_state_dict(state_dict, strict, model_cfg, args)


def _add_younger_options(cfg: RNNSearchConfig | DictConfig) -> None:
    """Defaults of options that there were not yet when a checkpoint was written."""
    if isinstance(cfg, DictConfig):
        with open_dict(cfg):
            for option in fields(RNNSearchConfig):
                cfg.setdefault(option.name, option.default)


def _check(cfg: RNNSearchConfig) -> None:
    for name in RNNSearchConfig.__dataclass_fields__:
        value = getattr(cfg, name, None)
        option = "--" + name.replace("_", "-")
        if name.endswith(("_dim", "_size")) and isinstance(value, int) and value < 1:
            raise UserError(f"{option} {value}: must be at least 1")
        if name.endswith("dropout") and value is not None and not 0 <= value < 1:
            raise UserError(f"{option} {value}: must be at least 0 and below 1")


def _select_rows(parts: Iterable[Tensor], new_order: Tensor) -> Iterator[Tensor]:
    return (part.index_select(0, new_order) for part in parts)


def _leading_padding(tokens: Tensor, pad: int) -> Tensor:
    """How many pads each row begins with, ``(batch,)``."""
    return tokens.eq(pad).long().cumprod(dim=1).sum(dim=1)


def _roll_rows(x: Tensor, shift: Tensor) -> Tensor:
    """Move row i of ``(batch, time, ...)`` by ``shift[i]`` positions to the right, cyclically."""
    if not shift.any():
        return x
    time = torch.arange(x.size(1), device=x.device)
    index = (time - shift.unsqueeze(1)) % x.size(1)
    return x[torch.arange(x.size(0), device=x.device).unsqueeze(1), index]
