"""Sums, and differences of nearly equal numbers, are in float32 or wider."""

import torch
from torch import Tensor

# torch's products do from version 2.8 on
_TAKES_OUT_DTYPE = "dtype" in torch.ops.aten.mm.overloads()


def accurate_type(dtype: torch.dtype) -> torch.dtype:
    """Return float32 or a wider type: in which to sum numbers of a type."""
    return torch.promote_types(dtype, torch.float32)


def accurate_product(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b, matrices or batches of them, without rounding sums to the operands' type."""
    accurate = accurate_type(a.dtype)
    multiply = torch.mm if a.dim() == 2 else torch.bmm
    if a.is_cuda and a.dtype != accurate and _TAKES_OUT_DTYPE:
        return multiply(a, b, out_dtype=accurate)
    return multiply(a.to(accurate), b.to(accurate))
