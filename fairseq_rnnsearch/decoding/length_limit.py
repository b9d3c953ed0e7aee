"""The maximum length of a translation, measured on the training pairs and kept with the model.

A search allows ``ratio * s + margin`` tokens before the end symbol for a source of s tokens, its
end symbol included. A model of characters needs far more of them than one of words, which is why
the limit comes from the training pairs and not from the command.
"""

import math
from typing import NamedTuple

import numpy as np

_LEAST_RATIO, _LEAST_MARGIN = 3.0, 10
_TIMES_THE_MEAN = 1.5
_PAIRS_WITHIN = 0.999


class LengthLimit(NamedTuple):
    """The limit of one model.

    Attributes:
        ratio: target tokens for each source token.
        margin: further target tokens.
    """

    ratio: float
    margin: int

    def of(self, source: int) -> int:
        """Return how many tokens a translation may have before its end symbol.

        Args:
            source: tokens of the sentence, its end symbol included.
        """
        return int(self.ratio * source + self.margin)


FAIRSEQ_LIMIT = LengthLimit(0.0, 200)  # for checkpoints that have none


def measured(source: np.ndarray, target: np.ndarray) -> LengthLimit:
    """Return a limit that 99.9% of the pairs keep, of 1.5 times their mean ratio or more.

    Args:
        source, target: lengths of the pairs in tokens, ``(pairs,)``, end symbols included.
    """
    ratio = max(_LEAST_RATIO, _TIMES_THE_MEAN * float(target.sum() / source.sum()))
    beyond = float(np.quantile(target - ratio * source, _PAIRS_WITHIN))
    return LengthLimit(round(ratio, 3), max(_LEAST_MARGIN, math.ceil(beyond)))


def largest(*limits: LengthLimit) -> LengthLimit:
    """Return the largest of the known limits, of models or of sets of training pairs."""
    known = [limit for limit in limits if limit != FAIRSEQ_LIMIT]
    return LengthLimit(*map(max, zip(*known, strict=True))) if known else FAIRSEQ_LIMIT
