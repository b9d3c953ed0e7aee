"""The encoder as fairseq sees it. The mathematics is in ``paper.network``."""

from typing import NamedTuple

from fairseq.models import FairseqEncoder
from torch import Tensor

from fairseq_rnnsearch.paper.network import EncodedSource, Encoder
from fairseq_rnnsearch.plugin.models.precision import in_compute_dtype
from fairseq_rnnsearch.runs.options import ANY_LENGTH


class EncoderOut(NamedTuple):
    """What the encoder passes to the decoder.

    Attributes:
        source: one row per sentence, whatever rows a search selects.
        sentences: ``(rows,)``, the row of ``source`` that each row or hypothesis translates; None,
            before a search selects any: each its own.
    """

    source: EncodedSource
    sentences: Tensor | None = None

    def select(self, new_order: Tensor) -> "EncoderOut":
        """Return the rows in a new order, without copying ``source``."""
        if self.sentences is not None:
            new_order = self.sentences.index_select(0, new_order)
        return EncoderOut(self.source, new_order)

    def by_row(self) -> EncodedSource:
        """Return the sentence of each row."""
        if self.sentences is None:
            return self.source
        return EncodedSource(*(part.index_select(0, self.sentences) for part in self.source))


class RNNSearchEncoder(FairseqEncoder):
    """fairseq's view of ``paper.network.Encoder``."""

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
