"""RNNsearch and RNNencdec as fairseq models. The mathematics is in ``network``."""

import functools
import logging
from typing import NamedTuple

import torch
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
)
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import Tensor, nn

from fairseq_rnnsearch.compat import mends
from fairseq_rnnsearch.compat.archives import check_archive
from fairseq_rnnsearch.contracts import (
    ChecksTraining,
    CollectsAlignments,
    EstimatesMemory,
    ScoresTargets,
    ShowsAlignment,
    TakesSteps,
    file_of,
)
from fairseq_rnnsearch.equations import Unit
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels import Backend, BatchMemory, DecoderSteps, NetworkSizes
from fairseq_rnnsearch.models.model_options import (
    ALIGNMENTS,
    UNITS,
    RNNSearchConfig,
    add_younger_options,
    check_options,
)
from fairseq_rnnsearch.models.precision import in_compute_dtype, round_matrices
from fairseq_rnnsearch.network import Decoder, EncodedSource, Encoder, initialize

logger = logging.getLogger(__name__)

MODEL = "rnnsearch"
# the recurrences set no limit; fairseq wants a number
ANY_LENGTH = 1_000_000
_FORESIGHT = "decoder.network.alignment_model.foresight_weight"  # V_a


class EncoderOut(NamedTuple):
    """What the encoder hands to the decoder.

    Attributes:
        source: one row per sentence, whatever a search makes of them.
        sentences: ``(rows,)``, the row of ``source`` that each row or hypothesis translates; None
            before a search has selected any: each its own.
    """

    source: EncodedSource
    sentences: Tensor | None = None

    def select(self, new_order: Tensor) -> "EncoderOut":
        """Return the rows in a new order; of ``source`` nothing is copied."""
        if self.sentences is not None:
            new_order = self.sentences.index_select(0, new_order)
        return EncoderOut(self.source, new_order)

    def by_row(self) -> EncodedSource:
        """Return the sentence of each row."""
        if self.sentences is None:
            return self.source
        return EncodedSource(*(part.index_select(0, self.sentences) for part in self.source))


