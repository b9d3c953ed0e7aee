"""The alignment model and the context, in Triton.

``attentive_recurrence`` has the equations and names. A program handles some source positions, or
some columns, of one sentence, so that a batch has a few programs for each multiprocessor. Energies,
weights and their gradients are exact (float32).
"""

import triton
import triton.language as tl
from torch import Tensor

from fairseq_rnnsearch.kernels.gpu.products import tanh, tanh_slope

LONGEST = 512  # source positions
POSITIONS = 4  # of a program that sums over columns
POSITIONS_OF_KEYS = 8  # of a program that sums over steps
WIDTH = 256  # columns at a time
GATES = 128  # columns of a program that computes gates
TILE = 4096  # numbers at a time of a program that sums over positions


def energies(keys: Tensor, query: Tensor, v: Tensor, padding: Tensor, energy: Tensor) -> None:
    """Compute v . tanh(key + query) into ``energy``, and minus infinity at padding.

    Args:
        keys: operands or exact, ``(batch, source, n')``.
        query: operands, ``(batch, n')``, rows may be strided.
        v: exact, ``(n',)``.
        padding: ``(batch, source)``.
        energy: exact, ``(batch, source)``.
    """
    batch, source, width = keys.shape
    _energies[(batch, triton.cdiv(source, POSITIONS))](
        *(keys, query, v, padding, energy, source, query.stride(0), width),
        POSITIONS=POSITIONS,
        WIDTH=WIDTH,
    )


def attend_and_gate(
    energy: Tensor,
    values: Tensor,
    inputs: Tensor,
    product: Tensor,
    state: Tensor,
    alpha: Tensor,
    context: Tensor,
    unit: Tensor,
    reset_state: Tensor,
) -> None:
    """Compute the weights, and the gates of the unit that reads the context.

    Args:
        energy: as after ``energies``.
        values: C h_j, operands, ``(batch, source, 3n)``.
        inputs: [x, x_z, x_r], operands or exact, ``(batch, 3n)``.
        product: operands, ``(batch, 2n or more)``, [U_z s, U_r s] and what else there is.
        state: s, exact, ``(batch, n)``.
        alpha: receives the weights, exact, ``(batch, source)``.
        context: receives what the context adds to x, exact, ``(batch, n)``.
        unit: receives z and r, exact, ``(batch, 3n)``.
        reset_state: receives r o s, operands, ``(batch, n)``.
    """
    batch, source = energy.shape
    n = state.size(1)
    tensors = (energy, values, inputs, product, state, alpha, context, unit, reset_state)
    _attend_and_gate[(batch, triton.cdiv(n, GATES))](
        *(*tensors, source, product.stride(0), n),
        SOURCE=triton.next_power_of_2(source),
        WIDTH=GATES,
    )


def weights(energy: Tensor, alpha: Tensor) -> None:
    """Compute the weights alone, the softmax of the energies."""
    batch, source = energy.shape
    _weights[(batch,)](energy, alpha, source, SOURCE=triton.next_power_of_2(source))


def weights_backward(values: Tensor, d_inputs: Tensor, d_alpha: Tensor) -> None:
    """Add the products of C h_j and ``d_inputs``, the gradient of C c, to ``d_alpha``.

    Args:
        values: as for ``attend_and_gate``.
        d_inputs: operands, ``(batch, 3n)``, rows may be strided.
        d_alpha: exact, ``(batch, source)``.
    """
    batch, source, width = values.shape
    _weights_backward[(batch, triton.cdiv(source, POSITIONS))](
        *(values, d_inputs, d_alpha, source, d_inputs.stride(0), width),
        POSITIONS=POSITIONS,
        WIDTH=2 * WIDTH,
    )


