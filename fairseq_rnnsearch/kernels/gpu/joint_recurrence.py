"""Gated recurrences whose directions take each step together, as one batch.

``cpu.recurrence`` derives equations (1) to (6) and explains the names. Here the directions form a
batch of products: buffers are ``(directions, time, batch, ...)`` in sentence order, and in each
step a reverse direction is at another time (``_at``). A step is two launches, or three in the
backward pass.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.derived import accurate_type, apply, first_order
from fairseq_rnnsearch.kernels.gpu import products
from fairseq_rnnsearch.kernels.gpu.masked_cost import accurate_product
from fairseq_rnnsearch.kernels.reference import Direction


def recurrence(
    directions: Sequence[Direction], initial: Tensor | None, present: Tensor | None
) -> Tensor:
    """See ``Reference.recurrence``."""
    reverse = tuple(direction.reverse for direction in directions)
    inputs = torch.stack([direction.inputs for direction in directions])
    U_gates = torch.stack([direction.unit.recurrent_gates for direction in directions])
    U = torch.stack([direction.unit.recurrent_proposed for direction in directions])
    return apply(_JointRecurrence, reverse, present, initial, inputs, U_gates, U)


class _JointRecurrence(torch.autograd.Function):
    """One direction or two.

    Args of ``apply``:
        operands: type of the products' operands, or None for the inputs' type.
        reverse: of each direction.
        present: ``(time, batch)`` or None.
        initial: ``(batch, n)``, shared by all directions, or None for zeros.
        inputs: ``(directions, time, batch, 3n)``.
        U_gates, U: ``(directions, 2n, n)`` and ``(directions, n, n)``.

    Returns:
        ``(time, batch, directions * n)``, in memory sentence by sentence.
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        operands: torch.dtype | None,
        reverse: tuple[bool, ...],
        present: Tensor | None,
        initial: Tensor | None,
        inputs: Tensor,
        U_gates: Tensor,
        U: Tensor,
    ) -> Tensor:
        operands = operands or inputs.dtype
        exact = accurate_type(operands)
        U_gates, U = U_gates.to(operands), U.to(operands)
        D, T, B, width = inputs.shape
        units = torch.empty_like(inputs, dtype=exact)
        states = units.new_empty(D, T + 1, B, width // 3)  # before a step and after it
        states_in = torch.empty_like(states, dtype=operands)
        for x in (states, states_in):
            _at(x, [T * back for back in reverse])[:] = 0 if initial is None else initial
        reset_h = torch.empty_like(states_in[:, 1:])
        if present is not None:
            present = present.to(exact).repeat(D, 1, 1)
        for t in range(T):
            times, before, after = _times(t, T, reverse)
            x, unit, reset = (_at(rows, times) for rows in (inputs, units, reset_h))
            h, h_in = _at(states, before), _at(states_in, before)
            here = None if present is None else _at(present, times)
            products.gates(x, h, h_in, U_gates, here, unit, reset)
            following = _at(states, after), _at(states_in, after)
            products.new_state(x, None, h, reset, U, unit, *following)
        ctx.save_for_backward(units, states, states_in, reset_h, U_gates, U)
        ctx.reverse = reverse
        outputs = [x[:T] if back else x[1:] for x, back in zip(states_in, reverse, strict=True)]
        return torch.cat([output.transpose(0, 1) for output in outputs], dim=-1).transpose(0, 1)

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_states: Tensor
    ) -> tuple[Tensor | None, ...]:
        units, states, states_in, reset_h, U_gates, U = ctx.saved_tensors
        D, T, B, n = reset_h.shape
        if any(stride % n for stride in d_states.stride()[:2]) or d_states.stride(2) != 1:
            d_states = d_states.contiguous()
        d_inputs = torch.empty_like(units, dtype=U.dtype)  # [d_a, d_a_z, d_a_r]
        d_h, d_h_from_gates = states.new_zeros(D, B, n), None
        for t in reversed(range(T)):
            times, before, _ = _times(t, T, ctx.reverse)
            d_out = d_states[times[0]], n + (times[-1] - times[0]) * d_states.stride(0)
            unit, h, d_x = _at(units, times), _at(states, before), _at(d_inputs, times)
            products.unit_backward(d_h_from_gates, d_h, d_out, unit, h, d_x)
            products.reset_backward(d_x, U, d_h, unit, h)
            d_h_from_gates = torch.bmm(d_x[..., n:], U_gates)
        products.unit_backward(d_h_from_gates, d_h, None, None, None, None)
        d_rows = d_inputs.flatten(1, 2).mT
        h_before = _from(states_in, [int(back) for back in ctx.reverse], T).flatten(1, 2)
        d_U_gates = accurate_product(d_rows[:, n:], h_before)
        d_U = accurate_product(d_rows[:, :n], reset_h.flatten(1, 2))
        d_initial = d_h.sum(dim=0) if ctx.needs_input_grad[3] else None
        return None, None, None, d_initial, d_inputs, d_U_gates, d_U


def _times(
    t: int, steps: int, reverse: Sequence[bool]
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Return where each direction is in step t, and where the states before and after it are."""
    times = [steps - 1 - t if back else t for back in reverse]
    before = [time + back for time, back in zip(times, reverse, strict=True)]
    after = [time + (not back) for time, back in zip(times, reverse, strict=True)]
    return times, before, after


def _at(x: Tensor, times: Sequence[int]) -> Tensor:
    """Return each direction's rows at its time: ``(directions, time, ...)`` without the time."""
    return _from(x, times, 1).squeeze(1)


def _from(x: Tensor, times: Sequence[int], steps: int) -> Tensor:
    """Return some steps, from each direction's time on, as a view; of one direction or two."""
    of_direction, of_time, *others = x.stride()
    apart = of_direction + (times[-1] - times[0]) * of_time
    shape, place = (len(x), steps, *x.shape[2:]), x.storage_offset() + times[0] * of_time
    return x.as_strided(shape, (apart, of_time, *others), place)
