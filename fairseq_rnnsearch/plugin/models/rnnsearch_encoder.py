"""The encoder as fairseq sees it."""

from fairseq.models import FairseqEncoder
from torch import Tensor

from fairseq_rnnsearch.model.sides import EncoderOut, EncoderSide
from fairseq_rnnsearch.runs.options import ANY_LENGTH


class RNNSearchEncoder(EncoderSide, FairseqEncoder):
    """fairseq's view of ``paper.network.Encoder``."""

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Select rows: one for each hypothesis of the beam, in a new order."""
        return encoder_out.select(new_order)

    def max_positions(self) -> int:
        return ANY_LENGTH
