"""Lines that have slid: of a text and its translation, long sentences should be long in both.

In 20 parallel corpora, the lengths of 200 pairs in a row usually correlate by 0.9, and never three
times in a row by less than 0.3. Where one side was shuffled, they correlate by 0.0; where it has
lost a line, by 0.0 to 0.3, or by up to 0.6 where neighbours are of similar length.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import islice

BLOCK = 200  # pairs
_LEAST = 0.3  # correlation
_IN_A_ROW = 3  # blocks; at the end of the text one less
_LEAST_PAIRS = 100  # of the last block, and of the sample
_SAMPLED = 20  # one pair in so many tells of a shuffled side where a block's lengths are alike
_LEAST_DEVIATION = 0.25  # of a logarithm; a text in order of length has less in a block


def warning_of(name: str, lengths: Iterable[Sequence[int]]) -> str | None:
    """Say where a text's sides stop going together; None if that is not seen.

    Args:
        lengths: of each line and its translation, in characters; blank lines are not compared.
    """
    numbered = (
        (number, *map(math.log, pair)) for number, pair in enumerate(lengths, start=1) if all(pair)
    )
    low, sample, last, blocks = [], [], 0, 0  # low: blocks in a row, with their correlation
    while len(low) < _IN_A_ROW and (block := [*islice(numbered, BLOCK)]):
        sample += [pair for number, *pair in block if number % _SAMPLED == 0]
        first, last = block[0][0], block[-1][0]
        correlation = correlation_of([pair for _, *pair in block])
        if correlation is not None and len(block) >= _LEAST_PAIRS:
            blocks += 1
            low = [*low, (first, last, correlation)] if correlation < _LEAST else []
    if len(low) < min(_IN_A_ROW - 1, blocks):
        low = []
    if not low and len(sample) >= _LEAST_PAIRS:
        overall = correlation_of(sample)
        low = [(1, last, overall)] if overall is not None and overall < _LEAST else []
    if not low:
        return None
    first, last, correlation = low[0]
    return (
        f"warning: {name}: from lines {first} to {last} on, long sentences are not long on the"
        f" other side (correlation of lengths {correlation:.2f}, usually 0.9): has a side lost"
        " a line, or another order?"
    )


def correlation_of(pairs: Sequence[Sequence[float]]) -> float | None:
    """Return the correlation of pairs of numbers; None if either side hardly varies."""
    means = [sum(side) / len(pairs) for side in zip(*pairs, strict=True)]
    away = [
        [value - mean for value in side]
        for side, mean in zip(zip(*pairs, strict=True), means, strict=True)
    ]
    squares = [sum(value * value for value in side) for side in away]
    if min(squares) < len(pairs) * _LEAST_DEVIATION**2:
        return None
    return sum(map(float.__mul__, *away)) / math.sqrt(math.prod(squares))
