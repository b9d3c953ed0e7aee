"""BLEU, chrF and TER with paired bootstrap intervals, from the counts of single sentences.

    BLEU = BP · exp(1/4 Σ_n log p_n),  p_n = matches_n / n-grams_n,
    BP = min(1, exp(1 - reference words / words))            (Papineni et al., ACL 2002)

chrF is the F-score of letters in common (Popović, WMT 2015), 0 to 100, with more weight on recall.
TER counts the edits that turn a translation into its reference, in percent of the reference's words
(Snover et al., AMTA 2006): less is better.

sacreBLEU counts some numbers in a sentence, for BLEU its words, the words of the reference, the
matches of 1- to 4-grams, and its 1- to 4-grams. A corpus is the sum of its sentences, and so is
each of the thousand resamples (Koehn, EMNLP 2004). Scores, resamples, p-values and signatures are
those of ``sacrebleu`` and ``sacrebleu --paired-bs`` with the same seed, but for ties: two systems
with equal translations have p = 1 here, and 0.001 there. sacreBLEU gives half the width of a
system's interval; both ends are given here, and those of the differences too.

BLEU's ``tokens`` are split at blanks, as by multi-bleu.perl: the score differs from that program's
only where a corpus has no match at all of some order, which sacreBLEU smooths and multi-bleu.perl
scores 0. chrF and TER have their own ways with a text of either kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tqdm import tqdm

from fairseq_rnnsearch.errors import UserError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


class ReportedMetric(NamedTuple):
    """What the report needs to know of one of sacreBLEU's metrics."""

    kind: str
    """Its class in ``sacrebleu.metrics.METRICS``."""
    signature: str
    """Its name in sacreBLEU's signatures."""
    decimals: int
    """The number of decimals of its scores."""
    explanation: str = ""
    """A sentence for the report's readers."""
    options: Mapping[str, object] = {}
    """The arguments of its class; BLEU's also depend on the kind of text."""


METRICS = {
    "BLEU": ReportedMetric("BLEU", "BLEU", 2),
    "chrF": ReportedMetric("CHRF", "chrF2", 1, "chrF counts letters in common."),
    "TER": ReportedMetric(
        "TER",
        "TER",
        1,
        "TER counts the edits that are needed, in percent of the words: less is better.",
    ),
}
"""The metrics in the report's order. Those after BLEU share a table. To report another, add it."""
TOKENISERS = {"tokens": "none", "detokenised": "13a"}
"""The name of sacreBLEU's tokeniser for BLEU of each kind of text."""


@dataclass(frozen=True)
class Bootstrap:
    """How intervals and differences are made."""

    resamples: int
    seed: int
    baseline: str | None = None
    """The system to which the others are compared; where it is None there are no differences."""


@dataclass(frozen=True)
class Score:
    """A system's score on a set of sentences, and how it compares with the baseline's."""

    value: float
    interval: tuple[float, float]
    """95% of the resamples lie inside."""
    difference: float | None = None
    """The score above the baseline's; None for the baseline itself."""
    difference_interval: tuple[float, float] | None = None
    p_value: float | None = None
    """The share of resampled differences, once centred, that are as large or larger; as sacreBLEU
    computes it, where they must be larger. This is one tail, about half of a two-sided p, so that
    an interval may include 0 where p is below 0.05."""


@dataclass(frozen=True)
class Comparison:
    """The scores of several systems on the same sentences."""

    scores: dict[str, Score]
    sentences: int
    signature: str
    """How the scores were made, in sacreBLEU's own words."""


def new_metric(name: str, kind: str = "tokens") -> Metric:
    """Return sacreBLEU's metric.

    Args:
        name: one of `METRICS`.
        kind: the kind of text, from `TOKENISERS`.
    """
    from sacrebleu import metrics  # it takes a tenth of a second to import

    if name == "BLEU":
        return metrics.BLEU(tokenize=TOKENISERS[kind], force=True)
    reported = METRICS[name]
    return metrics.METRICS[reported.kind](**reported.options)


def sentence_counts(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> np.ndarray:
    """Count what the metric needs to know of each sentence, ``(sentences, columns)``.

    Args:
        metric: sacreBLEU's; it sees the number of references, for its signature.
        hypotheses: the translations.
        references: one text or several, each with a sentence for each hypothesis.
    """
    return np.array(metric._extract_corpus_statistics(hypotheses, references))


def corpus_score(metric: Metric, counts: np.ndarray) -> float:
    """Return the score of summed counts ``(columns,)``."""
    return metric._compute_score_from_stats(counts.tolist()).score


def resampled_sums(tables: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Sum the counts of resampled sentences, the same ones for all systems.

    Args:
        tables: ``(systems, sentences, columns)``.
        resamples, seed: the same numbers draw the same sentences as ``sacrebleu --paired-bs``
            with that many resamples and ``SACREBLEU_SEED``.

    Returns:
        ``(systems, resamples, columns)``.

    Raises:
        UserError: there are no sentences.
    """
    generator = np.random.default_rng(seed)
    sentences = tables.shape[1]
    if not sentences:
        raise UserError("no sentences to score; at least one is needed")
    # One resample at a time bounds the memory, and draws the same as all of them at once.
    sums = [
        tables[:, generator.choice(sentences, size=sentences)].sum(axis=1) for _ in range(resamples)
    ]
    return np.stack(sums, axis=1)


def compare(
    translations: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    bootstrap: Bootstrap,
    name: str = "BLEU",
    kind: str = "tokens",
) -> Comparison:
    """Score systems on the same sentences, with 95% intervals and paired differences.

    Args:
        translations: of each system.
        references: one text or several, each with a sentence for each translation.
        bootstrap: where its baseline is not among the systems, there are no differences.
        name: one of `METRICS`.
        kind: the kind of text, from `TOKENISERS`.

    Raises:
        UserError: as `resampled_sums`.
    """
    metric = new_metric(name, kind)
    # TER takes minutes for a few thousand sentences
    shown = tqdm(translations.values(), f"{name} of {kind}", unit="system", delay=2, leave=False)
    tables = np.stack([sentence_counts(metric, own, references) for own in shown])
    sums = resampled_sums(tables, bootstrap.resamples, bootstrap.seed)
    whole, resampled = {}, {}
    for system, table, resamples in zip(translations, tables, sums, strict=True):
        whole[system] = corpus_score(metric, table.sum(axis=0))
        resampled[system] = np.array([corpus_score(metric, resample) for resample in resamples])
    baseline = bootstrap.baseline
    scores = {}
    for system, values in resampled.items():
        paired = ()
        if baseline in whole and system != baseline:
            difference = whole[system] - whole[baseline]
            differences = values - resampled[baseline]
            interval = percentile_interval(differences)
            paired = difference, interval, _p_value(differences, difference)
        scores[system] = Score(whole[system], percentile_interval(values), *paired)
    signature = metric.get_signature()
    signature.update("bs", bootstrap.resamples)
    signature.update("seed", bootstrap.seed)
    return Comparison(scores, tables.shape[1], f"{METRICS[name].signature}|{signature}")


def percentile_interval(values: np.ndarray) -> tuple[float, float]:
    """Return the interval that contains 95% of the values."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _p_value(differences: np.ndarray, difference: float) -> float:
    """Return how often chance alone makes as large a difference.

    sacreBLEU counts only larger ones, which would make identical systems the most different of all.
    """
    sizes = np.abs(differences)
    as_large = np.count_nonzero(sizes - sizes.mean() >= abs(difference))
    return float((as_large + 1) / (len(sizes) + 1))