def query_backward(
    keys: Tensor, query: Tensor, v: Tensor, alpha: Tensor, d_alpha: Tensor, d_query: Tensor
) -> None:
    """Compute the query's gradient into ``d_query``, (5) and (8).

    Args:
        keys, query, v: as for ``energies``.
        alpha, d_alpha: exact, ``(batch, source)``.
        d_query: operands, ``(batch, n')``, rows may be strided.
    """
    batch, source, width = keys.shape
    positions = triton.next_power_of_2(source)
    columns = max(16, TILE // positions)
    strides = query.stride(0), d_query.stride(0)
    _query_backward[(batch, triton.cdiv(width, columns))](
        *(keys, query, v, alpha, d_alpha, d_query, source, *strides, width),
        SOURCE=positions,
        COLUMNS=columns,
    )


def keys_backward(
    keys: Tensor, queries: Tensor, v: Tensor, d_energy: Tensor, d_keys: Tensor, d_v: Tensor
) -> None:
    """Compute the gradients of keys and of v, each a sum over all steps, (6) and (7).

    Args:
        keys, v: as for ``energies``.
        queries: operands, ``(steps, batch, n')``, rows may be strided.
        d_energy: exact, ``(steps, batch, source)``.
        d_keys: in the keys' type, ``(batch, source, n')``.
        d_v: exact, ``(parts, n')``, of which the sum is v's gradient; see ``parts_of_v``.
    """
    batch, source, width = keys.shape
    _keys_backward[(batch, triton.cdiv(source, POSITIONS_OF_KEYS), triton.cdiv(width, WIDTH))](
        *(keys, queries, v, d_energy, d_keys, d_v, len(queries), batch, source),
        *(*queries.stride()[:2], width),
        POSITIONS=POSITIONS_OF_KEYS,
        WIDTH=WIDTH,
    )


def parts_of_v(keys: Tensor) -> int:
    """Return in how many parts ``keys_backward`` leaves the gradient of v."""
    return len(keys) * triton.cdiv(keys.size(1), POSITIONS_OF_KEYS)


# --- kernels --------------------------------------------------------------------------------------


@triton.jit
def _energies(
    keys, query, v, padding, energy, source, to_query: tl.constexpr, width: tl.constexpr,
    POSITIONS: tl.constexpr, WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1) * POSITIONS + tl.arange(0, POSITIONS)
    is_position = s < source
    e = tl.zeros((POSITIONS,), energy.dtype.element_ty)
    for start in range(0, width, WIDTH):
        column = start + tl.arange(0, WIDTH)
        here = column < width
        v_here = tl.load(v + column, mask=here, other=0.0)
        q = tl.load(query + row * to_query + column, mask=here, other=0.0).to(v_here.dtype)
        at = (row * source + s[:, None]) * width + column[None, :]
        key = tl.load(keys + at, mask=is_position[:, None] & here[None, :], other=0.0)
        e += tl.sum(tanh(key + q[None, :]) * v_here[None, :], axis=1)
    no_word = tl.load(padding + row * source + s, mask=is_position, other=1)
    tl.store(energy + row * source + s, tl.where(no_word != 0, float("-inf"), e), mask=is_position)


@triton.jit
def _weights(energy, alpha, source, SOURCE: tl.constexpr) -> None:
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, SOURCE)
    e = tl.load(energy + row * source + s, mask=s < source, other=float("-inf"))
    e = tl.exp(e - tl.max(e, axis=0))
    tl.store(alpha + row * source + s, e / tl.sum(e, axis=0), mask=s < source)


