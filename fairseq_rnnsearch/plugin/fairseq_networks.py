"""The encoder and the decoder as fairseq sees them."""

from fairseq.models import FairseqEncoder, FairseqIncrementalDecoder
from torch import Tensor

from fairseq_rnnsearch.network import Decoder, Encoder, EncoderOut
from fairseq_rnnsearch.runs.options import ANY_LENGTH


class RNNSearchEncoder(Encoder, FairseqEncoder):
    """fairseq's view of ``network.Encoder``."""

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Select rows: one for each hypothesis of the beam, in a new order."""
        return encoder_out.select(new_order)

    def max_positions(self) -> int:
        return ANY_LENGTH


class RNNSearchDecoder(Decoder, FairseqIncrementalDecoder):
    """fairseq's view of ``network.Decoder``."""

    def __init__(self, *sizes: object, **options: object) -> None:
        super().__init__(*sizes, **options)
        # what the constructors of fairseq's classes do beside keeping the dictionary
        self.onnx_trace, self.adaptive_softmax = False, None
        self.init_incremental_state()

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut | None = None,
        incremental_state: dict | None = None,
        features_only: bool = False,
        **_: object,
    ) -> tuple[Tensor, dict]:
        """Score the words after ``prev_output_tokens``, ``(batch, target)``.

        With an incremental state, only the last column is new, and only the last position is
        returned.

        Returns:
            logits ``(batch, target, words)`` and ``{"attn": [weights]}`` with weights
            ``(batch, target, source)``; ``{"attn": None}`` for RNNencdec.
        """
        x, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return (x if features_only else self.output_layer(x)), extra

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut | None = None,
        incremental_state: dict | None = None,
        **_: object,
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
            t, alpha = self.features(prev_output_tokens, encoder_out)
        return t, {"attn": None if alpha is None else [alpha]}

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Follow the beam: row i continues hypothesis ``new_order[i]``."""
        steps = self.get_incremental_state(incremental_state, "steps")
        if steps is not None:
            steps.select(new_order)

    def max_positions(self) -> int:
        return ANY_LENGTH
