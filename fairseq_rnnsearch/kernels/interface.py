"""What the network hands to a backend; ``reference.Reference`` says what a backend does."""

from typing import NamedTuple

from torch import Tensor

from fairseq_rnnsearch.paper.equations import (
    Attention,
    BiasedEmbedding,
    DeepOutput,
    Memory,
    OutputLayer,
    Unit,
)


class Direction(NamedTuple):
    """One pass over a sentence, from the first position to the last or in reverse."""

    inputs: Tensor  # (time, batch, 3n): what the unit adds at each position
    unit: Unit
    reverse: bool = False


class DecoderParts(NamedTuple):
    """All parts of a decoder except its initial state."""

    embedding: BiasedEmbedding
    unit: Unit
    alignment_model: Attention | None  # None: RNNencdec
    readout: DeepOutput
    output: OutputLayer


class SearchStart(NamedTuple):
    """What a search's decoder starts from."""

    order: str  # one of ``network.DECODER_ORDERS``
    parts: DecoderParts
    memory: Memory | None  # annotations and keys, one row per sentence; None: RNNencdec
    summary: Tensor  # (sentences, n): RNNencdec's context
    initial: Tensor  # (sentences, n): s_0
    sentences: Tensor  # (rows,): the sentence of each hypothesis
