"""R-Drop (Liang et al., 2021): read a batch twice, and make both predictions of a word agree.

Let p and q be the two distributions of a word, and v its label-smoothed target. The cost of the
word is

    1/2 [H(v, p) + H(v, q)]  +  alpha/4 [KL(p || q) + KL(q || p)]

with the cross entropy H. This is half of R-Drop's own cost, so that one learning rate suits it and
the plain cost. Both KL together are sum_k (p_k - q_k) (log p_k - log q_k), and the gradient with
respect to the logits of p is

    1/2 (p - v)  +  alpha/4 [p o (d - p . d) + p - q]        with d = log p - log q

It is computed with the cost, in C on a CPU and otherwise for some words at a time, so that only the
logits and their gradient take memory of that size.
"""

import ctypes

import torch
from torch import Tensor

from fairseq_rnnsearch.engine.c_library import INTEGER, POINTER, REAL
from fairseq_rnnsearch.kernels.c_functions import TYPES, Functions
from fairseq_rnnsearch.kernels.cpu.operations import SOURCE, check_words
from fairseq_rnnsearch.kernels.derived import accurate_type, smoothing

ARGUMENTS = {"rdrop_cost": (*4 * (INTEGER,), *3 * (POINTER,), *2 * (REAL,), *3 * (POINTER,))}
FUNCTIONS = Functions(SOURCE, ARGUMENTS, TYPES)
_NUMBERS = {"cpu": 2**18}  # logits per block, to fit a processor's cache
_MANY = 2**25  # on other devices


def twice(x: Tensor) -> Tensor:
    """Repeat each row of a batch, in adjacent rows: the two readings."""
    return x.repeat_interleave(2, dim=0)


def rdrop_cost(
    logits: Tensor, words: Tensor, present: Tensor, label_smoothing: float, alpha: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the cost of the correct words in two readings of a batch.

    Args:
        logits: of the readings of ``twice``, ``(2 batch, target, symbols)``.
        words: ``(batch, target)``.
        present: ``(batch, target)``, false for padding, which costs nothing.
        label_smoothing: probability spread evenly over all symbols but the correct one.
        alpha: weight of the divergence.

    Returns:
        the cost; and without gradient the mean of both readings' -log p of the words, and the
        divergence, [KL(p || q) + KL(q || p)] / 2. All are summed, in float32 or wider.

    Raises:
        ValueError: if the shapes differ.
    """
    batch, target = words.shape
    if logits.shape[:2] != (2 * batch, target) or present.shape != words.shape:
        raise ValueError(
            f"logits {tuple(logits.shape)}, words {tuple(words.shape)} and present"
            f" {tuple(present.shape)} must be (2 batch, target, symbols) and twice (batch, target)"
        )
    return _RDropCost.apply(logits, words.flatten(), present.flatten(), label_smoothing, alpha)


class _RDropCost(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        logits: Tensor,
        words: Tensor,
        present: Tensor,
        label_smoothing: float,
        alpha: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits = logits.contiguous()
        given = logits, words, present, label_smoothing, alpha
        functions = FUNCTIONS.library_for(logits)
        sums, gradient = _compiled(functions, *given) if functions else _in_blocks(*given)
        ctx.save_for_backward(gradient)
        cost, nll, apart = sums.unbind()
        ctx.mark_non_differentiable(nll, apart)
        return cost, nll, apart

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_cost: Tensor, *_: Tensor
    ) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * d_cost, None, None, None, None


def _compiled(
    functions: ctypes.CDLL,
    logits: Tensor,
    words: Tensor,
    present: Tensor,
    label_smoothing: float,
    alpha: float,
) -> tuple[Tensor, Tensor]:
    """Return the three sums and the gradient of the logits, by C."""
    words, present = words.long().contiguous(), present.bool().contiguous()
    check_words(words, logits.size(2))
    threads, (rows, target, symbols) = torch.get_num_threads(), logits.shape
    dtype, gradient = accurate_type(logits.dtype), torch.empty_like(logits)
    costs = logits.new_empty(len(words), 3, dtype=dtype)
    memory = logits.new_empty(2 * threads * symbols, dtype=dtype)
    functions.rdrop_cost(
        *(threads, rows // 2, target, symbols),
        *(x.data_ptr() for x in (logits, words, present)),
        *(label_smoothing, alpha),
        *(x.data_ptr() for x in (costs, gradient, memory)),
    )
    return costs.sum(dim=0), gradient


def _in_blocks(
    logits: Tensor, words: Tensor, present: Tensor, label_smoothing: float, alpha: float
) -> tuple[Tensor, Tensor]:
    """Return the three sums and the gradient of the logits, by torch, for some words at a time."""
    dtype = accurate_type(logits.dtype)
    _, target, symbols = logits.shape
    logits = logits.flatten(0, 1)
    gradient = torch.empty_like(logits)
    readings = torch.arange(len(logits), device=logits.device).view(-1, 2, target)
    readings = [rows.flatten() for rows in readings.unbind(1)]
    kept, spread = smoothing(label_smoothing, symbols)
    sums = torch.zeros(3, dtype=dtype, device=logits.device)
    step = max(1, _NUMBERS.get(logits.device.type, _MANY) // symbols)
    for start in range(0, len(words), step):
        part = slice(start, start + step)
        word, there = words[part].unsqueeze(1), present[part].unsqueeze(1).to(dtype)
        rows = [of_reading[part] for of_reading in readings]
        log_p, log_q = (torch.log_softmax(logits[r], 1, dtype=dtype).mul_(there) for r in rows)
        p, q = log_p.exp().mul_(there), log_q.exp().mul_(there)
        d, difference = log_p - log_q, p - q
        right = log_p.gather(1, word).sum() + log_q.gather(1, word).sum()
        wanted = kept * right
        if label_smoothing:
            wanted = wanted + spread * (log_p.sum() + log_q.sum())
        apart = torch.dot(difference.flatten(), d.flatten())
        sums += torch.stack((alpha / 4 * apart - wanted / 2, -right / 2, apart / 2))
        for r, of_row, sign in ((p, rows[0], 1), (q, rows[1], -1)):
            pulled = r * d
            pulled.addcmul_(r, pulled.sum(dim=1, keepdim=True), value=-1).add_(difference)
            x = pulled.mul_(sign * alpha / 4).add_(r, alpha=0.5).sub_(there, alpha=spread / 2)
            x.scatter_add_(1, word, there * (-kept / 2))
            gradient[of_row] = x.to(gradient.dtype)
    return sums, gradient.view(-1, target, symbols)
