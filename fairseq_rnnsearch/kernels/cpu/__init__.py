"""The fast backend for CPUs: hand-derived backward passes and compiled steps.

Training runs ``recurrence``, ``decoder_loop`` and ``output_cost``, whose elementwise operations are
in ``operations.py`` (PyTorch) and ``operations.c`` (C); searches run in the ``engine``.
"""

from functools import partial

from fairseq_rnnsearch.kernels.cpu import decoder_loop, output_cost, recurrence
from fairseq_rnnsearch.kernels.derived import obstacle
from fairseq_rnnsearch.kernels.reference import Reference


class CPU(Reference):
    """The backend for a CPU; see ``Reference`` for what the functions do."""

    name, place = "fast", "a CPU"
    needs = "a CPU, all in one of float32, float64 and bfloat16"

    recurrence = staticmethod(recurrence.recurrence)
    decoder_recurrence = staticmethod(decoder_loop.decoder_recurrence)
    output_cost = staticmethod(output_cost.output_cost)
    why_not = staticmethod(partial(obstacle, on_cpu=True))
