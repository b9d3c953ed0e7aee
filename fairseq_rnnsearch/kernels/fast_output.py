"""The output layer and the cost of given words, without ever holding all logits.

    x = W t + b,   -log p(y) = log sum_k exp(x_k) - x_y

The logits of some rows are multiplied into a buffer, and the gradient p - onehot(y) takes their
place there, a few rows at a time that stay in the cache; from it the gradients of t, W and b are
multiplied at once. The backward pass only scales them. Probabilities, their logarithms and all
sums are in float32 or wider; in a narrower type are only the operands and results of products.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.fast_unit import (
    accurate_type,
    apply,
    refuse_second_order,
    without_autocast,
)

# bytes of logits at a time: fewer, and the products slow down; more, and memory goes
LOGITS = 2**26
# numbers at a time between the products: in float32, two such blocks fit in 2 MB
BLOCK = 2**18


def output_cost(
    t: Tensor, weight: Tensor, bias: Tensor, words: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """See ``reference.output_cost``."""
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in (t, weight, bias))
    return apply(_OutputCost, wanted, label_smoothing, words, t, weight, bias)


class _OutputCost(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        operands: torch.dtype | None,
        wanted: bool,
        label_smoothing: float,
        words: Tensor,
        t: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        operands = operands or t.dtype
        t, W, b = (x.to(operands) for x in (t, weight, bias))
        dtype = accurate_type(operands)
        rows = max(1, LOGITS // (len(W) * t.element_size()))
        logits = t.new_empty(min(len(t), rows), len(W))
        cost, nll = (torch.zeros((), dtype=dtype) for _ in range(2))
        if wanted:
            d_t = torch.empty_like(t)
            d_weight = torch.empty_like(W, dtype=dtype)
            d_bias = torch.zeros_like(b, dtype=dtype)
        for part in _slices(len(t), rows):
            x, y = logits[: len(t[part])], words[part].unsqueeze(1)
            torch.addmm(b, t[part], W.T, out=x)
            for block in _slices(len(x), max(1, BLOCK // len(W))):
                dx = _cost_of_block(x[block].to(dtype), y[block], label_smoothing, cost, nll)
                if wanted:
                    d_bias += dx.sum(dim=0)
                    x[block] = dx
            if wanted:
                torch.mm(x, W, out=d_t[part])
                _add_product(d_weight, x.T, t[part], first=part.start == 0)
        ctx.mark_non_differentiable(nll)
        if wanted:
            ctx.save_for_backward(d_t, d_weight, d_bias)
        return cost, nll

    @staticmethod
    @without_autocast
    def backward(
        ctx: torch.autograd.function.FunctionCtx, scale: Tensor, _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        gradients = ctx.saved_tensors
        if scale != 1:
            gradients = (gradient * scale for gradient in gradients)
        return None, None, None, None, *gradients


def _slices(length: int, step: int) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, max(length, 1), step))


def _cost_of_block(
    x: Tensor, words: Tensor, label_smoothing: float, cost: Tensor, nll: Tensor
) -> Tensor:
    """Adds to ``cost`` and ``nll``; returns the gradient of the logits ``x``."""
    symbols = x.size(1)
    dx = torch.softmax(x, dim=1)
    # the largest probability, unlike that of the word, is never too small for a logarithm
    log_sum = x.amax(dim=1) - dx.amax(dim=1).log()
    block_nll = log_sum.sum() - x.gather(1, words).sum()
    nll += block_nll
    spread = label_smoothing / (symbols - 1)  # as fairseq: over the other symbols
    kept = 1 - label_smoothing - spread
    cost += kept * block_nll
    if label_smoothing:
        cost += spread * (symbols * log_sum.sum() - x.sum())
        dx -= spread
    return dx.scatter_add_(1, words, dx.new_full((1, 1), -kept).expand_as(words))


def _add_product(out: Tensor, x: Tensor, y: Tensor, first: bool) -> None:
    """Out of memory that holds anything when it is the first."""
    if out.dtype == x.dtype:
        out.addmm_(x, y, beta=0 if first else 1)
    elif first:
        out.copy_(x @ y)
    else:
        out += x @ y
