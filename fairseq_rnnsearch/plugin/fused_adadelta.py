"""Adadelta and the norm of gradients in Triton: one launch each for all parameters.

A GPU waits for a program that launches a kernel for each parameter. So a kernel gets a table with
the addresses of all tensors, and finds out which of them its numbers belong to.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # numbers of each program
BLOCK_OF_NORM = 4096
_TABLES = 16  # cached, because PyTorch reuses the same few addresses for gradients
_ALIGNED = 16  # bytes


class _Table(NamedTuple):
    """Where tensors lie.

    Attributes:
        rows: on the device, for each row of tensors of one size: its first block, its numbers and
            its addresses.
        blocks: how many programs there are.
        constants: of the kernels.
    """

    rows: Tensor
    blocks: int
    constants: dict[str, int]


def update(
    rows: Sequence[Sequence[Tensor]], group: dict, sound: Tensor | None, factor: Tensor | None
) -> None:
    """Update parameters in place, as ``OnePassAdadelta`` describes; a launch for each type.

    Args:
        rows: each parameter, its gradient, E[g^2] and E[D^2], contiguous, all four of one type.
        sound: 1, or 0 to skip the update; None: 1.
        factor: multiplies the gradients, as clipping does; None: 1.
    """
    for dtype in dict.fromkeys(row[0].dtype for row in rows):
        of_type = [row for row in rows if row[0].dtype == dtype]
        table = _table(of_type, BLOCK)
        _update[(table.blocks,)](
            *(table.rows, of_type[0][0], sound, factor),
            *(group["rho"], group["eps"], group["weight_decay"], float(group["lr"])),
            **table.constants,
        )


def norm_of(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of all gradients together, ``()``; they are contiguous and of one type."""
    table = _table([[gradient] for gradient in gradients], BLOCK_OF_NORM)
    squares = gradients[0].new_empty(table.blocks)
    _squares[(table.blocks,)](table.rows, squares, **table.constants)
    return squares.sum().sqrt()


def _table(rows: Sequence[Sequence[Tensor]], block: int) -> _Table:
    sizes = tuple(row[0].numel() for row in rows)
    places = tuple(tuple(tensor.data_ptr() for tensor in row) for row in rows)
    return _table_of(sizes, places, rows[0][0].device, block)


@lru_cache(_TABLES)
def _table_of(
    sizes: tuple[int, ...], places: tuple[tuple[int, ...], ...], device: torch.device, block: int
) -> _Table:
    rows, blocks = [], 0
    for size, of_row in zip(sizes, places, strict=True):
        rows.append((blocks, size, *of_row))
        blocks += triton.cdiv(size, block)
    constants = {"COUNT": len(rows), "ROWS": triton.next_power_of_2(len(rows)), "BLOCK": block}
    is_aligned = all(place % _ALIGNED == 0 for of_row in places for place in of_row)
    constants["ALIGNED"] = _ALIGNED if is_aligned else 1
    on_device = torch.tensor(rows, dtype=torch.int64).to(device, non_blocking=True)
    return _Table(on_device, blocks, constants)


# --- kernels --------------------------------------------------------------------------------------


@triton.jit
def _row(
    rows, COUNT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
) -> tl.tuple:
    """The row that this program works for, and its place among the row's numbers."""
    k, block = tl.arange(0, ROWS), tl.program_id(0).to(tl.int64)
    firsts = tl.load(rows + k * WIDTH, mask=k < COUNT, other=0)
    row = rows + (tl.sum(((firsts <= block) & (k < COUNT)).to(tl.int32), axis=0) - 1) * WIDTH
    return row, (block - tl.load(row)) * BLOCK + tl.arange(0, BLOCK)


@triton.jit
def _tensor(row, column: tl.constexpr, like, ALIGNED: tl.constexpr) -> tl.tensor:
    """The tensor whose address is in a column."""
    return tl.multiple_of(tl.load(row + column).to(like.dtype), ALIGNED)


@triton.jit
def _load(tensor, at, here) -> tl.tensor:
    return tl.load(tensor + at) if here is None else tl.load(tensor + at, mask=here, other=0.0)


@triton.jit
def _squares(
    rows, squares,
    COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, ALIGNED: tl.constexpr,
) -> None:  # fmt: skip
    row, at = _row(rows, COUNT, ROWS, 3, BLOCK)
    gradient, numbers = _tensor(row, 2, squares, ALIGNED), tl.load(row + 1)
    if tl.max(at, axis=0) < numbers:  # a whole block is read 16 bytes at a time
        g = _load(gradient, at, None)
    else:
        g = _load(gradient, at, at < numbers)
    tl.store(squares + tl.program_id(0), tl.sum(g * g, axis=0))


@triton.jit
def _update(
    rows, like, sound, factor, rho, eps, decay, step,
    COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, ALIGNED: tl.constexpr,
) -> None:  # fmt: skip
    row, at = _row(rows, COUNT, ROWS, 6, BLOCK)
    numbers = tl.load(row + 1)
    if sound is not None:
        numbers *= tl.load(sound)  # by 0 or 1: nothing is read or written
    if tl.max(at, axis=0) < numbers:
        _update_block(row, at, None, like, factor, rho, eps, decay, step, ALIGNED)
    else:
        _update_block(row, at, at < numbers, like, factor, rho, eps, decay, step, ALIGNED)


@triton.jit
def _update_block(
    row, at, here, like, factor, rho, eps, decay, step, ALIGNED: tl.constexpr
) -> None:  # fmt: skip
    parameter, gradient = _tensor(row, 2, like, ALIGNED), _tensor(row, 3, like, ALIGNED)
    square_avg, acc_delta = _tensor(row, 4, like, ALIGNED), _tensor(row, 5, like, ALIGNED)
    p, g = _load(parameter, at, here), _load(gradient, at, here)
    if factor is not None:
        g *= tl.load(factor)
    g += decay * p
    e_g, e_d = _load(square_avg, at, here), _load(acc_delta, at, here)
    e_g = rho * e_g + (1 - rho) * g * g
    d = tl.sqrt(e_d + eps) / tl.sqrt(e_g + eps) * g
    tl.store(square_avg + at, e_g, mask=here)
    tl.store(acc_delta + at, rho * e_d + (1 - rho) * d * d, mask=here)
    tl.store(parameter + at, p - step * d, mask=here)
