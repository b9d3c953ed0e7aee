"""What the network hands to a backend; ``reference.Reference`` says what a backend does."""

from typing import NamedTuple

from torch import Tensor

from fairseq_rnnsearch.paper.equations import (
    Attention,
    BiasedEmbedding,
    DeepOutput,
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
