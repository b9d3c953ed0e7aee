"""The time loops on a CPU: the interface of ``reference``, several times as fast in places."""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.fast_decoder import decoder_recurrence
from fairseq_rnnsearch.kernels.fast_output import output_cost
from fairseq_rnnsearch.kernels.fast_recurrence import bidirectional_recurrence, gated_recurrence
from fairseq_rnnsearch.kernels.fast_steps import decoder_steps, output_logits

__all__ = [
    "bidirectional_recurrence",
    "decoder_recurrence",
    "decoder_steps",
    "gated_recurrence",
    "output_cost",
    "output_logits",
    "why_not",
]

TYPES = (torch.float32, torch.float64, torch.bfloat16)


def why_not(*tensors: Tensor) -> str | None:
    """Why these cannot be worked on here, or None if they can."""
    for tensor in tensors:
        if tensor.device.type != "cpu":
            return f"device {tensor.device.type}"
        if tensor.dtype not in TYPES:
            return f"{tensor.dtype}".removeprefix("torch.")
    if len(types := {tensor.dtype for tensor in tensors}) > 1:
        return " beside ".join(sorted(f"{t}".removeprefix("torch.") for t in types))
    return None
