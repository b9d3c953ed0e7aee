"""Adadelta in Triton: one launch per parameter, which reads and writes memory once."""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # numbers of each program


def update(
    parameter: Tensor,
    gradient: Tensor,
    square_avg: Tensor,
    acc_delta: Tensor,
    sound: Tensor | None,
    factor: Tensor | None,
    group: dict,
) -> None:
    """Update in place, as ``OnePassAdadelta`` describes; all four must be contiguous.

    Args:
        sound: 1, or 0 to skip the update; None: 1.
        factor: multiplies the gradient, as clipping does; None: 1.
    """
    numbers = parameter.numel()
    _update[(triton.cdiv(numbers, BLOCK),)](
        *(parameter, gradient, square_avg, acc_delta),
        *(sound, factor),
        *(group["rho"], group["eps"], group["weight_decay"], float(group["lr"]), numbers),
        HAS_SOUND=sound is not None,
        HAS_FACTOR=factor is not None,
        BLOCK=BLOCK,
    )


@triton.jit
def _update(
    parameter, gradient, square_avg, acc_delta, sound, factor, rho, eps, decay, step, numbers,
    HAS_SOUND: tl.constexpr, HAS_FACTOR: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if HAS_SOUND:
        numbers *= tl.load(sound)  # by 0 or 1: nothing is read or written
    here = at < numbers
    p = tl.load(parameter + at, mask=here, other=0.0)
    g = tl.load(gradient + at, mask=here, other=0.0)
    if HAS_FACTOR:
        g *= tl.load(factor)
    g += decay * p
    e_g = tl.load(square_avg + at, mask=here, other=0.0)
    e_d = tl.load(acc_delta + at, mask=here, other=0.0)
    e_g = rho * e_g + (1 - rho) * g * g
    d = tl.sqrt(e_d + eps) / tl.sqrt(e_g + eps) * g
    tl.store(square_avg + at, e_g, mask=here)
    tl.store(acc_delta + at, rho * e_d + (1 - rho) * d * d, mask=here)
    tl.store(parameter + at, p - step * d, mask=here)
