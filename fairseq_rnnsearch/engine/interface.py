"""What a search asks of a network: one step after another for the hypotheses of some sentences."""

from collections.abc import Sequence
from typing import NamedTuple

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
        weights: alignment weights, ``(hypotheses, source)``, or None.
    """

    scores: list[list[float]]
    words: list[list[int]]
    hypotheses: list[list[int]]
    weights: NDArray | None


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
