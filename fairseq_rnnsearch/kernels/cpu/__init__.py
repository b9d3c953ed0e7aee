"""The fast backend for CPUs: hand-derived backward passes and compiled steps.

Training runs ``recurrence``, ``decoder_loop`` and ``output_cost``, whose elementwise operations are
in C (``operations``); searches run in the ``engine``.
"""

from collections.abc import Iterable

import torch
from torch import nn

from fairseq_rnnsearch.kernels.cpu import decoder_loop, operations, output_cost, recurrence
from fairseq_rnnsearch.kernels.derived import obstacle
from fairseq_rnnsearch.kernels.reference import Reference


class CPU(Reference):
    """The backend for a CPU; see ``Reference`` for what the functions do."""

    name, place = "fast", "a CPU"
    needs = "a CPU, with a C compiler, all in one of float32, float64 and bfloat16"

    recurrence = staticmethod(recurrence.recurrence)
    decoder_recurrence = staticmethod(decoder_loop.decoder_recurrence)
    output_cost = staticmethod(output_cost.output_cost)

    def why_not(self, parts: Iterable[nn.Module]) -> str | None:
        found = obstacle(parts, on_cpu=True)
        if found is None and operations.FUNCTIONS.of_type(torch.float32) is None:
            return "C that is not compiled"
        return found
