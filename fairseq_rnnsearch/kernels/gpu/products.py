"""Products with few rows, and what follows each of them, in Triton: one launch for both.

A step of a recurrence multiplies as many rows as the batch has sentences. Such a product takes as
long as reading its weights, so that launches and elementwise operations between products would
take most of the time. The equations are those of ``cpu.operations``, which explains the names.
States and gradients of states are exact (float32); ``..._in`` are operands of products. In memory,
a step's second direction comes some rows after the first: equally many in all tensors of the unit,
another number in those of states before the step.

In the kernels a name is a pointer, and ``to_`` before it marks its row stride, if rows may be
strided. Row strides and a model's widths are compile-time constants: of other numbers the compiler
knows only whether 16 divides them, and it would load the paper's rows of 1000 one by one.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

COLUMNS = 32  # of each program's product, or of each of the two gates
ROWS = 128  # the most of each program's product
WARPS = 8  # of each program with a product
STAGES = 4  # blocks of operands on their way from memory, if shared memory holds as many
WIDTH = 512  # numbers of each program without a product
PROGRAMS = 132  # the GPUs that this is tuned for have at least as many multiprocessors
K_BYTES = 256  # of a row that is multiplied at a time


def gates(
    inputs: Tensor,
    state: Tensor,
    state_in: Tensor,
    weight: Tensor,
    present: Tensor | None,
    unit: Tensor,
    reset_state: Tensor,
) -> None:
    """Compute z and r into ``unit``, and r o h into ``reset_state``.

    Args:
        inputs: [x, x_z, x_r], operands or exact, ``(directions, batch, 3n)``.
        state, state_in: h, ``(directions, batch, n)``.
        weight: U_gates, operands, ``(directions, 2n, n)``.
        present: exact, ``(directions, batch)``, 1 for a word, 0 for padding, which keeps the
            state; or None.
        unit: [h~, z, r], exact, ``(directions, batch, 3n)``.
        reset_state: operands, ``(directions, batch, n)``.
    """
    directions, batch, n = state.shape
    grid = batch, n, directions, COLUMNS
    tensors = (inputs, state, state_in, weight, present, unit, reset_state)
    _launch(_gates, weight, grid, *tensors, n, _apart(unit), _apart(state))


def new_state(
    inputs: Tensor,
    context: Tensor | None,
    state: Tensor,
    reset_state: Tensor,
    weight: Tensor,
    unit: Tensor,
    following: Tensor,
    following_in: Tensor,
) -> None:
    """Compute h~ into ``unit``, and h' into ``following`` and, as operands, ``following_in``.

    Args:
        context: what the context adds to x, exact, ``(directions, batch, n)``, or None.
        weight: U, operands, ``(directions, n, n)``.
    """
    directions, batch, n = state.shape
    grid = batch, n, directions, COLUMNS
    tensors = (inputs, context, state, reset_state, weight, unit, following, following_in)
    _launch(_new_state, weight, grid, *tensors, n, _apart(unit), _apart(state))


def unit_backward(
    d_product: Tensor | None,
    d_state: Tensor,
    d_output: tuple[Tensor, int] | None,
    unit: Tensor | None,
    state: Tensor | None,
    d_inputs: Tensor | None,
) -> None:
    """Compute d_a and d_a_z of a step, and the part of d_h that no product contributes to.

    Args:
        d_product: what the products with h' pass back, operands, ``(directions, batch, n)``, or
            None.
        d_state: exact, ``(directions, batch, n)``. With ``d_product`` and ``d_output`` it adds up
            to d_h'; it becomes d_h' o (1 - z), or d_h' without a step.
        d_output: operands, ``(batch, n)``, of the first direction, and how many numbers after it
            the second's begin (before it, if negative); or None. Strides are multiples of n.
        unit, state: [h~, z, r] and h of the step; None: there is no step before.
        d_inputs: operands, ``(directions, batch, 3n)``, rows may be strided, or None.
    """
    directions, batch, n = d_state.shape
    d_out, further = (None, 0) if d_output is None else d_output
    strides = further // n, 0 if d_out is None else d_out.stride(0) // n
    tensors = (d_product, d_state, d_out, unit, state, d_inputs)
    _unit_backward[(triton.cdiv(n, WIDTH), batch, directions)](
        *(*tensors, n, _apart(unit), _apart(state), *strides, *_strides(d_inputs), batch),
        WIDTH=WIDTH,
    )


def reset_backward(
    d_inputs: Tensor, weight: Tensor, d_state: Tensor, unit: Tensor, state: Tensor
) -> None:
    """Compute d_a_r into the last third of ``d_inputs``, and add d_q o r to ``d_state``.

    Args:
        d_inputs: as after ``unit_backward``.
        weight: U, operands, ``(directions, n, n)``.
    """
    directions, batch, n = state.shape
    grid = batch, n, directions, COLUMNS
    tensors = (d_inputs, weight, d_state, unit, state)
    apart = _apart(unit), _apart(state)
    _launch(_reset_backward, weight, grid, *tensors, n, *apart, *_strides(d_inputs))


def _strides(x: Tensor | None) -> tuple[int, int]:
    """Return the strides of directions and of rows."""
    return (0, 0) if x is None else x.stride()[:2]


def _apart(x: Tensor | None) -> int:
    """Return how many rows lie from one direction's to the other's."""
    return 0 if x is None else x.stride(0) // x.size(-1)


def _launch(
    kernel: triton.JITFunction,
    weight: Tensor,
    grid: tuple[int, int, int, int],
    *args: Tensor | int | None,
) -> None:
    """Launch programs for some columns and some rows of a direction each.

    Args:
        weight: tells the type of the operands.
        grid: rows, columns, directions, and columns of each program.
    """
    batch, width, directions, columns = grid
    tiles = triton.cdiv(width, columns)
    parts = max(1, min(PROGRAMS // (tiles * directions), triton.cdiv(batch, 16)))
    rows = min(ROWS, triton.cdiv(batch, parts))
    block = max(16, triton.next_power_of_2(rows))
    # in float32, three TF32 products lose no more than its own, and take a third of its time
    is_exact = torch.get_float32_matmul_precision() == "highest"
    stages = _shared_memory(weight.device) // ((block + 2 * columns) * K_BYTES)
    kernel[(tiles, triton.cdiv(batch, rows), directions)](
        *args,
        batch,
        rows,
        ROWS=block,
        COLUMNS=columns,
        BLOCK_K=K_BYTES // weight.element_size(),
        PRECISION="tf32x3" if is_exact else "tf32",
        num_warps=WARPS,
        num_stages=max(1, min(STAGES, stages)),
    )


@cache
def _shared_memory(device: torch.device) -> int:
    """Return the bytes that a program may have."""
    if device.type != "cuda":
        return 0
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


# --- kernels --------------------------------------------------------------------------------------


@triton.jit
def tanh(x) -> tl.tensor:
    """tanh, accurate to the last digits even near 0, where a quotient of exponentials is not."""
    e = tl.exp(-2 * tl.abs(x))
    large = (1 - e) / (1 + e)
    x2 = x * x
    series = 1 + x2 * (-1 / 3 + x2 * (2 / 15 + x2 * (-17 / 315 + x2 * (62 / 2835))))
    return tl.where(x2 < 0.0625, x * series, tl.where(x < 0, -large, large))


@triton.jit
def tanh_slope(x) -> tl.tensor:
    """1 - tanh(x)^2, as accurate."""
    e = tl.exp(-2 * tl.abs(x))
    r = 1 / (1 + e)
    return 4 * e * r * r


@triton.jit
def _sigmoid(x) -> tl.tensor:
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _product(
    x, weight, has_row, has_column, to_k: tl.constexpr, k: tl.constexpr,
    exact: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """The product of rows at ``x`` with the columns whose weights begin at ``weight``."""
    total = tl.zeros((x.shape[0], weight.shape[0]), exact)
    for start in range(0, k, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        a = tl.load(x[:, None] + at[None, :], mask=has_row[:, None] & (at < k)[None, :], other=0.0)
        b = tl.load(
            weight[None, :] + at[:, None] * to_k,
            mask=(at < k)[:, None] & has_column[None, :], other=0.0,
        )  # fmt: skip
        total = tl.dot(a, b, total, input_precision=PRECISION)
    return total


@triton.jit
def _place(batch, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr) -> tl.tuple:
    k = tl.arange(0, ROWS)
    row = tl.program_id(1) * rows + k
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    return row.to(tl.int64), (k < rows) & (row < batch), column


@triton.jit
def _gates(
    inputs, state, state_in, weight, present, unit, reset_state, n: tl.constexpr,
    apart, states_apart, batch, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    row, has_row, j = _place(batch, rows, ROWS, COLUMNS)
    direction = tl.program_id(2).to(tl.int64)
    before, row = row + direction * states_apart, row + direction * apart
    exact: tl.constexpr = state.dtype.element_ty
    here = has_row[:, None] & (j < n)[None, :]
    # what follows the product is read before it, so that no program waits for it
    of_unit = row[:, None] * 3 * n + j[None, :]
    x_z = tl.load(inputs + of_unit + n, mask=here, other=0.0)
    x_r = tl.load(inputs + of_unit + 2 * n, mask=here, other=0.0)
    h = tl.load(state + before[:, None] * n + j[None, :], mask=here, other=0.0)
    x, w = state_in + before * n, weight + direction * 2 * n * n + j * n
    z = tl.zeros((ROWS, COLUMNS), exact)
    r = z
    for start in range(0, n, BLOCK_K):  # two of ``_product``, whose rows are read once
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(x[:, None] + k[None, :], mask=has_row[:, None] & (k < n)[None, :], other=0.0)
        at, its = w[None, :] + k[:, None], (k < n)[:, None] & (j < n)[None, :]
        z = tl.dot(a, tl.load(at, mask=its, other=0.0), z, input_precision=PRECISION)
        r = tl.dot(a, tl.load(at + n * n, mask=its, other=0.0), r, input_precision=PRECISION)
    z, r = _sigmoid(z + x_z), _sigmoid(r + x_r)
    if present is not None:
        z *= tl.load(present + row, mask=has_row, other=0.0)[:, None]
    tl.store(unit + of_unit + n, z, mask=here)
    tl.store(unit + of_unit + 2 * n, r, mask=here)
    tl.store(reset_state + row[:, None] * n + j[None, :], r * h, mask=here)


@triton.jit
def _new_state(
    inputs, context, state, reset_state, weight, unit, following, following_in, n: tl.constexpr,
    apart, states_apart, batch, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    row, has_row, j = _place(batch, rows, ROWS, COLUMNS)
    direction = tl.program_id(2).to(tl.int64)
    before, row = row + direction * states_apart, row + direction * apart
    exact: tl.constexpr = state.dtype.element_ty
    here = has_row[:, None] & (j < n)[None, :]
    at, of_unit = row[:, None] * n + j[None, :], row[:, None] * 3 * n + j[None, :]
    a = tl.load(inputs + of_unit, mask=here, other=0.0).to(exact)
    if context is not None:
        a += tl.load(context + at, mask=here, other=0.0)
    z = tl.load(unit + of_unit + n, mask=here, other=0.0)
    h = tl.load(state + before[:, None] * n + j[None, :], mask=here, other=0.0)
    x, w = reset_state + row * n, weight + direction * n * n + j * n
    a += _product(x, w, has_row, j < n, 1, n, exact, BLOCK_K, PRECISION)
    proposed = tanh(a)
    h += z * (proposed - h)
    tl.store(unit + of_unit, proposed, mask=here)
    tl.store(following + at, h, mask=here)
    tl.store(following_in + at, h, mask=here)


@triton.jit
def _unit_backward(
    d_product, d_state, d_output, unit, state, d_inputs, n: tl.constexpr,
    apart, states_apart, to_d_output_direction, to_d_output,
    to_d_inputs_direction, to_d_inputs: tl.constexpr, batch, WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    j = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    row, direction = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    here = j < n
    at = (direction * batch + row) * n + j
    d = tl.load(d_state + at, mask=here, other=0.0)
    if d_product is not None:
        d += tl.load(d_product + at, mask=here, other=0.0).to(d.dtype)
    if d_output is not None:
        of_output = (direction * to_d_output_direction + row * to_d_output) * n + j
        d += tl.load(d_output + of_output, mask=here, other=0.0).to(d.dtype)
    if unit is not None:
        of_unit = (direction * apart + row) * 3 * n + j
        proposed = tl.load(unit + of_unit, mask=here, other=0.0)
        z = tl.load(unit + of_unit + n, mask=here, other=0.0)
        h = tl.load(state + (direction * states_apart + row) * n + j, mask=here, other=0.0)
        changed = d * z
        d_x = d_inputs + direction * to_d_inputs_direction + row * to_d_inputs + j
        tl.store(d_x, changed * (1 - proposed * proposed), mask=here)
        tl.store(d_x + n, (proposed - h) * changed * (1 - z), mask=here)
        d -= changed
    tl.store(d_state + at, d, mask=here)


@triton.jit
def _reset_backward(
    d_inputs, weight, d_state, unit, state, n: tl.constexpr,
    apart, states_apart, to_d_inputs_direction, to_d_inputs: tl.constexpr,
    batch, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    row, has_row, j = _place(batch, rows, ROWS, COLUMNS)
    direction = tl.program_id(2).to(tl.int64)
    exact: tl.constexpr = d_state.dtype.element_ty
    d_x = d_inputs + direction * to_d_inputs_direction + row * to_d_inputs
    here = has_row[:, None] & (j < n)[None, :]
    of_unit = (row + direction * apart)[:, None] * 3 * n + j[None, :]
    before = (row + direction * states_apart)[:, None] * n + j[None, :]
    at = (row + direction * batch)[:, None] * n + j[None, :]
    r = tl.load(unit + of_unit + 2 * n, mask=here, other=0.0)
    h = tl.load(state + before, mask=here, other=0.0)
    d = tl.load(d_state + at, mask=here, other=0.0)
    w = weight + direction * n * n + j
    d_q = _product(d_x, w, has_row, j < n, n, n, exact, BLOCK_K, PRECISION)
    tl.store(d_x[:, None] + 2 * n + j[None, :], d_q * h * r * (1 - r), mask=here)
    tl.store(d_state + at, d + d_q * r, mask=here)
