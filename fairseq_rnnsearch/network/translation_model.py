"""The whole model: RNNsearch, or RNNencdec, with the checks of its parameters."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels.derived import accurate_type
from fairseq_rnnsearch.network.decoder import Decoder
from fairseq_rnnsearch.network.encoder import Encoder
from fairseq_rnnsearch.network.precision import prepare_to_translate
from fairseq_rnnsearch.text.dictionary_file import file_of


def networks_of(
    cfg: Any,
    source: Any,
    target: Any,
    encoder_class: type[Encoder] = Encoder,
    decoder_class: type[Decoder] = Decoder,
) -> tuple[Encoder, Decoder]:
    """Build both networks, their parameters not yet initialised.

    Args:
        cfg: `ModelOptions`, or fairseq's configuration with the same names.
        source, target: dictionaries.
        encoder_class, decoder_class: such as fairseq's view of them.
    """
    embedding_dropout, readout_dropout = (
        cfg.dropout if part is None else part
        for part in (cfg.embedding_dropout, cfg.readout_dropout)
    )
    encoder = encoder_class(
        source,
        cfg.encoder_embed_dim,
        cfg.encoder_hidden_size,
        bidirectional=not cfg.fixed_context,
        dropout=embedding_dropout,
        kernels=str(cfg.kernels),
        compute_dtype=str(cfg.compute_dtype),
    )
    decoder = decoder_class(
        target,
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
        compute_dtype=str(cfg.compute_dtype),
    )
    return encoder, decoder


def initialize(part: nn.Module, initialization: str) -> None:
    """Give a model, or a part of one, the values that training starts from.

    Args:
        initialization: a value of ``--initialization``.
    """
    if initialization == "appendix":
        part.init_weights()
        return
    for parameter in part.parameters():  # as all of fairseq's lstm
        nn.init.uniform_(parameter, -0.1, 0.1)


def custom_module(model: nn.Module) -> str | None:
    """Return the name and class of a part that somebody has written for their model, or None."""
    for name, part in model.named_modules():
        if type(part).__module__.partition(".")[0] not in (__name__.partition(".")[0], "torch"):
            return f"{name or 'the model'}: {type(part).__name__}"
    return None


class TranslationModel(nn.Module):
    """RNNsearch, or RNNencdec with ``fixed_context``; translates and aligns without fairseq."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def init_weights(self) -> None:
        """Start as in appendix B.1."""
        for side in (self.encoder, self.decoder):
            side.init_weights()

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        **options: Any,
    ) -> tuple[Tensor, dict]:
        """Return the decoder's ``forward``."""
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths, **options)
        return self.decoder(prev_output_tokens, encoder_out=encoder_out, **options)

    def get_normalized_probs(
        self, net_output: tuple, log_probs: bool, sample: dict | None = None
    ) -> Tensor:
        """Return the softmax of the logits, in float32 or wider."""
        logits = net_output[0]
        softmax = torch.log_softmax if log_probs else torch.softmax
        return softmax(logits, dim=-1, dtype=accurate_type(logits.dtype))

    def compute_in(self, compute_dtype: str) -> None:
        """Set the type of the operands of matrix products, before ``prepare_to_translate``."""
        for side in (self.encoder, self.decoder):
            side.compute_dtype = compute_dtype

    def prepare_to_translate(self) -> None:
        """Prepare for translation; the model does not train afterwards."""
        for side in (self.encoder, self.decoder):
            prepare_to_translate(side)

    def checked(self, state_dict: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return a checkpoint's parameters, after checking them.

        Raises:
            UserError: if the checkpoint's dictionaries have other sizes, or its parameters are not
                all finite.
        """
        # first the sum: it is soon known, and not finite if any number is not
        broken = [
            name
            for name, value in state_dict.items()
            if not (torch.isfinite(value.sum()) or torch.isfinite(value).all())
        ]
        if broken:
            raise UserError(
                f"{len(broken)} of {len(state_dict)} parameters hold numbers that are not finite, "
                f"{broken[0]} first: take a checkpoint from before training went wrong"
            )
        for language, side, network in (
            ("source", "encoder", self.encoder),
            ("target", "decoder", self.decoder),
        ):
            trained = state_dict.get(f"{side}.embedding.weight")
            words = len(network.dictionary)
            if trained is not None and trained.size(0) != words:
                raise UserError(
                    f"the {language} dictionary has {words} symbols"
                    f"{file_of(network.dictionary)}, but the checkpoint was "
                    f"trained with {trained.size(0)}: give the data folder (or dict files) that "
                    "the checkpoint was trained with"
                )
        return state_dict
