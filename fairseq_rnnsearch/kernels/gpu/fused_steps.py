"""``Operations`` in Triton: one launch per group of elementwise operations.

``derived.operations`` has the equations and arguments. Each program handles some numbers of one
row, or, in the alignment model, all source positions of one row, whose keys it reads once. Sums
over a batch have a row per sentence, so that their order is always the same. tanh is computed from
exponentials, with an absolute error of 1e-7.

In the kernels a name is a pointer, and ``to_`` before it marks its row stride, if rows may be
strided. Strides and a model's widths are compile-time constants: of other numbers the compiler
knows only whether 16 divides them, and it would load the paper's rows of 1000 one by one.
"""

import triton
import triton.language as tl
from torch import Tensor

from fairseq_rnnsearch.kernels.derived.operations import Operations

COLUMNS = 512  # of a row, for each program of the unit
TILE = 2048  # numbers of keys that four warps have at a time
LONGEST = 128  # source positions of a program; PyTorch's operations take longer sentences


class FusedOperations(Operations):
    """See ``Operations``."""

    def rows_of_sums(self, batch: int) -> int:
        return batch

    def unit_gates(
        self,
        inputs: Tensor,
        recurrent: Tensor,
        context: Tensor | None,
        state: Tensor,
        present: Tensor | None,
        unit: Tensor,
        reset_state: Tensor,
    ) -> None:
        tensors = inputs, recurrent, context, state, present, unit, reset_state
        _launch(_unit_gates, state, *tensors, *_apart(inputs, recurrent, context))

    def unit_state(
        self,
        inputs: Tensor,
        recurrent: Tensor,
        context: Tensor | None,
        state: Tensor,
        unit: Tensor,
        new_state: Tensor,
    ) -> None:
        tensors = inputs, recurrent, context, state, unit, new_state
        _launch(_unit_state, state, *tensors, *_apart(inputs, recurrent, context))

    def unit_backward(
        self,
        d_state: Tensor,
        d_output: Tensor | None,
        d_from_product: Tensor | None,
        unit: Tensor,
        state: Tensor,
        d_inputs: Tensor,
    ) -> None:
        tensors = d_state, d_output, d_from_product, unit, state, d_inputs
        _launch(_unit_backward, state, *tensors, *_apart(d_output, d_from_product, d_inputs))

    def unit_backward_reset(
        self, d_state: Tensor, d_reset_state: Tensor, unit: Tensor, state: Tensor, d_inputs: Tensor
    ) -> None:
        tensors = d_state, d_reset_state, unit, state, d_inputs
        _launch(_unit_backward_reset, state, *tensors, *_apart(d_inputs))

    def align(self, keys: Tensor, query: Tensor, v: Tensor, padding: Tensor, alpha: Tensor) -> None:
        rows, source = alpha.shape
        if source > LONGEST:
            return super().align(keys, query, v, padding, alpha)
        positions = triton.next_power_of_2(source)
        _align[(rows,)](  # few programs, of many warps each
            *(keys, query, v, padding, alpha, rows // len(keys), source),
            *(*_apart(query), len(v)),
            SOURCE=positions,
            WIDTH=4 * TILE // positions,
            num_warps=16,
        )

    def align_backward(
        self,
        keys: Tensor,
        query: Tensor,
        v: Tensor,
        alpha: Tensor,
        d_alpha: Tensor,
        d_keys: Tensor,
        d_v: Tensor,
        d_query: Tensor,
    ) -> None:
        rows, source = alpha.shape
        if source > LONGEST:
            return super().align_backward(keys, query, v, alpha, d_alpha, d_keys, d_v, d_query)
        positions = triton.next_power_of_2(source)
        columns = TILE // positions
        _align_backward[(rows, triton.cdiv(len(v), columns))](
            *(keys, query, v, alpha, d_alpha, d_keys, d_v, d_query, source),
            *(*_apart(query, d_query), len(v)),
            SOURCE=positions,
            WIDTH=columns,
        )


def _apart(*tensors: Tensor | None) -> list[int]:
    """Return the row strides of tensors."""
    return [0 if x is None else x.stride(0) for x in tensors]


def _launch(kernel: triton.JITFunction, state: Tensor, *args: Tensor | int | None) -> None:
    rows, n = state.shape
    kernel[(rows, triton.cdiv(n, COLUMNS))](*args, n, COLUMNS=COLUMNS)


# --- kernels --------------------------------------------------------------------------------------


@triton.jit
def _tanh(x) -> tl.tensor:
    e = tl.exp(-2 * tl.abs(x))
    t = (1 - e) / (1 + e)
    return tl.where(x < 0, -t, t)


@triton.jit
def _sum(
    inputs, recurrent, context, row, column, here,
    to_inputs: tl.constexpr, to_recurrent: tl.constexpr, to_context: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    total = tl.load(inputs + row * to_inputs + column, mask=here, other=0.0)
    total += tl.load(recurrent + row * to_recurrent + column, mask=here, other=0.0).to(total.dtype)
    if context is not None:
        total += tl.load(context + row * to_context + column, mask=here, other=0.0).to(total.dtype)
    return total


@triton.jit
def _unit_gates(
    inputs, recurrent, context, state, present, unit, reset_state,
    to_inputs: tl.constexpr, to_recurrent: tl.constexpr, to_context: tl.constexpr,
    n: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = j < n
    a_z = _sum(inputs, recurrent, context, row, j, here, to_inputs, to_recurrent, to_context)
    a_r = _sum(inputs, recurrent, context, row, n + j, here, to_inputs, to_recurrent, to_context)
    z, r = 1 / (1 + tl.exp(-a_z)), 1 / (1 + tl.exp(-a_r))
    if present is not None:
        z *= tl.load(present + row)
    h = tl.load(state + row * n + j, mask=here, other=0.0)
    tl.store(unit + row * 3 * n + n + j, z, mask=here)
    tl.store(unit + row * 3 * n + 2 * n + j, r, mask=here)
    tl.store(reset_state + row * n + j, r * h, mask=here)


@triton.jit
def _unit_state(
    inputs, recurrent, context, state, unit, new_state,
    to_inputs: tl.constexpr, to_recurrent: tl.constexpr, to_context: tl.constexpr,
    n: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = j < n
    a = _sum(inputs, recurrent, context, row, j, here, to_inputs, to_recurrent, to_context)
    proposed = _tanh(a)
    z = tl.load(unit + row * 3 * n + n + j, mask=here, other=0.0)
    h = tl.load(state + row * n + j, mask=here, other=0.0)
    tl.store(unit + row * 3 * n + j, proposed, mask=here)
    tl.store(new_state + row * n + j, h + z * (proposed - h), mask=here)


@triton.jit
def _unit_backward(
    d_state, d_output, d_product, unit, state, d_inputs,
    to_output: tl.constexpr, to_product: tl.constexpr, to_d_inputs: tl.constexpr,
    n: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = j < n
    d = tl.load(d_state + row * n + j, mask=here, other=0.0)
    if d_output is not None:
        d += tl.load(d_output + row * to_output + j, mask=here, other=0.0).to(d.dtype)
    if d_product is not None:
        d += tl.load(d_product + row * to_product + j, mask=here, other=0.0).to(d.dtype)
    proposed = tl.load(unit + row * 3 * n + j, mask=here, other=0.0)
    z = tl.load(unit + row * 3 * n + n + j, mask=here, other=0.0)
    h = tl.load(state + row * n + j, mask=here, other=0.0)
    changed = d * z
    tl.store(d_inputs + row * to_d_inputs + j, changed * (1 - proposed * proposed), mask=here)
    tl.store(d_inputs + row * to_d_inputs + n + j, (proposed - h) * changed * (1 - z), mask=here)
    tl.store(d_state + row * n + j, d - changed, mask=here)


@triton.jit
def _unit_backward_reset(
    d_state, d_reset, unit, state, d_inputs,
    to_d_inputs: tl.constexpr, n: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = j < n
    d = tl.load(d_state + row * n + j, mask=here, other=0.0)
    d_q = tl.load(d_reset + row * n + j, mask=here, other=0.0).to(d.dtype)
    r = tl.load(unit + row * 3 * n + 2 * n + j, mask=here, other=0.0)
    h = tl.load(state + row * n + j, mask=here, other=0.0)
    tl.store(d_inputs + row * to_d_inputs + 2 * n + j, d_q * h * r * (1 - r), mask=here)
    tl.store(d_state + row * n + j, d + d_q * r, mask=here)


@triton.jit
def _align(
    keys, query, v, padding, alpha, hypotheses, source,
    to_query: tl.constexpr, width: tl.constexpr, SOURCE: tl.constexpr, WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    sentence = row // hypotheses
    s, k = tl.arange(0, SOURCE), tl.arange(0, WIDTH)
    is_position = s < source
    e = tl.zeros((SOURCE,), keys.dtype.element_ty)
    for start in range(0, width, WIDTH):
        column = start + k
        here = column < width
        q = tl.load(query + row * to_query + column, mask=here, other=0.0).to(e.dtype)
        v_here = tl.load(v + column, mask=here, other=0.0)
        at = (sentence * source + s[:, None]) * width + column[None, :]
        key = tl.load(keys + at, mask=is_position[:, None] & here[None, :], other=0.0)
        e += tl.sum(_tanh(key + q[None, :]) * v_here[None, :], axis=1)
    no_word = tl.load(padding + sentence * source + s, mask=is_position, other=1)
    e = tl.where(no_word != 0, float("-inf"), e)
    e = tl.exp(e - tl.max(e, axis=0))
    tl.store(alpha + row * source + s, e / tl.sum(e, axis=0), mask=is_position)


@triton.jit
def _align_backward(
    keys, query, v, alpha, d_alpha, d_keys, d_v, d_query, source,
    to_query: tl.constexpr, to_d_query: tl.constexpr, width: tl.constexpr,
    SOURCE: tl.constexpr, WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, SOURCE)
    is_position = s < source
    a = tl.load(alpha + row * source + s, mask=is_position, other=0.0)
    d_a = tl.load(d_alpha + row * source + s, mask=is_position, other=0.0)
    d_e = a * (d_a - tl.sum(a * d_a, axis=0))
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    here = column < width
    q = tl.load(query + row * to_query + column, mask=here, other=0.0).to(a.dtype)
    v_here = tl.load(v + column, mask=here, other=0.0)
    at = (row * source + s[:, None]) * width + column[None, :]
    there = is_position[:, None] & here[None, :]
    t = _tanh(tl.load(keys + at, mask=there, other=0.0) + q[None, :])
    slope = d_e[:, None] * v_here[None, :] * (1 - t * t)
    d_key = tl.load(d_keys + at, mask=there, other=0.0)
    tl.store(d_keys + at, d_key + slope, mask=there)
    at_v = d_v + row * width + column
    before = tl.load(at_v, mask=here, other=0.0)
    tl.store(at_v, before + tl.sum(d_e[:, None] * t, axis=0), mask=here)
    tl.store(d_query + row * to_d_query + column, tl.sum(slope, axis=0), mask=here)
