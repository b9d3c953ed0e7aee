"""Gated recurrences that do not depend on attention, with a backward pass derived by hand.

Same functions as in ``reference``. The loops work in place on buffers that hold all steps; no
graph is recorded, and the gradients of the weights are one product over all steps.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.fast_unit import (
    accurate_type,
    apply,
    refuse_second_order,
    summed_product,
    unit_backward,
    unit_forward,
    without_autocast,
)
from fairseq_rnnsearch.kernels.interface import RecurrentWeights
from fairseq_rnnsearch.kernels.packed import step_products


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
        inputs = [x.to(a.dtype) for x in inputs]
        if present is not None:
            present = present.unsqueeze(-1).to(a.dtype)
        h = a.new_empty(D, T + 1, B, n)
        for d, backwards in enumerate(reverse):
            h[d, T if backwards else 0] = 0 if initial is None else initial
        products = [step_products(weight)[1] for weight in weights]
        for t in range(T):
            for d, backwards in enumerate(reverse):
                add_gates, add_proposed = products[2 * d : 2 * d + 2]
                at, before, after = _position(t, T, backwards)
                x, s = inputs[d][at], h[d, before]
                gates = add_gates(x[:, n:], s)
                here = None if present is None else present[at]
                unit_forward(x[:, :n], gates, s, add_proposed, a[d, at], h[d, after], here)
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
        da, dh = torch.empty_like(a), [a.new_zeros(B, n) for _ in range(D)]
        products = [step_products(weight.T) for weight in weights]
        for t in reversed(range(T)):
            for d, backwards in enumerate(ctx.reverse):
                at, before, _ = _position(t, T, backwards)
                (_, add_gates), (proposed, _) = products[2 * d : 2 * d + 2]
                dh[d] += grad[at, :, d * n : (d + 1) * n]
                unit_backward(dh[d], a[d, at], h[d, before], proposed, da[d, at])
                dh[d] = add_gates(dh[d], da[d, at, :, n:])
        d_weights, dtype = [None] * len(weights), weights[0].dtype
        if any(ctx.needs_input_grad[4 + D :]):
            for d, backwards in enumerate(ctx.reverse):
                previous = _states(h[d], after=backwards)
                reset_h = a[d, ..., 2 * n :] * previous
                d_weights[2 * d] = summed_product(da[d, ..., n:], previous, dtype)
                d_weights[2 * d + 1] = summed_product(da[d, ..., :n], reset_h, dtype)
        d_initial = sum(dh) if ctx.needs_input_grad[3] else None
        return None, None, None, d_initial, *da, *d_weights


def _position(t: int, steps: int, backwards: bool) -> tuple[int, int, int]:
    """Of step t: the word that it reads, the state that it starts from, the one that it makes.

    Of T + 1 states the first, or in the backward direction the last, is the initial one.
    """
    return (steps - 1 - t, steps - t, steps - 1 - t) if backwards else (t, t, t + 1)


def _states(h: Tensor, after: bool) -> Tensor:
    """All but the last, or all but the first."""
    return h[1:] if after else h[:-1]
