"""The output layer and the cost of given words, with padding masked.

As in ``cpu.output_cost``, the forward pass also computes the logits' gradients, some rows at a
time, so that the logits are never all stored, and the backward pass only scales the result. Only
the device knows which rows are padding, so these are computed too, and count as zero.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fairseq_rnnsearch.devices import runs_triton
from fairseq_rnnsearch.kernels.accuracy import accurate_type
from fairseq_rnnsearch.kernels.derived import apply, first_order, slices, smoothing
from fairseq_rnnsearch.paper.equations.linear import aligned

# bytes of logits per block
LOGITS = 2**28


def output_cost(
    t: Tensor,
    weight: Tensor,
    bias: Tensor,
    words: Tensor,
    label_smoothing: float = 0.0,
    present: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See ``Backend.output_cost``.

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
        ctx.width, b = t.size(1), bias.to(operands)
        t, W = (aligned(x.to(operands)) for x in (t, weight))
        words, present = words.contiguous(), present.contiguous()
        exact = accurate_type(operands)
        nll, total = t.new_zeros(2, dtype=exact)
        d_t, d_W = torch.empty_like(t), torch.zeros_like(W, dtype=exact)
        d_b = torch.zeros_like(b, dtype=exact)
        compute = _fused_cost_of_rows() if runs_triton(t) else cost_of_rows
        for part in slices(len(t), max(1, LOGITS // (len(W) * t.element_size()))):
            x = torch.addmm(b, t[part], W.T)
            of_words, of_all = compute(x, words[part], present[part], label_smoothing, wanted)
            nll = nll + of_words.sum()
            if label_smoothing:
                total = total + of_all.sum()
            if wanted:  # x now holds its gradient
                d_b += x.sum(dim=0, dtype=exact)
                torch.mm(x, W, out=d_t[part])
                d_W += x.T @ t[part]
        kept, spread = smoothing(label_smoothing, len(W))
        cost = kept * nll - spread * total
        ctx.mark_non_differentiable(nll)
        if wanted:
            ctx.save_for_backward(d_t, d_W, d_b)
        return cost, nll

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_cost: Tensor, _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        d_t, d_W, d_b = ctx.saved_tensors
        gradients = (x * d_cost for x in (d_t[:, : ctx.width], d_W[:, : ctx.width], d_b))
        return None, None, None, None, None, *gradients


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
