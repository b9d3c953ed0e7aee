"""Gated recurrences whose directions take each step together, as one batch.

``cpu.recurrence`` derives equations (1) to (6) and explains the names. Here the directions form a
batch of products: buffers are ``(time, directions, batch, ...)``, and a reverse direction is
flipped in time before and afterwards. A step is two launches, or three in the backward pass.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.accuracy import accurate_product, accurate_type
from fairseq_rnnsearch.kernels.derived import apply, first_order
from fairseq_rnnsearch.kernels.gpu import products
from fairseq_rnnsearch.kernels.interface import Direction


def recurrence(
    directions: Sequence[Direction], initial: Tensor | None, present: Tensor | None
) -> Tensor:
    """See ``Backend.recurrence``."""
    reverse = tuple(way.reverse for way in directions)
    inputs = _together([way.inputs for way in directions], reverse)
    if present is not None:
        present = _together([present] * len(reverse), reverse)
    U_gates = torch.stack([way.unit.recurrent_gates for way in directions])
    U = torch.stack([way.unit.recurrent_proposed for way in directions])
    states = apply(_JointRecurrence, present, initial, inputs, U_gates, U)
    return torch.cat(_apart(states, reverse), dim=-1)


class _JointRecurrence(torch.autograd.Function):
    """All directions, forwards in time.

    Args of ``apply``:
        operands: type of the products' operands, or None for the inputs' type.
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
        present: Tensor | None,
        initial: Tensor | None,
        inputs: Tensor,
        U_gates: Tensor,
        U: Tensor,
    ) -> Tensor:
        operands = operands or inputs.dtype
        exact = accurate_type(operands)
        U_gates, U = U_gates.to(operands), U.to(operands)
        T, D, B, width = inputs.shape
        units = torch.empty_like(inputs, dtype=exact)
        states = units.new_empty(T + 1, D, B, width // 3)
        states[0] = 0 if initial is None else initial
        states_in = torch.empty_like(states, dtype=operands)
        states_in[0] = states[0]
        present = None if present is None else present.to(exact)
        reset_h = torch.empty_like(states_in[1:])
        for t in range(T):
            x, unit, h = inputs[t], units[t], states[t]
            here = None if present is None else present[t]
            products.gates(x, h, states_in[t], U_gates, here, unit, reset_h[t])
            following = states[t + 1], states_in[t + 1]
            products.new_state(x, None, h, reset_h[t], U, unit, *following)
        ctx.save_for_backward(units, states, states_in, reset_h, U_gates, U)
        return states_in[1:]

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_states: Tensor
    ) -> tuple[Tensor | None, ...]:
        units, states, states_in, reset_h, U_gates, U = ctx.saved_tensors
        d_states = d_states.contiguous()
        n = U.size(-1)
        d_inputs = torch.empty_like(units, dtype=U.dtype)  # [d_a, d_a_z, d_a_r]
        d_h, d_h_from_gates = torch.zeros_like(states[0]), None
        for t in reversed(range(len(units))):
            step = units[t], states[t], d_inputs[t]
            products.unit_backward(d_h_from_gates, d_h, d_states[t], *step)
            products.reset_backward(d_inputs[t], U, d_h, units[t], states[t])
            d_h_from_gates = torch.bmm(d_inputs[t, :, :, n:], U_gates)
        products.unit_backward(d_h_from_gates, d_h, None, None, None, None)
        d_U_gates = _summed(d_inputs[..., n:], states_in[:-1])
        d_U = _summed(d_inputs[..., :n], reset_h)
        d_initial = d_h.sum(dim=0) if ctx.needs_input_grad[2] else None
        return None, None, d_initial, d_inputs, d_U_gates, d_U


def _summed(d_out: Tensor, x: Tensor) -> Tensor:
    """Return matrix gradients summed over all steps, ``(directions, out, in)``."""
    d_out, x = (rows.transpose(0, 1).flatten(1, 2) for rows in (d_out, x))
    return accurate_product(d_out.mT, x)


def _together(rows: Sequence[Tensor], reverse: tuple[bool, ...]) -> Tensor:
    """Return ``(time, directions, ...)``, each direction in its reading order."""
    turned = [x.flip(0) if back else x for x, back in zip(rows, reverse, strict=True)]
    return torch.stack(turned, dim=1)


def _apart(states: Tensor, reverse: tuple[bool, ...]) -> list[Tensor]:
    """Return each direction's states, ``(time, batch, n)``, in sentence order."""
    return [x.flip(0) if back else x for x, back in zip(states.unbind(1), reverse, strict=True)]
