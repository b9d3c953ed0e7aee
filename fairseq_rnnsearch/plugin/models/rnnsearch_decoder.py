"""The decoder as fairseq sees it. The mathematics is in ``paper.network``."""

import torch
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels import Backend, DecoderSteps
from fairseq_rnnsearch.paper.network import Decoder
from fairseq_rnnsearch.plugin.models.precision import in_compute_dtype
from fairseq_rnnsearch.plugin.models.rnnsearch_encoder import EncoderOut
from fairseq_rnnsearch.runs.options import ANY_LENGTH


class RNNSearchDecoder(FairseqIncrementalDecoder):
    """fairseq's view of ``paper.network.Decoder``; a ``StepwiseDecoder`` for the search."""

    def __init__(self, dictionary, network: Decoder, compute_dtype: str = "float32") -> None:
        super().__init__(dictionary)
        self.network = network
        self.compute_dtype = compute_dtype

    @property
    def has_alignment(self) -> bool:
        """Whether there are alignment weights; RNNencdec has none."""
        return self.network.alignment_model is not None

    @in_compute_dtype
    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut | None = None,
        incremental_state: dict | None = None,
        features_only: bool = False,
        posterior: bool = False,
        **_,
    ) -> tuple[Tensor, dict]:
        """Score the words after ``prev_output_tokens``, ``(batch, target)``.

        With an incremental state, only the last column is new, and only the last position is
        returned. With ``posterior``, the weights are posterior ones, see
        ``paper.network.Decoder.posterior``.

        Returns:
            logits ``(batch, target, words)`` and ``{"attn": [weights]}`` with weights
            ``(batch, target, source)``; ``{"attn": None}`` for RNNencdec.
        """
        x, extra = self.extract_features(
            prev_output_tokens, encoder_out, incremental_state, posterior=posterior
        )
        return (x if features_only else self.output_layer(x)), extra

    @in_compute_dtype
    def cost(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        target: Tensor,
        label_smoothing: float,
    ) -> tuple[tuple[Tensor, Tensor], dict]:
        """Return the cost of the correct words, without ever storing all logits.

        Args:
            prev_output_tokens, target: words, ``(batch, target)``.

        Returns:
            the summed cost of all words but padding, their summed -log p, and ``{"attn": ...}`` as
            ``forward`` returns it.
        """
        x, extra = self.extract_features(prev_output_tokens, encoder_out)
        t, words = x.flatten(0, 1), target.flatten()
        present = words.ne(self.dictionary.pad())
        return self.network.cost(t, words, label_smoothing, present), extra

    @in_compute_dtype
    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut | None = None,
        incremental_state: dict | None = None,
        posterior: bool = False,
        **_,
    ) -> tuple[Tensor, dict]:
        """Like ``forward``, but return t_i, ``(batch, target, l)``, instead of logits."""
        if incremental_state is not None:
            steps = self.get_incremental_state(incremental_state, "steps")
            if steps is None:
                steps = self.begin(encoder_out)
                self.set_incremental_state(incremental_state, "steps", steps)
            t, alpha = steps.step(prev_output_tokens[:, -1])
            # a copy, because fairseq averages an ensemble's weights in place
            t, alpha = t.unsqueeze(1), None if alpha is None else alpha.unsqueeze(1).clone()
        else:
            leading = _leading_padding(prev_output_tokens, self.dictionary.pad())
            words = _roll_rows(prev_output_tokens, -leading)
            network = self.network.posterior if posterior else self.network
            reads = posterior or self.network.target_foresight
            following = self._words_after(words) if reads else None
            t, alpha = network(words, encoder_out.by_row(), following)
            t = _roll_rows(t, leading)
            # fairseq's criterion with alignment views them as a matrix
            alpha = None if alpha is None else _roll_rows(alpha, leading).contiguous()
        return t, {"attn": None if alpha is None else [alpha]}

    def _words_after(self, previous: Tensor) -> Tensor:
        """Return the word at each position, which is the next one's previous word."""
        words = nn.functional.pad(previous[:, 1:], (0, 1), value=self.dictionary.eos())
        return words.masked_fill(words.eq(self.dictionary.pad()), self.dictionary.eos())

    @in_compute_dtype
    def without_each(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        target: Tensor,
        ranks: Tensor | None = None,
    ) -> Tensor | None:
        """See ``paper.network.Decoder.without_each``; target words are padded on the right."""
        return self.network.without_each(prev_output_tokens, encoder_out.by_row(), target, ranks)

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
        """Follow the beam: row i continues hypothesis ``new_order[i]``."""
        steps = self.get_incremental_state(incremental_state, "steps")
        if steps is not None:
            steps.select(new_order)

    @property
    @in_compute_dtype
    def steps_are_fast(self) -> bool:
        """Whether a search with ``begin`` is faster than calling a decoder in fairseq's way."""
        return self.network.steps_are_fast

    @in_compute_dtype
    def backend(self) -> Backend:
        """Return the decoder's backend, see ``paper.network.Decoder.backend``."""
        return self.network.backend

    def check_search(self) -> None:
        """See ``inference.search.generator.StepwiseDecoder``."""
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


def _leading_padding(tokens: Tensor, pad: int) -> Tensor:
    """Return the number of leading pads in each row, ``(batch,)``."""
    return tokens.eq(pad).long().cumprod(dim=1).sum(dim=1)


def _roll_rows(x: Tensor, shift: Tensor) -> Tensor:
    """Move row i of ``(batch, time, ...)`` by ``shift[i]`` positions to the right, cyclically."""
    if x.device.type == "cpu" and not shift.any():  # a GPU's answer would mean waiting
        return x
    time = torch.arange(x.size(1), device=x.device)
    index = (time - shift.unsqueeze(1)) % x.size(1)
    return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(x.shape))
