"""Precision, recall and alignment error rate (Och and Ney, Computational Linguistics 29(1), 2003).

With the links A of the hypothesis, the sure links S and the possible links P of the gold
alignment, S being part of P:

    precision = |A ∩ P| / |A|
    recall    = |A ∩ S| / |S|
    AER       = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

The counts are summed over all sentences before the division.
"""

import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation.links import Link, SentenceLinks

_RESAMPLES_AT_ONCE = 1000  # bounds the memory: 8 bytes for each of these and each sentence


class Counts(NamedTuple):
    """How many links, of one sentence or of many; a ratio with nothing to divide by is NaN."""

    hypothesis: int
    """|A|"""
    sure: int
    """|S|"""
    possible: int
    """|P|, the sure links included"""
    hypothesis_sure: int
    """|A ∩ S|"""
    hypothesis_possible: int
    """|A ∩ P|"""

    @property
    def precision(self) -> float:
        return _ratio(self.hypothesis_possible, self.hypothesis)

    @property
    def recall(self) -> float:
        return _ratio(self.hypothesis_sure, self.sure)

    @property
    def aer(self) -> float:
        matches = self.hypothesis_sure + self.hypothesis_possible
        return 1 - _ratio(matches, self.hypothesis + self.sure)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def count_links(
    gold: Sequence[SentenceLinks], hypothesis: Sequence[AbstractSet[Link]]
) -> list[Counts]:
    """The counts of each sentence.

    Raises:
        ValueError: different numbers of sentences.
    """
    return [
        Counts(
            hypothesis=len(links),
            sure=len(sentence.sure),
            possible=len(sentence.possible),
            hypothesis_sure=len(links & sentence.sure),
            hypothesis_possible=len(links & sentence.possible),
        )
        for sentence, links in zip(gold, hypothesis, strict=True)
    ]


def total(counts: Iterable[Counts]) -> Counts:
    """The counts of all sentences together."""
    return Counts(*np.array([Counts(0, 0, 0, 0, 0), *counts]).sum(axis=0).tolist())


def bootstrap_interval(
    counts: Sequence[Counts], resamples: int, seed: int, level: float = 0.95
) -> tuple[float, float]:
    """Percentile interval of the AER: how much it depends on which sentences were annotated.

    Each resample draws as many sentences as there are, with replacement, and sums their counts.
    A resample that holds no link at all has no AER and is left out.

    Args:
        counts: of each sentence.
        resamples: how many; 1000 or more give a steady second digit.
        seed: of the NumPy generator; the same seed gives the same interval.
        level: the share of the resamples that lie inside.

    Raises:
        UserError: fewer than one resample, a negative seed, or counts without any link.
    """
    if resamples < 1:
        raise UserError(f"{resamples} bootstrap resamples: must be at least 1")
    if seed < 0:
        raise UserError(f"bootstrap seed {seed}: must be 0 or more")
    if math.isnan(total(counts).aer):
        raise UserError("no interval of the AER: neither hypothesis nor gold holds a link")
    table = np.array(
        [(c.hypothesis_sure + c.hypothesis_possible, c.hypothesis + c.sure) for c in counts]
    )
    sentences = len(table)
    generator = np.random.default_rng(seed)
    rates = []
    for start in range(0, resamples, _RESAMPLES_AT_ONCE):
        size = min(_RESAMPLES_AT_ONCE, resamples - start)
        # how often each sentence was drawn
        drawn = generator.multinomial(sentences, np.full(sentences, 1 / sentences), size=size)
        matches, links = (drawn @ table).T
        rates.append(1 - matches[links > 0] / links[links > 0])
    rates = np.concatenate(rates)
    if not rates.size:
        raise UserError(
            f"no interval of the AER: none of {resamples} resamples holds a link; ask for more"
        )
    low, high = np.quantile(rates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
