"""``masked_cost.cost_of_rows`` in Triton: one launch that writes the logits once.

    log p_k = x_k - m - log sum_j exp(x_j - m)                with m = max_j x_j
    d_k     = p_k - spread - kept [k is the word]             the gradient, see ``smoothing``

Each program handles one row in two passes: the first finds m and the sum, which each lane keeps for
its own columns; the second replaces each logit by its gradient. In between, the row stays in the
GPU's cache: an H200 runs four such programs on each of 132 multiprocessors, and their rows, of the
paper's 30,000 words, take 32 of its 50 MB in bfloat16. Rows in float32 are twice as long, and part
of them is read from memory again.

The saving at the paper's 80 x 31 positions in bfloat16, counted from both codes, including the
bias's sum over rows that follows, excluding the products before and after:

            launches    bytes read and written, for each logit   all 74.4 million
    torch         12    26 = 6 + 8 + 6 + 4 + 2                                1.9 GB
    this           2     6 = 4 + 2                                            0.4 GB

cuBLAS still does the products, and reads or writes each logit three times more, 6 bytes.
"""

import triton
import triton.language as tl
from torch import Tensor

from fairseq_rnnsearch.kernels.derived import accurate_type, smoothing

BYTES = 8192  # of a row at a time
WARPS = 8


def cost_of_rows(
    logits: Tensor, words: Tensor, present: Tensor, label_smoothing: float, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """See ``masked_cost.cost_of_rows``. A word out of range makes its row's results NaN."""
    rows, symbols = logits.shape
    nll = logits.new_empty(rows, dtype=accurate_type(logits.dtype))
    total = nll.new_empty(rows) if label_smoothing else None
    _cost_of_rows[(rows,)](
        *(logits, words, present, nll, total, *smoothing(label_smoothing, symbols), symbols),
        IS_WANTED=wanted,
        COLUMNS=BYTES // logits.element_size(),
        num_warps=WARPS,
    )
    return nll, total


@triton.jit
def _cost_of_rows(
    logits, words, present, nll, total, kept, spread, symbols: tl.constexpr,
    IS_WANTED: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    exact: tl.constexpr = nll.dtype.element_ty
    x, k = logits + row * symbols, tl.arange(0, COLUMNS)
    here, word = tl.load(present + row) != 0, tl.load(words + row)
    columns = tl.where(here, symbols, 0)  # padding is not read
    is_symbol = (word >= 0) & (word < columns)
    of_word = tl.load(x + word, mask=is_symbol, other=float("nan")).to(exact)
    most, sums = tl.full((COLUMNS,), -1e38, exact), tl.zeros((COLUMNS,), exact)
    for start in range(0, columns, COLUMNS):
        at = tl.load(x + start + k, mask=start + k < columns, other=float("-inf")).to(exact)
        larger = tl.maximum(most, at)
        sums = sums * tl.exp(most - larger) + tl.exp(at - larger)
        most = larger
    m = tl.max(most, axis=0)
    log_sum = tl.log(tl.sum(sums * tl.exp(most - m), axis=0))
    log_sum = tl.where(is_symbol, log_sum, float("nan"))
    # subtract the largest first: beside it, the logarithm could vanish
    tl.store(nll + row, tl.where(here, log_sum - (of_word - m), 0.0))
    if IS_WANTED or total is not None:
        sums = tl.zeros((COLUMNS,), exact)
        for start in range(0, symbols, COLUMNS):
            column = start + k
            at = tl.load(x + column, mask=column < columns, other=0.0).to(exact)
            log_p = tl.where(column < columns, at - m - log_sum, 0.0)
            sums += log_p
            if IS_WANTED:
                d = tl.exp(log_p) - spread - tl.where(column == word, kept, 0.0)
                tl.store(x + column, tl.where(here, d, 0.0), mask=column < symbols)
        if total is not None:
            tl.store(total + row, tl.sum(sums, axis=0))
