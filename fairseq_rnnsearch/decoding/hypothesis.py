"""What a search or a scorer says of a sentence, without torch."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
