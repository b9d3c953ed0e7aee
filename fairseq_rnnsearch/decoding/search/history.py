"""The history of a beam search, and the hypotheses that result from it.

Nothing is moved during the search: each step stores its words, scores, alignment weights, and for
each row the row of the previous step that it continues. When the search is over, hypotheses are
traced back from their ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.engine.interface import Steps


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


class Rows(NamedTuple):
    """The hypotheses that continue to the next step, one per row."""

    parents: list[int]
    words: list[int]
    scores: list[float]


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
        weights: of each step the alignment weights of the rows that look for words, as
            `Steps.best` returned them.
        steps: of each step the rows that go on.
    """

    lengths: Sequence[int]
    weights: list[Any] = field(default_factory=list)
    steps: list[Rows] = field(default_factory=list)
    _ends: list[_End] = field(default_factory=list)

    def end_hypothesis(self, row: int, sentence: int, score: float) -> None:
        """Note that a row of the current step is complete with this score, the sum of all log p."""
        self._ends.append(_End(len(self.weights) - 1, row, sentence, score))

    def words_of(self, rows: Rows) -> list[list[int]]:
        """Return all words of the hypotheses that the last step has left."""
        last = len(self.steps)
        ends = [_End(last, row, 0, 0.0) for row in range(len(rows.scores))] if last else []
        return [self._follow(end)[0][:-1] for end in ends] or [[] for _ in rows.scores]

    def hypotheses(self, steps: Steps, eos: int, power: float) -> list[list[Hypothesis]]:
        """Return each sentence's hypotheses, best first.

        Call it once: it frees what the steps have stored.

        Args:
            power: a hypothesis's score is divided by its length to this power.
        """
        beams: list[list[Hypothesis]] = [[] for _ in self.lengths]
        if not self._ends:
            return beams
        paths = [self._follow(end) for end in self._ends]
        after = [[0] * (len(self.weights) - len(words)) for words, _, _ in paths]
        log_p = np.array([sums + rest for (_, sums, _), rest in zip(paths, after, strict=True)])
        log_p[:, 1:] -= log_p[:, :-1].copy()
        rows = [rows + rest for (_, _, rows), rest in zip(paths, after, strict=True)]
        weights = steps.weights_of(self.weights, rows)
        for i, (end, (words, _, _)) in enumerate(zip(self._ends, paths, strict=True)):
            words[-1], length = eos, len(words)
            own = None
            if weights is not None:
                own = weights[i, :length, : self.lengths[end.sentence]]
            score = end.score / length**power
            beams[end.sentence].append(Hypothesis(words, score, log_p[i, :length], own))
        for beam in beams:  # as fairseq compares them, in float32
            beam.sort(key=lambda one: -np.float32(one.score))
        return beams

    def _follow(self, end: _End) -> tuple[list[int], list[float], list[int]]:
        """Return words, sums of log p, and each word's row, the end's last; its word is 0."""
        words, sums, rows = [0], [end.score], [end.row]
        row = end.row
        for step in reversed(self.steps[: end.step]):
            words.append(step.words[row])
            sums.append(step.scores[row])
            row = step.parents[row]
            rows.append(row)
        return words[::-1], sums[::-1], rows[::-1]