@triton.jit
def _attend_and_gate(
    energy, values, inputs, product, state, alpha, context, unit, reset_state,
    source, to_product: tl.constexpr, n: tl.constexpr,
    SOURCE: tl.constexpr, WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    s, j = tl.arange(0, SOURCE), tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    here = j < n
    e = tl.load(energy + row * source + s, mask=s < source, other=float("-inf"))
    most = tl.max(e, axis=0)
    e = tl.exp(e - most)
    total = tl.sum(e, axis=0)
    if tl.program_id(1) == 0:
        tl.store(alpha + row * source + s, e / total, mask=s < source)
    c = tl.zeros((WIDTH,), e.dtype)
    z, r = c, c
    value = values + row * source * 3 * n + j
    for i in tl.range(0, source, loop_unroll_factor=8):  # no sum over threads, many loads at once
        a = tl.exp(tl.load(energy + row * source + i) - most)
        c += a * tl.load(value, mask=here, other=0.0).to(e.dtype)
        z += a * tl.load(value + n, mask=here, other=0.0).to(e.dtype)
        r += a * tl.load(value + 2 * n, mask=here, other=0.0).to(e.dtype)
        value += 3 * n
    tl.store(context + row * n + j, c / total, mask=here)
    x, p = inputs + row * 3 * n + j, product + row * to_product + j
    z = z / total + tl.load(x + n, mask=here, other=0.0)
    r = r / total + tl.load(x + 2 * n, mask=here, other=0.0)
    z += tl.load(p, mask=here, other=0.0).to(z.dtype)
    r += tl.load(p + n, mask=here, other=0.0).to(r.dtype)
    z, r = 1 / (1 + tl.exp(-z)), 1 / (1 + tl.exp(-r))
    h = tl.load(state + row * n + j, mask=here, other=0.0)
    tl.store(unit + row * 3 * n + n + j, z, mask=here)
    tl.store(unit + row * 3 * n + 2 * n + j, r, mask=here)
    tl.store(reset_state + row * n + j, r * h, mask=here)


@triton.jit
def _weights_backward(
    values, d_inputs, d_alpha, source, to_d_inputs: tl.constexpr, width: tl.constexpr,
    POSITIONS: tl.constexpr, WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1) * POSITIONS + tl.arange(0, POSITIONS)
    is_position = s < source
    exact: tl.constexpr = d_alpha.dtype.element_ty
    d = tl.load(d_alpha + row * source + s, mask=is_position, other=0.0)
    for start in range(0, width, WIDTH):
        column = start + tl.arange(0, WIDTH)
        here = column < width
        d_x = tl.load(d_inputs + row * to_d_inputs + column, mask=here, other=0.0).to(exact)
        at = (row * source + s[:, None]) * width + column[None, :]
        value = tl.load(values + at, mask=is_position[:, None] & here[None, :], other=0.0)
        d += tl.sum(value.to(exact) * d_x[None, :], axis=1)
    tl.store(d_alpha + row * source + s, d, mask=is_position)


@triton.jit
def _query_backward(
    keys, query, v, alpha, d_alpha, d_query, source,
    to_query: tl.constexpr, to_d_query: tl.constexpr, width: tl.constexpr,
    SOURCE: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, SOURCE)
    is_position = s < source
    a = tl.load(alpha + row * source + s, mask=is_position, other=0.0)
    d_a = tl.load(d_alpha + row * source + s, mask=is_position, other=0.0)
    d_e = a * (d_a - tl.sum(a * d_a, axis=0))
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = column < width
    v_here = tl.load(v + column, mask=here, other=0.0)
    q = tl.load(query + row * to_query + column, mask=here, other=0.0).to(v_here.dtype)
    at = (row * source + s[:, None]) * width + column[None, :]
    key = tl.load(keys + at, mask=is_position[:, None] & here[None, :], other=0.0)
    d_q = tl.sum(d_e[:, None] * tanh_slope(key + q[None, :]), axis=0) * v_here
    tl.store(d_query + row * to_d_query + column, d_q, mask=here)


@triton.jit
def _keys_backward(
    keys, queries, v, d_energy, d_keys, d_v, steps, batch, source,
    to_step, to_query: tl.constexpr, width: tl.constexpr,
    POSITIONS: tl.constexpr, WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1) * POSITIONS + tl.arange(0, POSITIONS)
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    is_position, here = s < source, column < width
    at = (row * source + s[:, None]) * width + column[None, :]
    there = is_position[:, None] & here[None, :]
    exact: tl.constexpr = d_energy.dtype.element_ty
    key = tl.load(keys + at, mask=there, other=0.0).to(exact)
    d_key = tl.zeros((POSITIONS, WIDTH), exact)
    d_v_here = d_key  # summed over positions, that is over threads, only at the end
    to_step = tl.cast(to_step, tl.int64)  # large batches have more numbers than 32 bits count
    for i in tl.range(0, steps, loop_unroll_factor=4):
        d_e = tl.load(d_energy + (i * batch + row) * source + s, mask=is_position, other=0.0)
        q = tl.load(queries + i * to_step + row * to_query + column, mask=here, other=0.0)
        t = tanh(key + q.to(exact)[None, :])
        d_key += d_e[:, None] * (1 - t * t)
        d_v_here += d_e[:, None] * t
    v_here = tl.load(v + column, mask=here, other=0.0)
    tl.store(d_keys + at, d_key * v_here[None, :], mask=there)
    part = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(d_v + part * width + column, tl.sum(d_v_here, axis=0), mask=here)
