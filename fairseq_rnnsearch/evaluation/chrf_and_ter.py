"""chrF and TER beside BLEU, as sacreBLEU computes them.

chrF is the F-score of letters in common (Popović, WMT 2015), 0 to 100, with more weight on recall.
TER counts the edits that turn a translation into its reference, in percent of the reference's words
(Snover et al., AMTA 2006): less is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class OtherScores:
    """A system's chrF and TER on a set of sentences, with the signatures of how they were made."""

    chrf: float
    ter: float
    signatures: tuple[str, ...]


def chrf_and_ter(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> OtherScores:
    """Score a text.

    Args:
        hypotheses: at least one sentence.
        references: one text or several, each with a sentence for each hypothesis.
    """
    from sacrebleu.metrics import CHRF, TER  # it takes a tenth of a second to import

    metrics = CHRF(), TER()
    chrf, ter = (metric.corpus_score(hypotheses, list(references)) for metric in metrics)
    signatures = (str(metric.get_signature()) for metric in metrics)
    named = (f"{score.name}|{own}" for score, own in zip((chrf, ter), signatures, strict=True))
    return OtherScores(chrf.score, ter.score, tuple(named))
