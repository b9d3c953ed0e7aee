"""The steps of several networks as those of one: the mean of their probabilities."""

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np

from fairseq_rnnsearch.engine.choice import choose
from fairseq_rnnsearch.engine.interface import Best, Limits, Steps
from fairseq_rnnsearch.engine.parameters import Parameters


class EnsembleSteps(Steps):
    """See `interface.Steps`.

    Args:
        steps: of each network; they have ``log_probabilities``.
        symbols: has the numbers of the target's symbols.
    """

    def __init__(self, steps: Sequence[Any], symbols: Parameters) -> None:
        self._steps, self._symbols = steps, symbols

    def best(
        self,
        words: Sequence[int] | None,
        parents: Sequence[int] | None,
        scores: Sequence[float],
        k: int,
        limits: Limits,
    ) -> Best:
        """See `interface.Steps`."""
        given = words, parents, len(scores), limits.temperature
        log_p, weights = zip(*(one.log_probabilities(*given) for one in self._steps), strict=True)
        known = [one for one in weights if one is not None]
        # as fairseq divides it, also by those that lack weights
        mean = sum(known[1:], known[0]) / len(self._steps) if known else None
        together = np.logaddexp.reduce(log_p) - log(len(log_p))
        return choose(together, mean, scores, k, limits, self._symbols)

    def keep(self, sentences: Sequence[int]) -> None:
        """See `interface.Steps`."""
        for one in self._steps:
            one.keep(sentences)
