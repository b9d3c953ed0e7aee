"""From source words to annotations (section 3.2, appendix A.2.1)."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels import Direction, Reference, RunByBackend
from fairseq_rnnsearch.network.embedded_words import embed_words
from fairseq_rnnsearch.network.precision import in_compute_dtype
from fairseq_rnnsearch.paper.equations import BiasedEmbedding, GatedUnit


class EncodedSource(NamedTuple):
    """One source sentence per row.

    Attributes:
        annotations: ``(batch, source, 2n)``, forward then backward states; ``(batch, source, n)``
            for RNNencdec. At padding they repeat a neighbour and carry no weight.
        padding: ``(batch, source)``, true for padding.
        summary: ``(batch, n)``, the decoder's starting point: the backward state of the first
            word, or, for RNNencdec, the forward state of the last.
    """

    annotations: Tensor
    padding: Tensor
    summary: Tensor


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


class Encoder(RunByBackend):
    """The bidirectional encoder of RNNsearch, or the forward one of RNNencdec.

    Args:
        dictionary: the source symbols; it has a length and ``pad()``.
        embedding_size: m.
        hidden_size: n, per direction.
        bidirectional: false for RNNencdec.
        dropout: probability of dropping an element of an embedded word, while training.
        kernels: what runs the time loops, one of ``kernels.KERNELS``.
        compute_dtype: the type of the operands of products, see ``network.precision``.
    """

    def __init__(
        self,
        dictionary: Any,
        embedding_size: int,
        hidden_size: int,
        *,
        bidirectional: bool = True,
        dropout: float = 0.0,
        kernels: str = "auto",
        compute_dtype: str = "float32",
    ) -> None:
        super().__init__(kernels)
        self.dictionary, self.compute_dtype = dictionary, compute_dtype
        self.embedding = BiasedEmbedding(len(dictionary), embedding_size)
        self.forward_unit = GatedUnit(embedding_size, hidden_size)
        self.backward_unit = GatedUnit(embedding_size, hidden_size) if bidirectional else None
        self.embedding_dropout = nn.Dropout(dropout)

    def init_weights(self) -> None:
        """Start as in appendix B.1."""
        for part in (self.embedding, self.forward_unit, self.backward_unit):
            if part is not None:
                part.init_weights()

    @in_compute_dtype
    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_) -> EncoderOut:
        """Encode word numbers, ``(batch, source)``, each sentence with its end symbol.

        Padding may be on either side: it never changes a state.
        """
        padding, backend = src_tokens.eq(self.dictionary.pad()), self.backend
        units = [unit for unit in (self.forward_unit, self.backward_unit) if unit is not None]
        embedded = embed_words(src_tokens.T, self.embedding, self.embedding_dropout, backend)
        directions = [
            Direction(embedded.through(unit.word_inputs), unit, unit is self.backward_unit)
            for unit in units
        ]
        states = backend.recurrence(directions, present=~padding.T)
        if self.backward_unit is None:
            summary = states[-1]
        else:
            summary = states[0, :, self.forward_unit.hidden_size :]
        annotations = torch.transpose(states, 0, 1).contiguous()
        return EncoderOut(EncodedSource(annotations, padding, summary))

    @property
    def backend(self) -> Reference:
        """The backend that runs the encoder on its parameters' current device; see `Decoder`."""
        return self.backend_for((self.forward_unit, self.backward_unit), "encoder")
