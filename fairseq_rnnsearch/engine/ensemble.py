"""The steps of several networks as those of one: the mean of their probabilities."""

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.engine.choice import DenseSteps
from fairseq_rnnsearch.engine.parameters import Parameters


class EnsembleSteps(DenseSteps):
    """See `interface.Steps`.

    Args:
        steps: of each network; they have ``log_probabilities``.
        symbols: see `DenseSteps`.
    """

    def __init__(self, steps: Sequence[Any], symbols: Parameters) -> None:
        super().__init__(symbols)
        self._steps = steps

    def log_probabilities(self, *given: Any) -> tuple[NDArray, NDArray | None]:
        """See `DenseSteps`."""
        log_p, weights = zip(*(one.log_probabilities(*given) for one in self._steps), strict=True)
        known = [one for one in weights if one is not None]
        # as fairseq divides it, also by those that lack weights
        mean = sum(known[1:], known[0]) / len(self._steps) if known else None
        return np.logaddexp.reduce(log_p) - log(len(log_p)), mean

    def keep(self, sentences: Sequence[int]) -> None:
        """See `interface.Steps`."""
        for one in self._steps:
            one.keep(sentences)
