"""BLEU and chrF with 95% intervals and p-values, by sacreBLEU's paired bootstrap test.

    BLEU = BP · exp(1/4 Σ_n log p_n),  p_n = matches_n / n-grams_n,
    BP = min(1, exp(1 - reference words / words))            (Papineni et al., ACL 2002)

chrF is the F-score of letters in common (Popović, WMT 2015), 0 to 100, with more weight on recall.
Scores, intervals, p-values and signatures are those of ``sacrebleu --paired-bs``, which draws the
same resamples of sentences for all systems (Koehn, EMNLP 2004); SACREBLEU_SEED is their seed. Only
two systems with equal translations have p = 1 here, where sacreBLEU takes ties for differences.

BLEU's ``tokens`` are split at blanks, as by multi-bleu.perl: the score differs from that program's
only where a corpus has no match at all of some order, which sacreBLEU smooths and multi-bleu.perl
scores 0. chrF has its own way with a text of either kind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairseq_rnnsearch.errors import UserError

METRICS = {"BLEU": 2, "chrF": 1}
"""The metrics in the report's order, and the decimals of their scores."""
TOKENISERS = {"tokens": "none", "detokenised": "13a"}
"""The name of sacreBLEU's tokeniser for BLEU of each kind of text."""


@dataclass(frozen=True)
class Bootstrap:
    """How intervals and differences are made."""

    resamples: int
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
    p_value: float | None = None
    """The share of resampled differences, once centred, that are larger."""


@dataclass(frozen=True)
class Comparison:
    """The scores of several systems on the same sentences."""

    scores: dict[str, Score]
    sentences: int
    signature: str
    """How the scores were made, in sacreBLEU's own words."""


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
        UserError: there are no sentences.
    """
    from sacrebleu.metrics import BLEU, CHRF  # they take a tenth of a second to import
    from sacrebleu.significance import PairedTest

    if not references[0]:
        raise UserError("no sentences to score; at least one is needed")
    has_baseline = bootstrap.baseline in translations
    first = bootstrap.baseline if has_baseline else next(iter(translations))
    systems = sorted(translations.items(), key=lambda system: system[0] != first)
    metric = BLEU(tokenize=TOKENISERS[kind], force=True) if name == "BLEU" else CHRF()
    test = PairedTest(systems, {name: metric}, references, "bs", bootstrap.resamples)
    signatures, found = test()
    [(full_name, signature)] = signatures.items()
    results = dict(zip(found["System"], found[full_name], strict=True))
    scores = {}
    for system, text in translations.items():
        result, paired = results[system], ()
        if has_baseline and system != first:
            p_value = 1.0 if text == translations[first] else result.p_value
            paired = result.score - results[first].score, p_value
        interval = result.mean - result.ci, result.mean + result.ci
        scores[system] = Score(result.score, interval, *paired)
    return Comparison(scores, len(references[0]), f"{full_name}|{signature}")
