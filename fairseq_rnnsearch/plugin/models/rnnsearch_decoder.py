"""The decoder as fairseq sees it."""

from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor

from fairseq_rnnsearch.kernels import Backend
from fairseq_rnnsearch.model.precision import in_compute_dtype
from fairseq_rnnsearch.model.sides import DecoderSide, EncoderOut
from fairseq_rnnsearch.runs.options import ANY_LENGTH


class RNNSearchDecoder(DecoderSide, FairseqIncrementalDecoder):
    """fairseq's view of ``paper.network.Decoder``."""

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
        ``paper.network.given_words.posterior``.

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
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the cost of the correct words, without ever storing all logits.

        Args:
            prev_output_tokens, target: words, ``(batch, target)``.

        Returns:
            the summed cost of all words but padding, their summed -log p, and the alignment
            weights, ``(batch, target, source)``, or None.
        """
        t, alpha = self.features(prev_output_tokens, encoder_out)
        words = target.flatten()
        present = words.ne(self.dictionary.pad())
        return *self.network.cost(t.flatten(0, 1), words, label_smoothing, present), alpha

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
            t, alpha = self.features(prev_output_tokens, encoder_out, posterior)
        return t, {"attn": None if alpha is None else [alpha]}

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Follow the beam: row i continues hypothesis ``new_order[i]``."""
        steps = self.get_incremental_state(incremental_state, "steps")
        if steps is not None:
            steps.select(new_order)

    @in_compute_dtype
    def backend(self) -> Backend:
        """Return the decoder's backend, see ``paper.network.Decoder.backend``."""
        return self.network.backend

    def max_positions(self) -> int:
        return ANY_LENGTH
