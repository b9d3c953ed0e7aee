"""Gated recurrences that do not depend on attention, with a backward pass derived by hand.

Same functions as in ``reference``. The loops work in place on buffers that hold all steps; no
graph is recorded, and the gradients of the weights are one product over all steps.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.compiled import elementwise
from fairseq_rnnsearch.kernels.elementwise import accurate_type
from fairseq_rnnsearch.kernels.fast_passes import (
    apply,
    refuse_second_order,
    summed_product,
    without_autocast,
)
from fairseq_rnnsearch.kernels.interface import RecurrentWeights
from fairseq_rnnsearch.kernels.packed import batch_product


def gated_recurrence(
    inputs: Tensor,
    initial: Tensor,
    weights: RecurrentWeights,
    *,
    present: Tensor | None = None,
    reverse: bool = False,
) -> Tensor:
    """See ``reference.gated_recurrence``."""
    return apply(_Recurrence, (reverse,), present, initial, inputs, *weights)


def bidirectional_recurrence(
    forward_inputs: Tensor,
    backward_inputs: Tensor,
    present: Tensor,
    forward_weights: RecurrentWeights,
    backward_weights: RecurrentWeights,
) -> Tensor:
    """See ``reference.bidirectional_recurrence``; the directions take their steps together."""
    weights = (*forward_weights, *backward_weights)
    inputs = forward_inputs, backward_inputs
    return apply(_Recurrence, (False, True), present, None, *inputs, *weights)


class _Recurrence(torch.autograd.Function):
    """One recurrence, or several in step whose states stand side by side.

    Args of ``apply``:
        operands: type of the products' operands, or None for that of the inputs.
        reverse: for each direction whether it runs from the last position to the first.
        present: ``(time, batch)`` or None.
        initial: ``(batch, n)``, of all directions, or None for zeros.
        tensors: inputs of each direction, then gates and proposed of each direction.

    Returns:
        ``(time, batch, directions x n)``.
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
        a = inputs[0].new_empty(D, T, B, 3 * n, dtype=accurate_type(operands))
        inputs = [x.to(a.dtype).contiguous() for x in inputs]
        if present is not None:
            present = present.to(a.dtype).contiguous()
        h = a.new_empty(D, T + 1, B, n)
        for d, backwards in enumerate(reverse):
            h[d, T if backwards else 0] = 0 if initial is None else initial
        reset_h = a.new_empty(B, n, dtype=operands)
        products, ops = [batch_product(weight) for weight in weights], elementwise(operands)
        for t in range(T):
            for d, backwards in enumerate(reverse):
                times_U_gates, times_U = products[2 * d : 2 * d + 2]
                at, before, after = _position(t, T, backwards)
                x, s, unit = inputs[d][at], h[d, before], a[d, at]
                here = None if present is None else present[at]
                gates = times_U_gates(s.to(operands))
                ops.unit_gates(x[:, n:], gates, None, s, here, unit, reset_h)
                ops.unit_state(x[:, :n], times_U(reset_h), None, s, unit, h[d, after])
        ctx.reverse = reverse
        ctx.save_for_backward(a, h, *weights)
        states = (_states(h[d], after=not backwards) for d, backwards in enumerate(reverse))
        return torch.cat([x.to(operands) for x in states], dim=-1)

    @staticmethod
    @without_autocast
    def backward(
        ctx: torch.autograd.function.FunctionCtx, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        a, h, *weights = ctx.saved_tensors
        D, T, B, n = *a.shape[:3], h.size(-1)
        dtype = weights[0].dtype
        grad = grad.contiguous()
        da, dh = torch.empty_like(a, dtype=dtype), [a.new_zeros(B, n) for _ in range(D)]
        from_gates = [None] * D  # what dh lacks
        products, ops = [batch_product(weight.T) for weight in weights], elementwise(dtype)
        for t in reversed(range(T)):
            for d, backwards in enumerate(ctx.reverse):
                times_U_gates, times_U = products[2 * d : 2 * d + 2]
                at, before, _ = _position(t, T, backwards)
                unit, s, d_unit = a[d, at], h[d, before], da[d, at]
                d_out = grad[at, :, d * n : (d + 1) * n]
                ops.unit_backward(dh[d], d_out, from_gates[d], unit, s, d_unit)
                ops.unit_backward_reset(dh[d], times_U(d_unit[:, :n]), unit, s, d_unit)
                from_gates[d] = times_U_gates(d_unit[:, n:])
        d_weights = [None] * len(weights)
        if any(ctx.needs_input_grad[4 + D :]):
            for d, backwards in enumerate(ctx.reverse):
                previous = _states(h[d], after=backwards)
                reset_h = a[d, ..., 2 * n :] * previous
                d_weights[2 * d] = summed_product(da[d, ..., n:], previous)
                d_weights[2 * d + 1] = summed_product(da[d, ..., :n], reset_h)
        d_initial = None
        if ctx.needs_input_grad[3]:
            d_initial = sum(x for x in (*dh, *from_gates) if x is not None)
        return None, None, None, d_initial, *da, *d_weights


def _position(t: int, steps: int, backwards: bool) -> tuple[int, int, int]:
    """Of step t: the word that it reads, the state that it starts from, the one that it makes.

    Of T + 1 states the first, or in the backward direction the last, is the initial one.
    """
    return (steps - 1 - t, steps - t, steps - 1 - t) if backwards else (t, t, t + 1)


def _states(h: Tensor, after: bool) -> Tensor:
    """All but the last, or all but the first."""
    return h[1:] if after else h[:-1]
