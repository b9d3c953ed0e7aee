"""The output layer and the cost of given words, without ever storing all logits.

    x = W t + b,   -log p(y) = log sum_k exp(x_k) - x_y

The forward pass computes logits for some rows at a time, and their gradient p - onehot(y); several
such parts together give the gradient of W. The backward pass only scales these gradients.
Probabilities, their logarithms and all sums are in float32 or wider; only operands and results of
products may be narrower.
"""

import threading
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from fairseq_rnnsearch.kernels.cpu.operations import Operations
from fairseq_rnnsearch.kernels.cpu.packed_weights import (
    batch_product,
    single_product,
    weight_gradient,
)
from fairseq_rnnsearch.kernels.derived import accurate_type, apply, first_order, slices

# bytes of logits per block: with more, each block is fresh system memory, slow at first touch
LOGITS = 2**24
# bytes of their gradients per product: fewer slow the products down, more cost memory
GRADIENTS = 2**26
# bytes of all logits: if there are no more, a cache may hold them, and their gradients replace them
TOGETHER = 2**25


def output_cost(
    t: Tensor,
    weight: Tensor,
    bias: Tensor,
    words: Tensor,
    label_smoothing: float = 0.0,
    present: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See ``Reference.output_cost``."""
    if present is not None:
        t, words = t[present], words[present]
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in (t, weight, bias))
    return apply(_OutputCost, wanted, label_smoothing, words, t, weight, bias)


def rounded(rows: int) -> int:
    """Return a number of rows, or up to an eighth more.

    oneDNN compiles a product for each number of rows, which takes up to 10 ms and 2 MB, and keeps
    1024 of them. Each batch has another number of words.
    """
    step = 1 << max(rows.bit_length() - 4, 0)
    return -(-rows // step) * step


@cache
def _memory() -> threading.local:
    return threading.local()


def _scratch(size: int, dtype: torch.dtype) -> Tensor:
    """Return ``(size,)`` numbers in memory that the thread's next call reuses.

    Allocating it for every batch would be slow.
    """
    own = _memory().__dict__
    memory = own.get("numbers")
    if memory is None or memory.dtype != dtype or len(memory) < size:
        memory = own["numbers"] = torch.empty(size, dtype=dtype, device="cpu")
    return memory[:size]


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
        words, count = words.contiguous(), len(t)
        t = pad(t, (0, 0, 0, rounded(count) - count))
        row = len(W) * t.element_size()
        cost, nll = (torch.zeros((), dtype=dtype) for _ in range(2))
        together = 0 < len(t) * row <= TOGETHER
        parts = slices(len(t), max(1, (TOGETHER if together else min(LOGITS, GRADIENTS)) // row))
        times_W, ops = batch_product(W, len(parts)), Operations(operands)
        d_bias = torch.zeros(ops.parts, len(b), dtype=dtype)
        d_t, d_W = torch.empty_like(t), None  # d_x W and d_x^T t
        if wanted and not together:
            numbers = min(len(t), max(1, GRADIENTS // row)) * len(W)
            d_logits = _scratch(numbers, operands).view(-1, len(W))

        def multiply(rows: slice) -> Tensor:
            """Use the gradients of these rows' logits, all in ``d_logits``; return d_W so far."""
            d_x = d_logits[: rows.stop - rows.start]
            d_t[rows] = single_product(d_x, W.T)
            of_rows = weight_gradient(d_x, t[rows])
            return of_rows.to(dtype) if d_W is None else d_W.add_(of_rows)

        begin, d_x = 0, None  # the first row whose gradient waits in d_logits
        for part in parts:
            logits = times_W(t[part], b)
            if wanted and together:
                d_logits = d_x = logits
            elif wanted:
                if part.stop - begin > len(d_logits):
                    d_W = multiply(slice(begin, part.start))
                    begin = part.start
                d_x = d_logits[part.start - begin : part.stop - begin]
            known = max(min(part.stop, count) - part.start, 0)
            if wanted:
                d_x[known:] = 0
                d_x = d_x[:known]
            sums = ops.cost_of_words(logits[:known], words[part], label_smoothing, d_x, d_bias)
            cost, nll = cost + sums[0], nll + sums[1]
        ctx.mark_non_differentiable(nll)
        if wanted:
            d_W = multiply(slice(begin, len(t)))
            ctx.save_for_backward(d_t[:count], d_W, d_bias.sum(dim=0))
        return cost, nll

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_cost: Tensor, _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        gradients = ctx.saved_tensors
        if d_cost != 1:
            gradients = (gradient * d_cost for gradient in gradients)
        return None, None, None, None, *gradients
