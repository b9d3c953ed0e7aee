"""What takes the time: the loops over time, and the cost of words among all of a dictionary.

The loops hold everything that must wait for the previous step, and nothing else.
Callers hand in all products that do not depend on a state and get all states back, so that an
implementation is free to choose its own loop, its own backward pass and its own memory layout.
``select`` gives them; ``reference`` is the plain one and documents the functions.
"""

from fairseq_rnnsearch.kernels.fast_steps import arranges
from fairseq_rnnsearch.kernels.interface import (
    DecoderWeights,
    Memory,
    RecurrentWeights,
    StepWeights,
)
from fairseq_rnnsearch.kernels.packed import forget
from fairseq_rnnsearch.kernels.selection import KERNELS, Kernels, runs_fast, select
from fairseq_rnnsearch.kernels.steps import Steps

__all__ = [
    "KERNELS",
    "DecoderWeights",
    "Kernels",
    "Memory",
    "RecurrentWeights",
    "StepWeights",
    "Steps",
    "arranges",
    "forget",
    "runs_fast",
    "select",
]
