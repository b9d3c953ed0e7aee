"""Words' vectors, whose table gets each word's gradients added up in Triton.

Sorted, a word's positions are neighbours, so that one program for each distinct word and some
columns adds up its rows, in an order that never changes. PyTorch's own kernel compares all words
with all others, on a few multiprocessors.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from fairseq_rnnsearch.kernels.derived import accurate_type, first_order

ROWS = 16  # at a time
COLUMNS = 128  # of a program


def vectors(words: Tensor, table: Tensor) -> Tensor:
    """Return the rows of a table, ``(symbols, m)``, for words: ``(...)`` to ``(..., m)``."""
    return _Vectors.apply(words, table)


class _Vectors(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, words: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(words)
        ctx.symbols = len(table)
        return nn.functional.embedding(words, table)

    @staticmethod
    @first_order
    def backward(ctx: torch.autograd.function.FunctionCtx, d: Tensor) -> tuple[None, Tensor]:
        [words] = ctx.saved_tensors
        width = d.size(-1)
        d = d.reshape(-1, width).contiguous()  # rows that are cut out or repeated stay a view
        in_order, place = words.flatten().int().sort(stable=True)
        d_table = d.new_zeros(ctx.symbols, width, dtype=accurate_type(d.dtype))
        _sum_of_rows[(len(d), triton.cdiv(width, COLUMNS))](
            *(in_order, place, d, d_table, len(d), width), ROWS=ROWS, COLUMNS=COLUMNS
        )
        return None, d_table.to(d.dtype)


@triton.jit
def _sum_of_rows(
    words, place, rows, sums, count, width: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
) -> None:
    first = tl.program_id(0)
    word = tl.load(words + first)
    if (first == 0) | (tl.load(words + first - 1, mask=first > 0, other=-1) != word):
        j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        total = tl.zeros((COLUMNS,), sums.dtype.element_ty)
        start, goes_on = first, 1
        while goes_on > 0:
            k = start + tl.arange(0, ROWS)
            is_word = (k < count) & (tl.load(words + k, mask=k < count, other=-1) == word)
            row = tl.load(place + k, mask=is_word, other=0)
            at, here = row[:, None] * width + j[None, :], is_word[:, None] & (j < width)[None, :]
            total += tl.sum(tl.load(rows + at, mask=here, other=0.0).to(total.dtype), axis=0)
            start += ROWS
            goes_on = tl.min(is_word.to(tl.int32), axis=0)
        tl.store(sums + word.to(tl.int64) * width + j, total, mask=j < width)
