"""Products of rows whose length is often no power of two."""

import torch
from torch import Tensor, nn

ALIGNED = 8  # numbers: 16 bytes of bfloat16


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return W x + b: ``(..., in)`` to ``(..., out)``."""
    return nn.functional.linear(aligned(x), aligned(weight), bias)


def aligned(rows: Tensor) -> Tensor:
    """Return rows that begin at multiples of 16 bytes on a GPU, by columns of zeros at their end.

    cuBLAS has no fast product for others, such as the paper's rows of 500 and 620 in bfloat16.
    """
    more = -rows.size(-1) % ALIGNED
    if not more or rows.device.type == "cpu":
        return rows
    operands = autocast_type(rows.device.type)
    if operands and rows.dtype == torch.float32:  # the product would do it, after the padding
        rows = rows.to(operands)
    return nn.functional.pad(rows, (0, more))


def autocast_type(device: str) -> torch.dtype | None:
    """Return autocast's type for a kind of device, or None if autocast is off."""
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return None
