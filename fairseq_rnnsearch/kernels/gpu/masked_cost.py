"""The output layer and the cost of given words, with padding masked.

As in ``cpu.output_cost``, the forward pass also computes the logits' gradients, some rows at a
time, so that the logits are never all stored, and the backward pass only scales the result. Only
the device knows which rows are padding, so these are computed too, and count as zero.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.derived import (
    accurate_type,
    apply,
    first_order,
    slices,
    smoothing,
)
from fairseq_rnnsearch.kernels.devices import runs_triton
from fairseq_rnnsearch.paper.equations.linear import ALIGNED

# bytes of logits per block
LOGITS = 2**28

# torch's products do from version 2.8 on
_TAKES_OUT_DTYPE = "dtype" in torch.ops.aten.mm.overloads()


def output_cost(
    t: Tensor,
    weight: Tensor,
    bias: Tensor,
    words: Tensor,
    label_smoothing: float = 0.0,
    present: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See ``Reference.output_cost``.

    A word out of range is a device-side error; in Triton it makes the cost NaN.
    """
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in (t, weight, bias))
    if present is None:
        present = torch.ones_like(words, dtype=torch.bool)
    return apply(_MaskedCost, wanted, label_smoothing, words, present, t, weight, bias)


class _MaskedCost(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        operands: torch.dtype | None,
        wanted: bool,
        label_smoothing: float,
        words: Tensor,
        present: Tensor,
        t: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        operands = operands or t.dtype
        width = t.size(1)
        # W t + b is the product of [W, b] and [t, 1], and so are the gradients
        t, W = (_with_a_column(x, y, operands) for x, y in ((t, 1), (weight, bias)))
        words, present = words.contiguous(), present.contiguous()
        nll, total = t.new_zeros(2, dtype=accurate_type(operands))
        d_t, d_W = torch.empty_like(t), None
        compute = _fused_cost_of_rows() if runs_triton(t) else cost_of_rows
        for part in slices(len(t), max(1, LOGITS // (len(W) * t.element_size()))):
            x = torch.mm(t[part], W.T)
            of_words, of_all = compute(x, words[part], present[part], label_smoothing, wanted)
            nll = nll + of_words.sum()
            if label_smoothing:
                total = total + of_all.sum()
            if wanted:  # x now holds its gradient
                torch.mm(x, W, out=d_t[part])
                of_part = accurate_product(x.T, t[part])
                d_W = of_part if d_W is None else d_W.add_(of_part)
        kept, spread = smoothing(label_smoothing, len(W))
        cost = kept * nll - spread * total
        ctx.mark_non_differentiable(nll)
        if wanted:
            d_W = torch.zeros_like(W, dtype=nll.dtype) if d_W is None else d_W
            ctx.save_for_backward(d_t[:, :width], d_W[:, :width], d_W[:, width])
        return cost, nll

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_cost: Tensor, _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        return None, None, None, None, None, *(x * d_cost for x in ctx.saved_tensors)


def accurate_product(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b, matrices or batches of them, without rounding sums to the operands' type."""
    accurate = accurate_type(a.dtype)
    multiply = torch.mm if a.dim() == 2 else torch.bmm
    if a.is_cuda and a.dtype != accurate and _TAKES_OUT_DTYPE:
        return multiply(a, b, out_dtype=accurate)
    return multiply(a.to(accurate), b.to(accurate))


def _with_a_column(rows: Tensor, column: Tensor | float, dtype: torch.dtype) -> Tensor:
    """Return rows with one more number, and zeros up to a multiple of 16 bytes."""
    width = rows.size(1)
    more = -(width + 1) % ALIGNED
    wider = rows.new_empty(len(rows), width + 1 + more, dtype=dtype)
    wider[:, :width], wider[:, width], wider[:, width + 1 :] = rows, column, 0
    return wider


def cost_of_rows(
    logits: Tensor, words: Tensor, present: Tensor, label_smoothing: float, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """Return each row's -log p of its word, and its sum of log p over all symbols.

    Both are ``(rows,)``, in float32 or wider, and 0 for padding. The sums are None without label
    smoothing.

    Args:
        logits: ``(rows, symbols)``; if ``wanted``, they are overwritten with their gradients, 0 for
            padding.
        words, present: ``(rows,)``; ``present`` is false for padding.
    """
    word, here = words.unsqueeze(1), present.unsqueeze(1)
    log_p = torch.log_softmax(logits, dim=1, dtype=accurate_type(logits.dtype))
    # where, not a product with zero: padding may cost NaN
    nll = torch.where(present, -log_p.gather(1, word).squeeze(1), 0.0)
    total = torch.where(present, log_p.sum(dim=1), 0.0) if label_smoothing else None
    if wanted:
        kept, spread = smoothing(label_smoothing, logits.size(1))
        d = log_p.exp_()
        if label_smoothing:
            d -= spread
        d.scatter_add_(1, word, d.new_full((), -kept).expand_as(word))
        logits.copy_(d).masked_fill_(~here, 0.0)
    return nll, total


def _fused_cost_of_rows() -> Callable:
    from fairseq_rnnsearch.kernels.gpu.fused_cost import cost_of_rows

    return cost_of_rows
