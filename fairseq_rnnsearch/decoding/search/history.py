"""The history of a beam search, and the hypotheses that result from it.

Nothing is moved during the search: each step stores its words, scores, alignment weights, and for
each row the row of the previous step that it continues. When the search is over, hypotheses are
traced back from their ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.engine.interface import Rows


class Hypothesis(NamedTuple):
    """A translation, as numbers of words, with what the model computed on the way.

    Attributes:
        words: the end symbol last.
        score: the sum of ``log_p`` over a power of the length, to base e.
        log_p: of each word, given the source and the words before it.
        weights: ``(words, source positions)``, without padding, both end symbols included; None
            without attention.
    """

    words: list[int]
    score: float
    log_p: NDArray[np.floating]
    weights: NDArray[np.floating] | None


class _End(NamedTuple):
    """A hypothesis whose last word was found at ``step``, for ``row``."""

    step: int
    row: int
    sentence: int
    score: float


@dataclass
class History:
    """All steps of one batch, and the ends that were found.

    Attributes:
        lengths: of the sources.
        weights: of each step the alignment weights of the rows that look for words, or None.
        steps: of each step the rows that go on.
    """

    lengths: Sequence[int]
    weights: list[NDArray | None] = field(default_factory=list)
    steps: list[Rows] = field(default_factory=list)
    _ends: list[_End] = field(default_factory=list)

    def end_hypothesis(self, row: int, sentence: int, score: float) -> None:
        """Note that a row of the current step is complete with this score, the sum of all log p."""
        self._ends.append(_End(len(self.weights) - 1, row, sentence, score))

    def words_of(self, rows: Rows) -> list[list[int]]:
        """Return all words of the hypotheses that the last step has left."""
        return [self._follow(len(self.steps), row)[0] for row in range(len(rows.scores))]

    def hypotheses(self, eos: int, power: float) -> list[list[Hypothesis]]:
        """Return each sentence's hypotheses, best first.

        Call it once: it frees what the steps have stored.

        Args:
            power: a hypothesis's score is divided by its length to this power.
        """
        beams: list[list[Hypothesis]] = [[] for _ in self.lengths]
        if not self._ends:
            return beams
        beginnings, sums, rows = [], [], []  # sums and rows as long as the longest hypothesis
        for end in self._ends:
            words, own_sums, own_rows = self._follow(end.step, end.row)
            after = [0] * (len(self.weights) - end.step - 1)
            beginnings.append(words)
            sums.append([*own_sums, end.score, *after])
            rows.append([*own_rows, end.row, *after])
        log_p = np.array(sums)
        log_p[:, 1:] -= log_p[:, :-1].copy()
        weights = self._weights_along(rows)
        for i, (end, words) in enumerate(zip(self._ends, beginnings, strict=True)):
            length, own = end.step + 1, None
            if weights is not None:
                own = weights[i, :length, : self.lengths[end.sentence]]
            score = end.score / length**power
            beams[end.sentence].append(Hypothesis([*words, eos], score, log_p[i, :length], own))
        for beam in beams:  # as fairseq compares them, in float32
            beam.sort(key=lambda one: -np.float32(one.score))
        return beams

    def _weights_along(self, rows: Sequence[Sequence[int]]) -> NDArray | None:
        """Return weights along paths, ``(paths, steps, source)``, in float32; None without any.

        Args:
            rows: of each path its row in each step.
        """
        if self.weights[0] is None:
            return None
        along = np.empty((len(rows), len(rows[0]), self.weights[0].shape[1]), np.float32)
        for step, chosen in enumerate(zip(*rows, strict=True)):
            along[:, step] = self.weights[step][list(chosen)]
            self.weights[step] = None  # for long sentences these are gigabytes
        return along

    def _follow(self, step: int, row: int) -> tuple[list[int], list[float], list[int]]:
        """Return what led to a row of a step: words, sums of log p, and the rows before it."""
        words, sums, rows = [], [], []
        for before in reversed(self.steps[:step]):
            words.append(before.words[row])
            sums.append(before.scores[row])
            row = before.parents[row]
            rows.append(row)
        return words[::-1], sums[::-1], rows[::-1]
