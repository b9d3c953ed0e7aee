"""Lines that have slid: of a text and its translation, long sentences should be long in both.

In 20 parallel corpora, the lengths of 200 pairs in a row usually correlate by 0.9, and never three
times in a row by less than 0.3. Where one side was shuffled, they correlate by 0.0; where it has
lost a line, by 0.0 to 0.3, or by up to 0.6 where neighbours are of similar length.
"""

import math
from collections.abc import Iterable

BLOCK = 200  # pairs
_LEAST = 0.3  # correlation
_IN_A_ROW = 3  # blocks; at the end of the text one less
_LEAST_PAIRS = 100  # of the last block, and of the sample
_SAMPLED = 20  # one pair in so many tells of a shuffled side where a block's lengths are alike
_LEAST_DEVIATION = 0.25  # of a logarithm; a text in order of length has less in a block


class Lengths:
    """Compares the lengths of pairs, block by block."""

    def __init__(self) -> None:
        self._block: list[tuple[float, float]] = []
        self._first = self._last = 0  # numbers of the block's pairs
        self._low: list[tuple[int, int, float]] = []  # blocks in a row, with their correlation
        self._blocks = 0
        self._sample: list[tuple[float, float]] = []

    def add(self, number: int, source: str, target: str) -> None:
        """Take the pair of a line; blank lines are not compared."""
        if not source or not target or len(self._low) >= _IN_A_ROW:
            return
        self._first = self._first if self._block else number
        self._last = number
        self._block.append((math.log(len(source)), math.log(len(target))))
        if number % _SAMPLED == 0:
            self._sample.append(self._block[-1])
        if len(self._block) == BLOCK:
            self._end_block()

    def _end_block(self) -> None:
        correlation = correlation_of(self._block)
        if correlation is not None:
            self._blocks += 1
            is_low = correlation < _LEAST
            self._low = [*self._low, (self._first, self._last, correlation)] if is_low else []
        self._block = []

    def warning(self, name: str) -> str | None:
        """Say where a text's sides stop going together; None if that is not seen."""
        if len(self._block) >= _LEAST_PAIRS:
            self._end_block()
        low = self._low if len(self._low) >= min(_IN_A_ROW - 1, self._blocks) else []
        if not low and len(self._sample) >= _LEAST_PAIRS:
            overall = correlation_of(self._sample)
            low = [(1, self._last, overall)] if overall is not None and overall < _LEAST else []
        if not low:
            return None
        first, last, correlation = low[0]
        return (
            f"warning: {name}: from lines {first} to {last} on, long sentences are not long on the"
            f" other side (correlation of lengths {correlation:.2f}, usually 0.9): has a side lost"
            " a line, or another order?"
        )


def warning_of(name: str, pairs: Iterable[tuple[str, str]]) -> str | None:
    """Return the warning of a whole text."""
    lengths = Lengths()
    for number, pair in enumerate(pairs, start=1):
        lengths.add(number, *map(str.strip, pair))
    return lengths.warning(name)


def correlation_of(pairs: list[tuple[float, float]]) -> float | None:
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
