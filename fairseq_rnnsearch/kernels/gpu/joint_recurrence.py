"""Gated recurrences whose directions take each step together, as one batch.

``cpu.recurrence`` derives equations (1) to (6) and explains the names. Here the directions form a
batch of products: buffers are ``(time, directions, batch, ...)``, and a reverse direction is
flipped in time before and afterwards.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.accuracy import accurate_type
from fairseq_rnnsearch.kernels.derived.passes import Primitives, apply, first_order
from fairseq_rnnsearch.kernels.interface import Direction


def recurrence(
    directions: Sequence[Direction],
    initial: Tensor | None,
    present: Tensor | None,
    primitives: Primitives,
) -> Tensor:
    """See ``Backend.recurrence``."""
    reverse = tuple(way.reverse for way in directions)
    inputs = _together([way.inputs for way in directions], reverse)
    if present is not None:
        present = _together([present] * len(reverse), reverse)
    U_gates = torch.stack([way.unit.recurrent_gates for way in directions])
    U = torch.stack([way.unit.recurrent_proposed for way in directions])
    states = apply(_JointRecurrence, primitives, present, initial, inputs, U_gates, U)
    return torch.cat(_apart(states, reverse), dim=-1)


class _JointRecurrence(torch.autograd.Function):
    """All directions, forwards in time.

    Args of ``apply``:
        operands: type of the products' operands, or None for the inputs' type.
        primitives: the backend's building blocks.
        present: ``(time, directions, batch)`` or None.
        initial: ``(batch, n)``, shared by all directions, or None for zeros.
        inputs: ``(time, directions, batch, 3n)``.
        U_gates, U: ``(directions, 2n, n)`` and ``(directions, n, n)``.

    Returns:
        ``(time, directions, batch, n)``.
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        operands: torch.dtype | None,
        primitives: Primitives,
        present: Tensor | None,
        initial: Tensor | None,
        inputs: Tensor,
        U_gates: Tensor,
        U: Tensor,
    ) -> Tensor:
        operands = operands or inputs.dtype
        exact = accurate_type(operands)
        given = present, initial, inputs.to(exact), U_gates.to(operands), U.to(operands)
        units, states = primitives.run(_forward, primitives, *given)
        ctx.primitives = primitives
        ctx.save_for_backward(units, states, *given[3:])
        return states[1:].to(operands)

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_states: Tensor
    ) -> tuple[Tensor | None, ...]:
        given, primitives = ctx.saved_tensors, ctx.primitives
        d_initial, *d_tensors = primitives.run(_backward, primitives, d_states.contiguous(), *given)
        return None, None, None, d_initial if ctx.needs_input_grad[3] else None, *d_tensors


def _forward(
    primitives: Primitives,
    present: Tensor | None,
    initial: Tensor | None,
    inputs: Tensor,
    U_gates: Tensor,
    U: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return all steps' [h~, z, r], and the states, starting with the initial one."""
    T, D, B, width = inputs.shape
    n, ops = width // 3, primitives.operations(U.dtype)
    units, states = torch.empty_like(inputs), inputs.new_empty(T + 1, D, B, n)
    states[0] = 0 if initial is None else initial
    present = None if present is None else present.to(inputs.dtype)
    U_gates_T, U_T, reset_h = U_gates.mT, U.mT, U.new_empty(D * B, n)
    for t in range(T):
        x, unit, s, after = (
            rows[i].view(D * B, -1)
            for rows, i in ((inputs, t), (units, t), (states, t), (states, t + 1))
        )
        here = None if present is None else present[t].view(-1)
        gates = torch.bmm(states[t].to(U.dtype), U_gates_T).view(D * B, 2 * n)
        ops.unit_gates(x[:, n:], gates, None, s, here, unit, reset_h)
        proposed = torch.bmm(reset_h.view(D, B, n), U_T).view(D * B, n)
        ops.unit_state(x[:, :n], proposed, None, s, unit, after)
    return units, states


def _backward(
    primitives: Primitives,
    d_states: Tensor,
    units: Tensor,
    states: Tensor,
    U_gates: Tensor,
    U: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of the initial state, the inputs and both weights."""
    T, D, B, width = units.shape
    n, ops = width // 3, primitives.operations(U.dtype)
    d_inputs = torch.empty_like(units, dtype=U.dtype)  # [d_a, d_a_z, d_a_r]
    d_h, d_h_from_gates = units.new_zeros(D * B, n), None
    for t in reversed(range(T)):
        unit, s, d_x, d_out = (
            rows[t].view(D * B, -1) for rows in (units, states, d_inputs, d_states)
        )
        ops.unit_backward(d_h, d_out, d_h_from_gates, unit, s, d_x)
        d_q = torch.bmm(d_inputs[t, :, :, :n], U).view(D * B, n)
        ops.unit_backward_reset(d_h, d_q, unit, s, d_x)
        d_h_from_gates = torch.bmm(d_inputs[t, :, :, n:], U_gates).view(D * B, n)
    if d_h_from_gates is not None:
        d_h += d_h_from_gates
    previous = states[:-1]
    d_U_gates = _summed(d_inputs[..., n:], previous)
    d_U = _summed(d_inputs[..., :n], units[..., 2 * n :] * previous)
    return d_h.view(D, B, n).sum(dim=0), d_inputs, d_U_gates, d_U


def _summed(d_out: Tensor, x: Tensor) -> Tensor:
    """Return matrix gradients summed over all steps, ``(directions, out, in)``."""
    d_out, x = (rows.transpose(0, 1).flatten(1, 2) for rows in (d_out, x.to(d_out.dtype)))
    return torch.bmm(d_out.mT, x)


def _together(rows: Sequence[Tensor], reverse: tuple[bool, ...]) -> Tensor:
    """Return ``(time, directions, ...)``, each direction in its reading order."""
    turned = [x.flip(0) if back else x for x, back in zip(rows, reverse, strict=True)]
    return torch.stack(turned, dim=1)


def _apart(states: Tensor, reverse: tuple[bool, ...]) -> list[Tensor]:
    """Return each direction's states, ``(time, batch, n)``, in sentence order."""
    return [x.flip(0) if back else x for x, back in zip(states.unbind(1), reverse, strict=True)]
