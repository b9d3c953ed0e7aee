"""The fast backend for CPUs: hand-derived backward passes and compiled steps.

Training runs ``recurrence``, ``decoder_loop`` and ``output_cost``; a search runs ``search_steps``
where the engine does not run it: in bfloat16. Their elementwise operations are in
``operations.py`` (PyTorch) and ``operations.c`` (C).
"""

from functools import partial

import torch

from fairseq_rnnsearch.kernels.cpu import (
    decoder_loop,
    output_cost,
    packed_weights,
    recurrence,
)
from fairseq_rnnsearch.kernels.cpu.search_steps import SearchSteps
from fairseq_rnnsearch.kernels.decoder_steps import DecoderSteps
from fairseq_rnnsearch.kernels.derived import obstacle
from fairseq_rnnsearch.kernels.interface import SearchStart
from fairseq_rnnsearch.kernels.reference import Reference


class CPU(Reference):
    """The backend for a CPU; see ``Reference`` for what the functions do."""

    name, place = "fast", "a CPU"
    needs = "a CPU, all in one of float32, float64 and bfloat16"

    recurrence = staticmethod(recurrence.recurrence)
    decoder_recurrence = staticmethod(decoder_loop.decoder_recurrence)
    output_cost = staticmethod(output_cost.output_cost)
    why_not = staticmethod(partial(obstacle, on_cpu=True))

    def decoder_steps(self, start: SearchStart) -> DecoderSteps:
        """See ``Reference``; falls back to ``reference`` for weights that cannot be arranged."""
        weight = start.parts.output.weight
        if not packed_weights.can_keep(weight) or start.initial.dtype == torch.bfloat16:
            return super().decoder_steps(start)
        return SearchSteps(start)
