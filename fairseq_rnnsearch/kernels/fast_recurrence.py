"""Gated recurrences that do not depend on attention, with a backward pass derived by hand.

Same functions as in ``reference``. The loops work in place on buffers that hold all steps; no
graph is recorded, and the gradients of the weights are one product over all steps.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.fast_unit import (
    accurate_type,
    add_product,
    apply,
    refuse_second_order,
    unit_backward,
    unit_forward,
    without_autocast,
)
from fairseq_rnnsearch.kernels.interface import RecurrentWeights


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
        U_gates, U = _stacked(weights)
        D, T, B, n = len(reverse), *inputs[0].shape[:2], U.size(-1)
        a = U.new_empty(D, T, B, 3 * n, dtype=accurate_type(operands))
        for d, backwards in enumerate(reverse):
            _copy(inputs[d], a[d], backwards)
            if present is not None:  # z = 0 carries the state on
                absent = ~(present.flip(0) if backwards else present)
                a[d, ..., n : 2 * n].masked_fill_(absent.unsqueeze(-1), -torch.inf)
        h = a.new_empty(D, T + 1, B, n)
        h[:, 0] = 0 if initial is None else initial
        reset_h = a.new_empty(D, B, n)
        for t in range(T):
            add_product(a[:, t, :, n:], h[:, t], U_gates.mT)
            unit_forward(a[:, t], h[:, t], U, reset_h, h[:, t + 1])
        ctx.reverse = reverse
        ctx.save_for_backward(a, h, *weights)
        states = U.new_empty(T, B, D * n)
        for d, backwards in enumerate(reverse):
            _copy(h[d, 1:], states[..., d * n : (d + 1) * n], backwards)
        return states

    @staticmethod
    @without_autocast
    def backward(
        ctx: torch.autograd.function.FunctionCtx, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        a, h, *weights = ctx.saved_tensors
        U_gates, U = _stacked(weights)
        D, T, B, n = len(ctx.reverse), *a.shape[1:3], U.size(-1)
        da, dh = torch.empty_like(a), a.new_zeros(D, B, n)
        scratch = a.new_empty(2, D, B, n)
        for t in reversed(range(T)):
            for d, backwards in enumerate(ctx.reverse):
                position = T - 1 - t if backwards else t
                dh[d] += grad[position, :, d * n : (d + 1) * n]
            unit_backward(dh, a[:, t], h[:, t], U, da[:, t], scratch)
            add_product(dh, da[:, t, :, n:], U_gates)
        d_weights = (None,) * len(weights)
        if any(ctx.needs_input_grad[4 + D :]):
            d_gates = _products(da[..., n:], h[:, :T], U.dtype)
            d_proposed = _products(da[..., :n], a[..., 2 * n :] * h[:, :T], U.dtype)
            d_weights = (d for pair in zip(d_gates, d_proposed, strict=True) for d in pair)
        d_inputs = (
            da[d].flip(0) if backwards else da[d] for d, backwards in enumerate(ctx.reverse)
        )
        d_initial = dh.sum(0) if ctx.needs_input_grad[3] else None
        return None, None, None, d_initial, *d_inputs, *d_weights


def _stacked(weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """[gates, proposed, gates, proposed ...] to ``(directions, 2n, n)``, ``(directions, n, n)``."""
    gates, proposed = weights[::2], weights[1::2]
    if len(gates) == 1:
        return gates[0].unsqueeze(0), proposed[0].unsqueeze(0)
    return torch.stack(gates), torch.stack(proposed)


def _copy(source: Tensor, target: Tensor, backwards: bool) -> None:
    target.copy_(source.flip(0) if backwards else source)


def _products(d_out: Tensor, x: Tensor, operands: torch.dtype) -> Tensor:
    """Gradients of a matrix over all steps: ``(directions, time, batch, ...)`` both."""
    return torch.bmm(d_out.to(operands).flatten(1, 2).mT, x.to(operands).flatten(1, 2))
