"""The output layer and the cost of given words, without ever holding all logits.

    x = W t + b,   -log p(y) = log sum_k exp(x_k) - x_y

A few rows at a time: their logits, their cost, and at once the gradient p - onehot(y), from which
the gradients of t, W and b are multiplied while it is still in the cache. The backward pass only
scales them.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.fast_unit import accurate_type, refuse_second_order

# words at a time: fewer, and the products slow down; more, and their logits leave the cache
ROWS = 320


def output_cost(
    t: Tensor, weight: Tensor, bias: Tensor, words: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """See ``reference.output_cost``."""
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in (t, weight, bias))
    return _OutputCost.apply(wanted, label_smoothing, words, t, weight, bias)


class _OutputCost(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        wanted: bool,
        label_smoothing: float,
        words: Tensor,
        t: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        dtype = accurate_type(t.dtype)
        logits = t.new_empty(min(len(t), ROWS), len(weight))
        p = torch.empty_like(logits, dtype=dtype)
        cost, nll = (torch.zeros((), dtype=dtype) for _ in range(2))
        if wanted:
            d_t = torch.empty_like(t)
            d_weight, d_bias = (torch.zeros_like(w, dtype=dtype) for w in (weight, bias))
        for start in range(0, len(t), ROWS):
            part = slice(start, start + ROWS)
            x, dx = logits[: len(t[part])], p[: len(t[part])]
            torch.addmm(bias, t[part], weight.T, out=x)
            _cost_of_chunk(x, words[part].unsqueeze(1), label_smoothing, dx, cost, nll)
            if wanted:
                _add_gradients(dx, t[part], weight, d_t[part], d_weight, d_bias)
        ctx.mark_non_differentiable(nll)
        if wanted:
            ctx.save_for_backward(d_t, d_weight.to(t.dtype), d_bias.to(t.dtype))
        return cost, nll

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, scale: Tensor, _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        gradients = ctx.saved_tensors
        if scale != 1:
            gradients = (gradient * scale for gradient in gradients)
        return None, None, None, *gradients


def _cost_of_chunk(
    x: Tensor, words: Tensor, label_smoothing: float, dx: Tensor, cost: Tensor, nll: Tensor
) -> None:
    """Adds to ``cost`` and ``nll``; the gradient of the logits ``x`` goes to ``dx``."""
    symbols, dtype = x.size(1), dx.dtype
    torch.softmax(x, dim=1, dtype=dtype, out=dx)
    # the largest probability, unlike that of the word, is never too small for a logarithm
    log_sum = x.amax(dim=1).to(dtype) - dx.amax(dim=1).log()
    chunk_nll = log_sum.sum() - x.gather(1, words).sum(dtype=dtype)
    nll += chunk_nll
    spread = label_smoothing / (symbols - 1)  # as fairseq: over the other symbols
    kept = 1 - label_smoothing - spread
    cost += kept * chunk_nll
    if label_smoothing:
        cost += spread * (symbols * log_sum.sum() - x.sum(dtype=dtype))
        dx -= spread
    dx.scatter_add_(1, words, dx.new_full((1, 1), -kept).expand_as(words))


def _add_gradients(
    dx: Tensor, t: Tensor, weight: Tensor, d_t: Tensor, d_weight: Tensor, d_bias: Tensor
) -> None:
    d_bias += dx.sum(dim=0)
    dx = dx.to(t.dtype)
    torch.mm(dx, weight, out=d_t)
    if d_weight.dtype == dx.dtype:
        d_weight.addmm_(dx.T, t)
    else:
        d_weight += dx.T @ t
