"""The best words of a step, from log p of all; for NumPy and ensembles (C chooses by itself).

Each run of ``RUN`` words is represented by its maximum. A sentence's k best words lie in the k runs
with the best maxima, so only these are searched word by word.
"""

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.engine.interface import Best, Limits, Rows, Steps
from fairseq_rnnsearch.engine.parameters import Parameters

RUN = 64


class DenseSteps(Steps):
    """Steps by networks that give log p of all words by ``log_probabilities``.

    Args:
        symbols: has the numbers of the target's symbols.
    """

    def __init__(self, symbols: Parameters) -> None:
        self._symbols = symbols

    def best(self, rows: Rows, k: int, limits: Limits) -> Best:
        """See `interface.Steps`."""
        found = self.log_probabilities(rows, limits.temperature)
        return choose(*found, rows.scores, k, limits, self._symbols)

    def log_probabilities(self, rows: Rows, temperature: float) -> tuple[NDArray, NDArray | None]:
        """Take a step; return log p of all words, ``(rows, words)``, and weights as `Best` has."""
        raise NotImplementedError


class EnsembleSteps(DenseSteps):
    """The steps of several networks as those of one: the mean of their probabilities.

    Args:
        steps: of each network; they have ``log_probabilities``.
        symbols: see `DenseSteps`.
    """

    def __init__(self, steps: Sequence[Any], symbols: Parameters) -> None:
        super().__init__(symbols)
        self._steps = steps

    def log_probabilities(self, rows: Rows, temperature: float) -> tuple[NDArray, NDArray | None]:
        """See `DenseSteps`."""
        found = (one.log_probabilities(rows, temperature) for one in self._steps)
        log_p, weights = zip(*found, strict=True)
        known = [one for one in weights if one is not None]
        # as fairseq divides it, also by those that lack weights
        mean = sum(known[1:], known[0]) / len(self._steps) if known else None
        return np.logaddexp.reduce(log_p) - log(len(log_p)), mean

    def keep(self, sentences: Sequence[int]) -> None:
        """See `interface.Steps`."""
        for one in self._steps:
            one.keep(sentences)


def choose(
    log_p: NDArray,
    weights: NDArray | None,
    scores: Sequence[float],
    k: int,
    limits: Limits,
    symbols: Parameters,
) -> Best:
    """Return the k best continuations of each sentence; see `Steps.best`.

    Args:
        log_p: of each next word, ``(rows, words)``; it is changed. NaN counts as minus infinity.
        weights: of the step.
        symbols: has the numbers of the target's symbols.
    """
    sentences, (rows, words) = len(limits.only), log_p.shape
    log_p += np.array(scores, log_p.dtype)[:, None]
    _limit(log_p, rows // sentences, limits, symbols)
    np.nan_to_num(log_p, copy=False, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    starts = np.arange(0, words, RUN)
    largest = np.maximum.reduceat(log_p, starts, axis=1).reshape(sentences, -1)
    most = min(k, largest.shape[1])
    run = np.argpartition(-largest, most - 1, axis=1)[:, :most]
    word = (run % len(starts) * RUN)[..., None] + np.arange(RUN)
    row = run // len(starts) + np.arange(0, rows, rows // sentences)[:, None]
    found = log_p[row[..., None], np.minimum(word, words - 1)]
    found = np.where(word < words, found, -np.inf).reshape(sentences, -1)
    best = np.argsort(-found, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(np.minimum(word, words - 1).reshape(sentences, -1), best, 1)
    hypotheses = np.take_along_axis(run // len(starts), best // RUN, 1)
    values = np.take_along_axis(found, best, 1)
    return Best(values.tolist(), chosen.tolist(), hypotheses.tolist(), weights)


def _limit(log_p: NDArray, width: int, limits: Limits, symbols: Parameters) -> None:
    """Forbid in place what is forbidden; the one word allowed is allowed in spite of the rest."""
    log_p[:, symbols.unk] -= limits.unk_penalty
    only = np.repeat(limits.only, width)
    rows = np.flatnonzero(only >= 0)
    allowed = log_p[rows, only[rows]]
    log_p[rows] = -np.inf
    log_p[:, symbols.pad] = -np.inf
    log_p[np.repeat(limits.no_end, width), symbols.eos] = -np.inf
    for row, words in enumerate(limits.forbidden or ()):
        log_p[row, list(words)] = -np.inf
    log_p[rows, only[rows]] = allowed
