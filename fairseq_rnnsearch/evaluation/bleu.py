"""BLEU with paired bootstrap intervals, from the counts of single sentences.

    BLEU = BP · exp(1/4 Σ_n log p_n),  p_n = matches_n / n-grams_n,
    BP = min(1, exp(1 - reference words / words))            (Papineni et al., ACL 2002)

sacreBLEU counts ten numbers in a sentence: its words, the words of the reference, the matches of
1- to 4-grams, and its 1- to 4-grams. A corpus is the sum of its sentences, and so is each of the
thousand resamples (Koehn, EMNLP 2004). Scores, resamples, p-values and signatures are those of
``sacrebleu`` and ``sacrebleu --paired-bs`` with the same seed, but for ties: two systems with equal
translations have p = 1 here, and 0.001 there. sacreBLEU gives half the width of a system's
interval; both ends are given here, and those of the differences too.

``tokens`` splits at blanks, as multi-bleu.perl: the score differs from that program's only where a
corpus has no match at all of some order, which sacreBLEU smooths and multi-bleu.perl scores 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation.resampling import percentile_interval, resampling_generator

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU

TOKENISERS = {"tokens": "none", "detokenised": "13a"}
"""The name of sacreBLEU's tokeniser for each kind of text."""


@dataclass(frozen=True)
class Bootstrap:
    """How intervals and differences are made."""

    resamples: int
    seed: int
    baseline: str | None = None
    """The system to which the others are compared; where it is None there are no differences."""


@dataclass(frozen=True)
class Score:
    """A system's BLEU on a set of sentences, and how it compares with the baseline."""

    bleu: float
    interval: tuple[float, float]
    """95% of the resamples lie inside."""
    difference: float | None = None
    """BLEU above the baseline's; None for the baseline itself."""
    difference_interval: tuple[float, float] | None = None
    p_value: float | None = None
    """The share of resampled differences, once centred, that are as large or larger; two-sided, as
    sacreBLEU computes it, where they must be larger."""


@dataclass(frozen=True)
class Comparison:
    """The scores of several systems on the same sentences."""

    scores: dict[str, Score]
    sentences: int
    signature: str


def _metric(kind: str, **options: bool) -> BLEU:
    from sacrebleu.metrics import BLEU  # it takes a tenth of a second to import

    return BLEU(tokenize=TOKENISERS[kind], force=True, **options)


def sentence_counts(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], kind: str = "tokens"
) -> np.ndarray:
    """Count what BLEU needs to know of each sentence.

    Args:
        hypotheses: the translations.
        references: one text or several, each with a sentence for each hypothesis. Of several, the
            matches are those with any, and the words those of the one whose length is closest.
        kind: the kind of text, from `TOKENISERS`.

    Returns:
        ``(sentences, 10)``: words, reference words, matches of four orders, n-grams of four.
    """
    metric = _metric(kind, effective_order=True)
    rows = []
    for hypothesis, *theirs in zip(hypotheses, *references, strict=True):
        score = metric.sentence_score(hypothesis, theirs)
        rows.append((score.sys_len, score.ref_len, *score.counts, *score.totals))
    return np.array(rows, dtype=np.int64).reshape(-1, 10)


def bleu(counts: np.ndarray) -> float:
    """Return BLEU, 0 to 100, of summed counts ``(10,)``, with sacreBLEU's "exp" smoothing."""
    from sacrebleu.metrics import BLEU

    words, reference_words, *matches_and_ngrams = counts.tolist()
    matches, ngrams = matches_and_ngrams[:4], matches_and_ngrams[4:]
    return BLEU.compute_bleu(matches, ngrams, words, reference_words, smooth_method="exp").score


def resampled_sums(tables: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Sum the counts of resampled sentences, which are drawn alike for all systems.

    Args:
        tables: ``(systems, sentences, columns)``.
        resamples, seed: the same numbers draw the same sentences as ``sacrebleu --paired-bs``
            with that many resamples and ``SACREBLEU_SEED``.

    Returns:
        ``(systems, resamples, columns)``.

    Raises:
        UserError: there are no sentences; and as `resampling_generator`.
    """
    generator = resampling_generator(resamples, seed)
    sentences = tables.shape[1]
    if not sentences:
        raise UserError("no sentences to score; at least one is needed")
    # One resample at a time bounds the memory, and draws the same as all of them at once.
    sums = [
        tables[:, generator.choice(sentences, size=sentences)].sum(axis=1) for _ in range(resamples)
    ]
    return np.stack(sums, axis=1)


def compare(
    counts: Mapping[str, np.ndarray], kind: str, bootstrap: Bootstrap, references: int = 1
) -> Comparison:
    """Score systems on the same sentences, with 95% intervals and paired differences.

    Args:
        counts: of each system, from `sentence_counts`.
        kind, references: the kind of text and the number of references; they only go to the
            signature.
        bootstrap: where its baseline is not among the systems, there are no differences.
    """
    sums = resampled_sums(np.stack(list(counts.values())), bootstrap.resamples, bootstrap.seed)
    resampled = {
        name: np.array([bleu(resample) for resample in own])
        for name, own in zip(counts, sums, strict=True)
    }
    whole = {name: bleu(table.sum(axis=0)) for name, table in counts.items()}
    baseline = bootstrap.baseline
    scores = {}
    for name, values in resampled.items():
        paired = {}
        if baseline in counts and name != baseline:
            difference = whole[name] - whole[baseline]
            differences = values - resampled[baseline]
            paired = {
                "difference": difference,
                "difference_interval": percentile_interval(differences),
                "p_value": _p_value(differences, difference),
            }
        scores[name] = Score(whole[name], percentile_interval(values), **paired)
    sentences = len(next(iter(counts.values())))
    return Comparison(scores, sentences, signature(kind, bootstrap, references))


def signature(kind: str, bootstrap: Bootstrap | None = None, references: int = 1) -> str:
    """Return sacreBLEU's own signature, with its names for the bootstrap."""
    metric = _metric(kind)
    metric.corpus_score(
        ["a"], [["a"]] * references
    )  # it knows the number of references only afterwards
    own = metric.get_signature()
    if bootstrap is not None:
        own.update("bs", bootstrap.resamples)
        own.update("seed", bootstrap.seed)
    return str(own)


def _p_value(differences: np.ndarray, difference: float) -> float:
    """Return how often chance alone makes as large a difference.

    sacreBLEU counts only larger ones, so that systems without any difference would be the least
    alike of all.
    """
    sizes = np.abs(differences)
    as_large = np.count_nonzero(sizes - sizes.mean() >= abs(difference))
    return float((as_large + 1) / (len(sizes) + 1))
