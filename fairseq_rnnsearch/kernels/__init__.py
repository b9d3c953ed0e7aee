"""The time loops: everything that must wait for the previous step, and nothing else.

Callers hand in all products that do not depend on a state and get all states back, so that an
implementation is free to choose its own loop, its own backward pass and its own memory layout.
"""

from fairseq_rnnsearch.kernels.interface import DecoderWeights, Memory, RecurrentWeights
from fairseq_rnnsearch.kernels.reference import (
    attend,
    bidirectional_recurrence,
    decoder_recurrence,
    gated_recurrence,
)

__all__ = [
    "DecoderWeights",
    "Memory",
    "RecurrentWeights",
    "attend",
    "bidirectional_recurrence",
    "decoder_recurrence",
    "gated_recurrence",
]
