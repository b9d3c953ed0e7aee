"""What a search asks of a network: one step after another for the hypotheses of some sentences."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Rows(NamedTuple):
    """The hypotheses of a step, one per row; before the first step they have no words.

    Attributes:
        parents: the row of the step before that each continues.
        words: the last word of each.
        scores: of each, the sum of log p so far.
    """

    parents: Sequence[int]
    words: Sequence[int]
    scores: Sequence[float]


class Limits(NamedTuple):
    """What a step allows; see `Steps.best`.

    Attributes:
        only: of each sentence the one word allowed, or -1.
        no_end: of each sentence, whether the end symbol is forbidden.
        forbidden: of each hypothesis the words that are forbidden, or None.
        unk_penalty: what the unknown word's log p is lowered by.
        temperature: what logits are divided by.
    """

    only: Sequence[int]
    no_end: Sequence[bool]
    forbidden: Sequence[Sequence[int]] | None = None
    unk_penalty: float = 0.0
    temperature: float = 1.0


class Best(NamedTuple):
    """The best continuations of each sentence, best first, as many of each.

    Attributes:
        scores: the hypotheses' plus log p.
        words: the padding for what is not allowed, whose score is minus infinity.
        hypotheses: numbers of the sentence's hypotheses that they continue.
        weights: alignment weights, ``(hypotheses, source)``, for `Steps.weights_of`; or None.
    """

    scores: list[list[float]]
    words: list[list[int]]
    hypotheses: list[list[int]]
    weights: Any


class Steps:
    """The steps for a batch; each sentence has as many hypotheses, whose rows are adjacent."""

    def best(self, rows: Rows, k: int, limits: Limits) -> Best:
        """Take a step, and choose the k best words of each sentence.

        Args:
            k: fewer than there are words of all hypotheses.
        """
        raise NotImplementedError

    def keep(self, sentences: Sequence[int]) -> None:
        """Keep these sentences; `best` then gets only their hypotheses."""
        raise NotImplementedError

    def weights_of(
        self, weights: list[NDArray | None], rows: Sequence[Sequence[int]]
    ) -> NDArray | None:
        """Return weights along paths, ``(paths, steps, source)``, in float32; None without any.

        Args:
            weights: of the steps, as `best` returned them; entries are freed.
            rows: of each path its row in each step.
        """
        if weights[0] is None:
            return None
        along = np.empty((len(rows), len(weights), weights[0].shape[1]), np.float32)
        for step, chosen in enumerate(zip(*rows, strict=True)):
            along[:, step] = weights[step][list(chosen)]
            weights[step] = None  # for long sentences these are gigabytes
        return along
