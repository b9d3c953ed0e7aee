"""Shared by the two bootstraps: checked settings and percentile intervals.

The bootstrap of BLEU (`recipes/reporting/scores.py`) draws as sacreBLEU does, and the one of the
alignment error rate (`alignment_error_rate`) draws how often each sentence comes; each keeps the
numbers of its seed.
"""

import numpy as np
from numpy.typing import ArrayLike

from fairseq_rnnsearch.errors import UsageError


def resampling_generator(resamples: int, seed: int) -> np.random.Generator:
    """Return the generator that draws the resamples.

    Raises:
        UsageError: there is less than one resample, or the seed is negative.
    """
    if resamples < 1:
        raise UsageError(f"{resamples} bootstrap resamples: must be at least 1")
    if seed < 0:
        raise UsageError(f"bootstrap seed {seed}: must be 0 or more")
    return np.random.default_rng(seed)


def percentile_interval(values: ArrayLike) -> tuple[float, float]:
    """Return the interval that contains 95% of the values."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