class RNNSearchEncoder(FairseqEncoder):
    """fairseq's view of ``network.Encoder``."""

    def __init__(self, dictionary, network: Encoder, compute_dtype: str = "float32") -> None:
        super().__init__(dictionary)
        self.network = network
        self.compute_dtype = compute_dtype

    @in_compute_dtype
    def forward(self, src_tokens: Tensor, src_lengths: Tensor = None, **_) -> EncoderOut:
        """Encode word numbers, ``(batch, source)``, padded on either side."""
        return EncoderOut(self.network(src_tokens, src_tokens.eq(self.dictionary.pad())))

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Select rows: one for each hypothesis of the beam, in a new order."""
        return encoder_out.select(new_order)

    def max_positions(self) -> int:
        return ANY_LENGTH


class RNNSearchDecoder(FairseqIncrementalDecoder, ShowsAlignment, TakesSteps):
    """fairseq's view of ``network.Decoder``."""

    def __init__(self, dictionary, network: Decoder, compute_dtype: str = "float32") -> None:
        super().__init__(dictionary)
        self.network = network
        self.compute_dtype = compute_dtype

    @property
    def has_alignment(self) -> bool:
        """Whether there are alignment weights to look at: not in RNNencdec."""
        return self.network.alignment_model is not None

    @in_compute_dtype
    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut | None = None,
        incremental_state: dict | None = None,
        features_only: bool = False,
        target: Tensor | None = None,
        label_smoothing: float = 0.0,
        posterior: bool = False,
        **_,
    ) -> tuple[Tensor | tuple[Tensor, Tensor], dict]:
        """Score the words after ``prev_output_tokens``, ``(batch, target)``.

        With an incremental state only the last column is new, and only the last position is
        returned. Given the right words, ``target``, the summed cost of those that are no padding
        and their summed -log p stand in the place of the logits, which are never all there. With
        ``posterior`` the weights are those given the words, see ``network.Decoder.posterior``.

        Returns:
            logits ``(batch, target, words)`` and ``{"attn": [weights]}`` with weights
            ``(batch, target, source)``; ``{"attn": None}`` for RNNencdec.
        """
        x, extra = self.extract_features(
            prev_output_tokens, encoder_out, incremental_state, posterior=posterior
        )
        if target is not None:
            t, words = x.flatten(0, 1), target.flatten()
            present = words.ne(self.dictionary.pad())
            return self.network.cost(t, words, label_smoothing, present), extra
        return (x if features_only else self.output_layer(x)), extra

    @in_compute_dtype
    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut | None = None,
        incremental_state: dict | None = None,
        posterior: bool = False,
        **_,
    ) -> tuple[Tensor, dict]:
        """Return what ``forward`` does, but t_i, ``(batch, target, l)``, instead of logits."""
        if incremental_state is not None:
            steps = self.get_incremental_state(incremental_state, "steps")
            if steps is None:
                steps = self.begin(encoder_out)
                self.set_incremental_state(incremental_state, "steps", steps)
            t, alpha = steps.step(prev_output_tokens[:, -1])
            # a copy, because fairseq averages the weights of an ensemble in place
            t, alpha = t.unsqueeze(1), None if alpha is None else alpha.unsqueeze(1).clone()
        else:
            leading = _leading_padding(prev_output_tokens, self.dictionary.pad())
            words = _roll_rows(prev_output_tokens, -leading)
            network = self.network.posterior if posterior else self.network
            reads = posterior or self.network.target_foresight
            following = self._words_after(words) if reads else None
            t, alpha = network(words, encoder_out.by_row(), following)
            t = _roll_rows(t, leading)
            # fairseq's criterion with alignment looks at them as a matrix
            alpha = None if alpha is None else _roll_rows(alpha, leading).contiguous()
        return t, {"attn": None if alpha is None else [alpha]}

    def _words_after(self, previous: Tensor) -> Tensor:
        """Return the word at each position: the one before the next. Padding may differ."""
        words = nn.functional.pad(previous[:, 1:], (0, 1), value=self.dictionary.eos())
        return words.masked_fill(words.eq(self.dictionary.pad()), self.dictionary.eos())

    @in_compute_dtype
    def output_layer(self, features: Tensor) -> Tensor:
        """Turn t_i into logits."""
        return self.network.logits(features)

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Return the softmax of the logits, in float32 or wider."""
        logits = net_output[0]
        accurate = torch.promote_types(logits.dtype, torch.float32)
        softmax = torch.log_softmax if log_probs else torch.softmax
        return softmax(logits, dim=-1, dtype=accurate)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Follow the beam: row i goes on from what row ``new_order[i]`` has read."""
        steps = self.get_incremental_state(incremental_state, "steps")
        if steps is not None:
            steps.select(new_order)

    @property
    @in_compute_dtype
    def steps_are_fast(self) -> bool:
        """Whether a search had better take ``begin`` than fairseq's way to call a decoder."""
        return self.network.steps_are_fast

    @in_compute_dtype
    def backend(self) -> Backend:
        """Return who runs the decoder, see ``network.Decoder.backend``."""
        return self.network.backend

    def check_search(self) -> None:
        """See ``contracts.TakesSteps``."""
        if self.network.target_foresight:
            raise UserError(
                "the model was trained with --target-foresight: it reads the word that a search "
                "would look for, and cannot translate; rnnsearch-align aligns given sentences "
                "with it"
            )

    @in_compute_dtype
    def begin(self, encoder_out: EncoderOut) -> DecoderSteps:
        """Return the decoder for a search, see ``kernels.DecoderSteps``."""
        self.check_search()
        source, sentences = encoder_out
        if sentences is None:
            sentences = torch.arange(len(source.padding), device=source.padding.device)
        return self.network.steps(source, sentences)

    def max_positions(self) -> int:
        return ANY_LENGTH


