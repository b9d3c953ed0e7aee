"""Sums, and differences of nearly equal numbers, are in float32 or wider."""

import torch
from torch import Tensor


def accurate_type(dtype: torch.dtype) -> torch.dtype:
    """Return float32 or a wider type: in which to sum numbers of a type."""
    return torch.promote_types(dtype, torch.float32)


def log_softmax(logits: Tensor, temperature: float, out: Tensor) -> None:
    """Write log p of a softmax of logits / temperature to ``out``, which is accurate; by torch."""
    x = logits.to(out.dtype)
    if temperature != 1:  # a division rounds, of large numbers more than their differences are
        x = (x - x.amax(dim=-1, keepdim=True)) / temperature
    torch.log_softmax(x, dim=-1, out=out)
