"""The output layer and the cost of given words, of which padding is not picked out.

As in ``cpu.output_cost`` the gradient of the logits comes with them, some rows at a time, so that
they are never all there, and the backward pass only scales what is there. Which rows are padding is
known to the device alone, and so these are computed and count nothing.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.accuracy import accurate_type
from fairseq_rnnsearch.kernels.cpu.passes import apply, first_order
from fairseq_rnnsearch.kernels.cpu.unit_attention_cost import slices, smoothing

# bytes of float32 logits at a time
LOGITS = 2**28


def output_cost(
    t: Tensor,
    weight: Tensor,
    bias: Tensor,
    words: Tensor,
    label_smoothing: float = 0.0,
    present: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See ``Backend.output_cost``. Words that are no symbols are an error of the device."""
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in (t, weight, bias))
    return apply(_MaskedCost, wanted, label_smoothing, words, present, t, weight, bias)


class _MaskedCost(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        operands: torch.dtype | None,
        wanted: bool,
        label_smoothing: float,
        words: Tensor,
        present: Tensor | None,
        t: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        operands = operands or t.dtype
        t, W, b = (x.to(operands) for x in (t, weight, bias))
        exact, symbols = accurate_type(operands), len(W)
        kept, spread = smoothing(label_smoothing, symbols)
        counts = torch.ones_like(words, dtype=exact) if present is None else present.to(exact)
        cost = nll = counts.new_zeros(())
        d_t, d_W, d_b = (
            torch.empty_like(t),
            W.new_zeros(W.shape, dtype=exact),
            counts.new_zeros(symbols),
        )
        for part in slices(len(t), max(1, LOGITS // (4 * symbols))):
            lprobs = torch.log_softmax(torch.addmm(b, t[part], W.T), dim=1, dtype=exact)
            word, of_row = words[part].unsqueeze(1), counts[part].unsqueeze(1)
            # where a position is padding, its cost is left out and not multiplied by zero
            of_words = torch.where(of_row > 0, lprobs.gather(1, word), 0.0)
            nll = nll - of_words.sum()
            if label_smoothing:
                cost = cost - spread * torch.where(of_row > 0, lprobs, 0.0).sum()
            if wanted:
                d_x = lprobs.exp_()
                d_x -= spread
                d_x.scatter_add_(1, word, d_x.new_full((), -kept).expand_as(word))
                d_x = torch.where(of_row > 0, d_x, 0.0)
                d_b += d_x.sum(dim=0)
                d_x = d_x.to(operands)
                d_t[part] = d_x @ W
                d_W += d_x.T @ t[part]
        cost = cost + kept * nll
        ctx.mark_non_differentiable(nll)
        if wanted:
            ctx.save_for_backward(d_t, d_W, d_b)
        return cost, nll

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_cost: Tensor, _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        gradients = (gradient * d_cost for gradient in ctx.saved_tensors)
        return None, None, None, None, None, *gradients
