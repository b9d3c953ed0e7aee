"""BLEU with paired bootstrap intervals, from the counts of single sentences.

    BLEU = BP · exp(1/4 Σ_n log p_n),  p_n = matches_n / n-grams_n,
    BP = min(1, exp(1 - reference words / words))            (Papineni et al., ACL 2002)

A sentence is ten numbers, which sacreBLEU counts: words, words of the reference, matches of 1- to
4-grams, 1- to 4-grams. A corpus is their sum and a resample a weighted sum, so that a thousand
resamples (Koehn, EMNLP 2004) are one matrix product. Scores, resamples, p-values and signatures are
those of ``sacrebleu`` and ``sacrebleu --paired-bs`` with the same seed.

``tokens`` splits at blanks, as multi-bleu.perl: the score differs from that program's only where a
corpus has no match at all of some order, which sacreBLEU smooths and multi-bleu.perl scores 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairseq_rnnsearch.errors import UserError

TOKENISERS = {"tokens": "none", "detokenised": "13a"}
"""Kinds of text to sacreBLEU's tokenisers."""

_RESAMPLES_AT_ONCE = 250  # bounds the memory: 8 bytes for each of these and each sentence


@dataclass(frozen=True)
class Score:
    """A system's BLEU on a set of sentences, and how it compares with the baseline."""

    bleu: float
    interval: tuple[float, float]
    """95% of the resamples lie inside."""
    difference: float | None = None
    """To the baseline; None for the baseline itself."""
    difference_interval: tuple[float, float] | None = None
    p_value: float | None = None
    """Two-sided, as sacreBLEU computes it: resampled differences, centred, that are larger."""


@dataclass(frozen=True)
class Comparison:
    """The scores of several systems on the same sentences."""

    scores: dict[str, Score]
    sentences: int
    signature: str


def sentence_counts(
    hypotheses: Sequence[str], references: Sequence[str], kind: str = "tokens"
) -> np.ndarray:
    """What BLEU needs to know of each sentence.

    Args:
        hypotheses, references: as many of the one as of the other.
        kind: of text, from `TOKENISERS`.

    Returns:
        ``(sentences, 10)``: words, reference words, matches of four orders, n-grams of four.
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize=TOKENISERS[kind], force=True, effective_order=True)
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = metric.sentence_score(hypothesis, [reference])
        rows.append((score.sys_len, score.ref_len, *score.counts, *score.totals))
    return np.array(rows, dtype=np.int64).reshape(-1, 10)


def bleu(counts: np.ndarray) -> np.ndarray:
    """BLEU, 0 to 100, of summed counts ``(..., 10)``, with sacreBLEU's "exp" smoothing:
    the k-th order without a match counts as 1/2^k matches."""
    words, reference_words = counts[..., 0].astype(float), counts[..., 1]
    matches, ngrams = counts[..., 2:6], counts[..., 6:10]
    smoothed = np.where(matches > 0, matches, 0.5 ** np.cumsum(matches == 0, axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(smoothed / ngrams).mean(axis=-1)
        brevity = np.minimum(0, 1 - reference_words / words)
        scores = 100 * np.exp(logs + brevity)
    # without any match, or with sentences too short for 4-grams, sacreBLEU says 0
    return np.where((matches[..., 0] > 0) & (ngrams[..., 3] > 0), scores, 0.0)


def resampled_sums(tables: Sequence[np.ndarray], resamples: int, seed: int) -> list[np.ndarray]:
    """Sums over resampled sentences, drawn alike for all tables.

    Args:
        tables: ``(sentences, columns)`` each.
        resamples, seed: the same numbers draw the same sentences as ``sacrebleu --paired-bs``
            with that many resamples and ``SACREBLEU_SEED``.

    Returns:
        ``(resamples, columns)`` for each table.

    Raises:
        UserError: fewer than one resample, a negative seed, or no sentences.
    """
    if resamples < 1:
        raise UserError(f"{resamples} bootstrap resamples: must be at least 1")
    if seed < 0:
        raise UserError(f"bootstrap seed {seed}: must be 0 or more")
    sentences = len(tables[0])
    if not sentences:
        raise UserError("no sentences to score; at least one is needed")
    generator = np.random.default_rng(seed)
    sums = []
    for start in range(0, resamples, _RESAMPLES_AT_ONCE):
        size = min(_RESAMPLES_AT_ONCE, resamples - start)
        drawn = generator.choice(sentences, size=(size, sentences), replace=True)
        drawn += np.arange(size)[:, None] * sentences
        times = np.bincount(drawn.ravel(), minlength=size * sentences).reshape(size, sentences)
        # in floating point, where the product is fast; the sums are whole and far below 2^53
        sums.append([times.astype(float) @ table.astype(float) for table in tables])
    return [np.concatenate(parts) for parts in zip(*sums, strict=True)]


def compare(
    counts: dict[str, np.ndarray], kind: str, baseline: str, resamples: int, seed: int
) -> Comparison:
    """Scores of systems on the same sentences, with 95% intervals and paired differences.

    Args:
        counts: of each system, from `sentence_counts`.
        kind: of text; it only goes to the signature.
        baseline: the system to which the others are compared; where it is not among them, there
            are no differences.
        resamples, seed: as for `resampled_sums`.
    """
    sums = resampled_sums(list(counts.values()), resamples, seed)
    resampled = dict(zip(counts, map(bleu, sums), strict=True))
    whole = {name: float(bleu(table.sum(axis=0))) for name, table in counts.items()}
    scores = {}
    for name, values in resampled.items():
        paired = {}
        if baseline in counts and name != baseline:
            difference = whole[name] - whole[baseline]
            differences = values - resampled[baseline]
            paired = {
                "difference": difference,
                "difference_interval": _interval(differences),
                "p_value": _p_value(differences, difference),
            }
        scores[name] = Score(whole[name], _interval(values), **paired)
    return Comparison(scores, len(next(iter(counts.values()))), signature(kind, resamples, seed))


def signature(kind: str, resamples: int | None = None, seed: int | None = None) -> str:
    """sacreBLEU's own, with its names for the bootstrap."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize=TOKENISERS[kind], force=True)
    metric.corpus_score(["a"], [["a"]])  # it knows the number of references only afterwards
    own = metric.get_signature()
    if resamples is not None:
        own.update("bs", resamples)
        own.update("seed", seed)
    return str(own)


def _interval(values: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _p_value(differences: np.ndarray, difference: float) -> float:
    sizes = np.abs(differences)
    larger = np.count_nonzero(sizes - sizes.mean() > abs(difference))
    return float((larger + 1) / (len(sizes) + 1))
