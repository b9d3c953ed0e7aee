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
LOWERED = {torch.float32, torch.bfloat16}


def why_not(*tensors: Tensor) -> str | None:
    """Why these cannot be worked on here, or None if they can.

    Under ``torch.autocast`` float32 and bfloat16 may stand side by side.
    """
    for tensor in tensors:
        if tensor.device.type != "cpu":
            return f"device {tensor.device.type}"
        if tensor.dtype not in TYPES:
            return _name(tensor.dtype)
    types = {tensor.dtype for tensor in tensors}
    if torch.is_autocast_enabled("cpu"):
        operands = torch.get_autocast_dtype("cpu")
        return None if types | {operands} <= LOWERED else f"autocast to {_name(operands)}"
    return " beside ".join(sorted(map(_name, types))) if len(types) > 1 else None


def _name(dtype: torch.dtype) -> str:
    return f"{dtype}".removeprefix("torch.")
