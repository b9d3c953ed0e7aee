"""The output layer and the cost of given words, without ever storing all logits.

    x = W t + b,   -log p(y) = log sum_k exp(x_k) - x_y

The forward pass computes logits for some rows at a time, and their gradient p - onehot(y); several
such parts together give the gradient of W. The backward pass only scales these gradients.
Probabilities, their logarithms and all sums are in float32 or wider; only operands and results of
products may be narrower.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.accuracy import accurate_type
from fairseq_rnnsearch.kernels.cpu.compiled_steps import operations
from fairseq_rnnsearch.kernels.cpu.operations import scratch
from fairseq_rnnsearch.kernels.cpu.packed_weights import batch_product, single_product
from fairseq_rnnsearch.kernels.derived import apply, first_order, slices

# bytes of logits per block: with more, each block is fresh system memory, slow at first touch
LOGITS = 2**24
# bytes of their gradients per product: fewer slow the products down, more cost memory
GRADIENTS = 2**26


def output_cost(
    t: Tensor,
    weight: Tensor,
    bias: Tensor,
    words: Tensor,
    label_smoothing: float = 0.0,
    present: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See ``Backend.output_cost``."""
    if present is not None:
        t, words = t[present], words[present]
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
        words = words.contiguous()
        row = len(W) * t.element_size()
        gradients = _Gradients(t, W, max(1, GRADIENTS // row)) if wanted else None
        cost, nll = (torch.zeros((), dtype=dtype) for _ in range(2))
        times_W, ops = batch_product(W), operations(operands)
        d_bias = torch.zeros(ops.parts, len(b), dtype=dtype)
        for part in slices(len(t), max(1, min(LOGITS, GRADIENTS) // row)):
            d_x = gradients.of_logits(part) if wanted else None
            sums = ops.cost_of_words(times_W(t[part], b), words[part], label_smoothing, d_x, d_bias)
            cost, nll = cost + sums[0], nll + sums[1]
        ctx.mark_non_differentiable(nll)
        if wanted:
            ctx.save_for_backward(*gradients.finished(), d_bias.sum(dim=0))
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


class _Gradients:
    """The gradients of t and W from those of the logits: d_t = d_x W and d_W = d_x^T t.

    Args:
        rows: number of rows of d_x to collect for one product.
    """

    def __init__(self, t: Tensor, W: Tensor, rows: int) -> None:
        dtype = accurate_type(t.dtype)
        self._t, self._W = t, W
        numbers = min(len(t), rows) * len(W)
        self._d_x = scratch("gradients of logits", numbers, t.dtype).view(-1, len(W))
        self._rows = slice(0, 0)  # the rows of t whose gradients are in d_x
        self._d_t, self._d_W = torch.empty_like(t), torch.empty_like(W, dtype=dtype)

    def of_logits(self, part: slice) -> Tensor:
        """Return the buffer for the gradients of the next rows' logits."""
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

    def finished(self) -> tuple[Tensor, Tensor]:
        """Return the gradients of t and W."""
        self._multiply()
        return self._d_t, self._d_W


def _add_product(out: Tensor, x: Tensor, y: Tensor, first: bool) -> None:
    """Add x y to ``out``; the first product overwrites the uninitialised memory."""
    if out.dtype == x.dtype:
        out.addmm_(x, y, beta=0 if first else 1)
    elif first:
        out.copy_(x @ y)
    else:
        out += x @ y
