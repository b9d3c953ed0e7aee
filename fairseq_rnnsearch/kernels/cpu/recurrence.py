"""Gated recurrences that do not depend on attention, with a backward pass derived by hand.

The loops work in place on buffers for all steps and record no graph; each weight's gradient is one
product over all steps.

**The backward pass.** In the names of ``paper.equations.gated_unit``, one step from h to h' is

    z, r = sigma(a_z), sigma(a_r)      with  a_z = x_z + U_z h,  a_r = x_r + U_r h
    h~ = tanh(a)                       with  a = x + U q,  q = r o h
    h' = h + z o (h~ - h)

Write d_v for the gradient of the cost with respect to v. A step receives d_h', the outputs'
gradient of h' plus what the following step passes back. As sigma' = z (1 - z) and
tanh' = 1 - h~^2, the chain rule gives, in this order,

    d_a_z = d_h' o (h~ - h) o z o (1 - z)          (1)  ``unit_backward``
    d_a   = d_h' o z o (1 - h~^2)                  (2)  ``unit_backward``
    d_q   = U^T d_a                                (3)  a product
    d_a_r = d_q o h o r o (1 - r)                  (4)  ``unit_backward_reset``

and h', q and both gates read h:

    d_h = d_h' o (1 - z)  +  d_q o r  +  [U_z; U_r]^T [d_a_z; d_a_r]               (5)
          ``unit_backward``  ``_reset``   a product

Inputs are only added, so d_x = d_a, d_x_z = d_a_z and d_x_r = d_a_r: one buffer, ``d_inputs``,
serves both. Each step uses each matrix once, so its gradient is a sum over steps t, one product
once all steps are stored:

    d_U = sum_t d_a(t) q(t)^T,     d_[U_z; U_r] = sum_t [d_a_z(t); d_a_r(t)] h(t)^T      (6)

At padding, z is set to 0. Then h' = h, and d_a and d_a_z are 0 by (1) and (2); so d_q is 0, and
d_a_r too.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.cpu.operations import Operations
from fairseq_rnnsearch.kernels.cpu.packed_weights import batch_product, weight_gradient
from fairseq_rnnsearch.kernels.derived import accurate_type, apply, first_order
from fairseq_rnnsearch.kernels.reference import Direction


def recurrence(
    directions: Sequence[Direction], initial: Tensor | None = None, present: Tensor | None = None
) -> Tensor:
    """See ``Reference.recurrence``; the directions take their steps together."""
    units = [direction.unit for direction in directions]
    weights = [w for unit in units for w in (unit.recurrent_gates, unit.recurrent_proposed)]
    reverse = tuple(direction.reverse for direction in directions)
    inputs = [direction.inputs for direction in directions]
    return apply(_Recurrence, reverse, present, initial, *inputs, *weights)


class _Recurrence(torch.autograd.Function):
    """One recurrence, or several in step with their states side by side.

    Args of ``apply``:
        operands: type of the products' operands, or None for the inputs' type.
        reverse: for each direction, whether it runs from the last position to the first.
        present: ``(time, batch)`` or None.
        initial: ``(batch, n)``, shared by all directions, or None for zeros.
        tensors: inputs per direction, then gate and proposed weights per direction.

    Returns:
        ``(time, batch, directions * n)``.
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        operands: torch.dtype | None,
        reverse: tuple[bool, ...],
        present: Tensor | None,
        initial: Tensor | None,
        *tensors: Tensor,
    ) -> Tensor:
        inputs, weights = tensors[: len(reverse)], tensors[len(reverse) :]
        operands = operands or inputs[0].dtype
        weights = [weight.to(operands) for weight in weights]
        D, T, B, n = len(reverse), *inputs[0].shape[:2], weights[1].size(1)
        # for all steps: [h~, z, r], and the states, starting with the initial one
        units = inputs[0].new_empty(D, T, B, 3 * n, dtype=accurate_type(operands))
        inputs = [x.to(units.dtype).contiguous() for x in inputs]
        if present is not None:
            present = present.to(units.dtype).contiguous()
        h = units.new_empty(D, T + 1, B, n)
        for d, backwards in enumerate(reverse):
            h[d, T if backwards else 0] = 0 if initial is None else initial
        reset_h = units.new_empty(B, n, dtype=operands)
        products, ops = [batch_product(weight, T) for weight in weights], Operations(operands)
        for t in range(T):
            for d, backwards in enumerate(reverse):
                times_U_gates, times_U = products[2 * d : 2 * d + 2]
                at, before, after = _position(t, T, backwards)
                x, s, unit = inputs[d][at], h[d, before], units[d, at]
                here = None if present is None else present[at]
                gates = times_U_gates(s.to(operands))
                ops.unit_gates(x[:, n:], gates, None, s, here, unit, reset_h)
                ops.unit_state(x[:, :n], times_U(reset_h), None, s, unit, h[d, after])
        ctx.reverse = reverse
        ctx.save_for_backward(units, h, *weights)
        states = (_states(h[d], after=not backwards) for d, backwards in enumerate(reverse))
        return torch.cat([x.to(operands) for x in states], dim=-1)

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_states: Tensor
    ) -> tuple[Tensor | None, ...]:
        """Apply equations (1) to (6) of the module docstring."""
        units, h, *weights = ctx.saved_tensors
        D, T, B, n = *units.shape[:3], h.size(-1)
        operands = weights[0].dtype
        d_states = d_states.contiguous()
        d_inputs = torch.empty_like(units, dtype=operands)  # [d_a, d_a_z, d_a_r] of all steps
        # d_h in two parts: all but the gates' product, and that product
        d_h, d_h_from_gates = [units.new_zeros(B, n) for _ in range(D)], [None] * D
        products, ops = [batch_product(weight.T, T) for weight in weights], Operations(operands)
        for t in reversed(range(T)):
            for d, backwards in enumerate(ctx.reverse):
                times_U_gates_T, times_U_T = products[2 * d : 2 * d + 2]
                at, before, _ = _position(t, T, backwards)
                unit, s, d_x = units[d, at], h[d, before], d_inputs[d, at]
                d_out = d_states[at, :, d * n : (d + 1) * n]
                ops.unit_backward(d_h[d], d_out, d_h_from_gates[d], unit, s, d_x)
                ops.unit_backward_reset(d_h[d], times_U_T(d_x[:, :n]), unit, s, d_x)
                d_h_from_gates[d] = times_U_gates_T(d_x[:, n:])
        d_weights = [None] * len(weights)
        if any(ctx.needs_input_grad[4 + D :]):
            for d, backwards in enumerate(ctx.reverse):
                previous = _states(h[d], after=backwards)
                reset_h = units[d, ..., 2 * n :] * previous
                d_weights[2 * d] = weight_gradient(d_inputs[d, ..., n:], previous)
                d_weights[2 * d + 1] = weight_gradient(d_inputs[d, ..., :n], reset_h)
        d_initial = None
        if ctx.needs_input_grad[3]:
            d_initial = sum(x for x in (*d_h, *d_h_from_gates) if x is not None)
        return None, None, None, d_initial, *d_inputs, *d_weights


def _position(t: int, steps: int, backwards: bool) -> tuple[int, int, int]:
    """Return the indices of step t's word, of the state it reads and of the state it makes.

    The initial one of the T + 1 states is the first, or, running backwards, the last.
    """
    return (steps - 1 - t, steps - t, steps - 1 - t) if backwards else (t, t, t + 1)


def _states(h: Tensor, after: bool) -> Tensor:
    """Return the states after each step (all but the first), or before each (all but the last)."""
    return h[1:] if after else h[:-1]
