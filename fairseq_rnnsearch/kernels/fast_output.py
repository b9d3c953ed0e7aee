"""The output layer and the cost of given words, without ever holding all logits.

    x = W t + b,   -log p(y) = log sum_k exp(x_k) - x_y

The logits of some rows are multiplied, and from them the gradient p - onehot(y), a few rows at a
time that stay in the cache; of several such parts together comes the gradient of W. The backward
pass only scales what is there. Probabilities, their logarithms and all sums are in float32 or
wider; in a narrower type are only the operands and results of products.
"""

import threading
from collections.abc import Iterator

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.fast_unit import (
    accurate_type,
    apply,
    refuse_second_order,
    without_autocast,
)
from fairseq_rnnsearch.kernels.packed import batch_product, single_product

# bytes of logits at a time: more, and their memory comes from the system each time, slow at its
# first touch
LOGITS = 2**24
# bytes of their gradients at a time: fewer, and the products slow down; more, and memory goes
GRADIENTS = 2**26
# numbers at a time between the products: in float32, two such blocks fit in 2 MB
BLOCK = 2**18

_kept = threading.local()


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
        row = len(W) * t.element_size()
        gradients = _Gradients(t, W, b, max(1, GRADIENTS // row)) if wanted else None
        cost, nll = (torch.zeros((), dtype=dtype) for _ in range(2))
        times_W = batch_product(W)
        for part in _slices(len(t), max(1, min(LOGITS, GRADIENTS) // row)):
            x, y = times_W(t[part], b), words[part].unsqueeze(1)
            d_x = gradients.room(part) if wanted else torch.empty_like(x)
            for block in _slices(len(x), max(1, BLOCK // len(W))):
                exact = _cost_of_block(x[block], y[block], label_smoothing, cost, nll, d_x[block])
                if wanted:
                    gradients.bias += exact.sum(dim=0)
        ctx.mark_non_differentiable(nll)
        if wanted:
            ctx.save_for_backward(*gradients.finished())
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


class _Gradients:
    """Those of t, W and b, from those of the logits, ``rows`` of them at a time."""

    def __init__(self, t: Tensor, W: Tensor, b: Tensor, rows: int) -> None:
        dtype = accurate_type(t.dtype)
        self._t, self._W = t, W
        self._d_x = _scratch(min(len(t), rows) * len(W), t.dtype).view(-1, len(W))
        self._rows = slice(0, 0)  # of which gradients are in d_x
        self._d_t, self._d_W = torch.empty_like(t), torch.empty_like(W, dtype=dtype)
        self.bias = torch.zeros_like(b, dtype=dtype)

    def room(self, part: slice) -> Tensor:
        """Where the gradient of the logits of the next rows is to go."""
        if part.stop - self._rows.start > len(self._d_x):
            self._multiply()
        self._rows = slice(self._rows.start, part.stop)
        return self._d_x[part.start - self._rows.start : part.stop - self._rows.start]

    def _multiply(self) -> None:
        rows = self._rows
        d_x = self._d_x[: rows.stop - rows.start]
        self._d_t[rows] = single_product(d_x, self._W.T)
        _add_product(self._d_W, d_x.T, self._t[rows], first=rows.start == 0)
        self._rows = slice(rows.stop, rows.stop)

    def finished(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of t, W and b."""
        self._multiply()
        return self._d_t, self._d_W, self.bias


def _scratch(size: int, dtype: torch.dtype) -> Tensor:
    """Memory that is the same in every batch, one for each thread: new memory is slow."""
    memory = getattr(_kept, "memory", None)
    if memory is None or memory.dtype != dtype or len(memory) < size:
        _kept.memory = memory = torch.empty(size, dtype=dtype)
    return memory[:size]


def _slices(length: int, step: int) -> Iterator[slice]:
    for start in range(0, max(length, 1), step):
        yield slice(start, min(start + step, length))


def _cost_of_block(
    x: Tensor, words: Tensor, label_smoothing: float, cost: Tensor, nll: Tensor, out: Tensor
) -> Tensor:
    """Adds to ``cost`` and ``nll``.

    Returns:
        The gradient of the logits ``x``, in the type of ``cost``; in its own it is in ``out``.
    """
    symbols = x.size(1)
    x = x.to(cost.dtype)
    dx = torch.softmax(x, dim=1, out=out if out.dtype == x.dtype else None)
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
    dx.scatter_add_(1, words, dx.new_full((1, 1), -kept).expand_as(words))
    if dx is not out:
        out.copy_(dx)
    return dx


def _add_product(out: Tensor, x: Tensor, y: Tensor, first: bool) -> None:
    """Out of memory that holds anything when it is the first."""
    if out.dtype == x.dtype:
        out.addmm_(x, y, beta=0 if first else 1)
    elif first:
        out.copy_(x @ y)
    else:
        out += x @ y