@register_model(MODEL, dataclass=RNNSearchConfig)
class RNNSearchModel(FairseqEncoderDecoderModel, ChecksTraining, EstimatesMemory, ScoresTargets):
    """RNNsearch, or RNNencdec with ``--fixed-context``."""

    def scores_targets(self) -> bool:
        """See ``contracts.ScoresTargets`` and ``RNNSearchDecoder.forward``."""
        return True

    @classmethod
    def build_model(cls, cfg: RNNSearchConfig, task) -> "RNNSearchModel":
        """Build from a configuration and the task's dictionaries.

        Raises:
            UserError: for an option, or two together, that cannot be.
        """
        add_younger_options(cfg)
        check_options(cfg)
        if isinstance(task, FairseqTask) and not isinstance(task, CollectsAlignments):
            _warn_of(type(task).__name__)
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
            unit=UNITS[str(cfg.unit)],
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
            unit=UNITS[str(cfg.unit)],
            alignment_model=ALIGNMENTS[str(cfg.alignment_model)],
            target_foresight=cfg.target_foresight,
        )
        compute_dtype = str(cfg.compute_dtype)
        model = cls(
            RNNSearchEncoder(source, encoder, compute_dtype),
            RNNSearchDecoder(target, decoder, compute_dtype),
        )
        initialize(model)
        if cfg.train_alignment_model_only:
            model.requires_grad_(False)
            decoder.alignment_model.requires_grad_(True)
        return model

    @classmethod
    def from_pretrained(cls, model_name_or_path: str, *args, **options) -> object:
        """Load as fairseq does, from a folder or an archive of plain files.

        Raises:
            UserError: for a checkpoint or an archive that holds anything else.
        """
        check_archive(model_name_or_path)
        with mends.applied():
            return super().from_pretrained(model_name_or_path, *args, **options)

    def check_training(self, *, has_links: bool, begins_from_model: bool) -> None:
        """See ``contracts.ChecksTraining``.

        Attention that reads the word that is being aligned can tell the decoder which word it is,
        by where it points, and learns that sooner than to align. It cannot where the decoder has
        learned before what to read in a context, or where links tell it where to point.
        """
        only_alignment_model = not self.decoder.network.embedding.weight.requires_grad
        if only_alignment_model and not begins_from_model:
            raise UserError(
                "--train-alignment-model-only leaves all else as it is: give a trained model with "
                "--finetune-from-model"
            )
        if self.decoder.network.target_foresight and not only_alignment_model and not has_links:
            logger.warning(
                "--target-foresight alone: attention can tell the decoder the word by where it "
                "points, and will not align; add --guided-alignment, or train a model without it "
                "and then --train-alignment-model-only --finetune-from-model"
            )

    def training_memory(self, all_logits: bool) -> BatchMemory:
        """Return what a batch takes to be trained on, see ``Backend.training_memory``."""
        memory = self.decoder.backend().training_memory(self._sizes, all_logits)
        decoder = self.decoder.network
        if decoder.target_foresight:  # e(y_i), V_a e(y_i) and their gradients, in 4 bytes each
            sizes = decoder.embedding.weight.size(1) + decoder.alignment_model.size
            memory = memory._replace(target=memory.target + 8 * sizes)
        return memory

    def search_memory(self, beam: int) -> BatchMemory:
        """Return what a batch takes to be translated, see ``Backend.search_memory``."""
        return self.decoder.backend().search_memory(self._sizes, beam)

    @property
    def _sizes(self) -> NetworkSizes:
        encoder, decoder = self.encoder.network, self.decoder.network
        attention = decoder.alignment_model
        return NetworkSizes(
            _as_gated_units(encoder.forward_unit),
            _as_gated_units(decoder.unit),
            0 if attention is None else attention.size,
            len(decoder.readout.bias) // 2,
            len(decoder.output.bias),
        )

    def prepare_for_inference_(self, cfg: DictConfig) -> None:
        """Prepare for translating; fairseq calls this, and does not train the parameters then."""
        super().prepare_for_inference_(cfg)
        for side in (self.encoder, self.decoder):
            round_matrices(side)

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None) -> NamedTuple:
        """Load a checkpoint's parameters.

        A model with target foresight takes those of one without, and then attends as it did,
        because V_a is zero.

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
                raise UserError(
                    f"the {language} dictionary has {words} symbols"
                    f"{file_of(network.dictionary)}, but the checkpoint was "
                    f"trained with {trained.size(0)}: give the data folder (or dict files) that "
                    "the checkpoint was trained with"
                )
        if self.decoder.network.target_foresight and _FORESIGHT not in state_dict:
            zero = torch.zeros_like(self.get_parameter(_FORESIGHT))
            state_dict = {**state_dict, _FORESIGHT: zero}
        return super().load_state_dict(state_dict, strict, model_cfg, args)


def _as_gated_units(unit: Unit) -> int:
    """Return how many gated units keep as many numbers of a position, inputs and state."""
    return (unit.inputs_size + unit.state_size) // 4


@functools.cache
def _warn_of(task: str) -> None:
    """Warn once of a task of fairseq's own."""
    logger.warning(
        "%s in the place of --task alignment_heatmap goes without the paper's batches and its "
        "limit of words, checks of the data, the fast search, heatmaps and "
        "alignments that do not depend on the batch",
        task,
    )


def _leading_padding(tokens: Tensor, pad: int) -> Tensor:
    """Return how many pads each row begins with, ``(batch,)``."""
    return tokens.eq(pad).long().cumprod(dim=1).sum(dim=1)


def _roll_rows(x: Tensor, shift: Tensor) -> Tensor:
    """Move row i of ``(batch, time, ...)`` by ``shift[i]`` positions to the right, cyclically."""
    if x.device.type == "cpu" and not shift.any():  # the answer of a GPU would be waited for
        return x
    time = torch.arange(x.size(1), device=x.device)
    index = (time - shift.unsqueeze(1)) % x.size(1)
    return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(x.shape))
