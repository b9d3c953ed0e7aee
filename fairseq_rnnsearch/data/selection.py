"""Which sentence pairs resemble a domain: bilingual cross-entropy difference.

Axelrod, He and Gao (2011), "Domain Adaptation via Pseudo In-Domain Data Selection", after Moore
and Lewis (2010). A pair's score, lower for what resembles the domain more, is

    (H_in(source) - H_out(source)) + (H_in(target) - H_out(target))

where H is the cross-entropy per word, end symbol included, of a sentence by a language model: of
the domain (in), or of a random sample as large of all the text there is to select from (out). As
in Moore and Lewis both models share the vocabulary of the words that occur twice or more in the
domain's text, so that they differ in nothing but what they were estimated from.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.data.ngram import NGramModel, Vocabulary
from fairseq_rnnsearch.errors import UserError

SIDES = ("source", "target")


@dataclass(frozen=True)
class Contrast:
    """The two models of one language."""

    inside: NGramModel
    outside: NGramModel

    @classmethod
    def estimate(cls, inside: str, outside: str, order: int, min_count: int) -> "Contrast":
        """From tokenised text of the domain and of everything, a sentence per line."""
        vocabulary = Vocabulary.of(inside.split("\n"), min_count)
        return cls(
            NGramModel.estimate(vocabulary, inside, order),
            NGramModel.estimate(vocabulary, outside, order),
        )

    def differences(self, text: str) -> np.ndarray:
        """(lines,) H_in - H_out in nats per word, for lines each ended by a line feed."""
        tokens = self.inside.vocabulary.encode(text)
        return self.inside.cross_entropies(tokens) - self.outside.cross_entropies(tokens)


class Selector:
    """Scores sentence pairs.

    Args:
        source: models of the source language.
        target: models of the target language.
    """

    def __init__(self, source: Contrast, target: Contrast) -> None:
        self.source = source
        self.target = target

    def scores(self, source: str, target: str) -> np.ndarray:
        """(pairs,) float32, for as many lines of either language, each ended by a line feed."""
        return (self.source.differences(source) + self.target.differences(target)).astype("f4")

    def save(self, folder: Path) -> None:
        """Four files in a folder that is there."""
        for side in SIDES:
            getattr(self, side).inside.save(folder / f"in.{side}.npz")
            getattr(self, side).outside.save(folder / f"out.{side}.npz")

    @classmethod
    def load(cls, folder: Path) -> "Selector":
        """What `save` wrote.

        Raises:
            UserError: when a file is missing or not a model.
        """
        load = NGramModel.load
        return cls(
            *(
                Contrast(load(folder / f"in.{side}.npz"), load(folder / f"out.{side}.npz"))
                for side in SIDES
            )
        )


def cut(scores: np.ndarray, words: np.ndarray, budget: int) -> np.ndarray:
    """The best pairs, in order of their scores, as long as their words fit the budget.

    Of equal scores the earlier pair comes first.

    Args:
        scores: (pairs,), lower is better.
        words: (pairs,), counted against the budget.
        budget: words to keep; 0 keeps all.

    Returns:
        (pairs,) bool.

    Raises:
        UserError: when not even the best pair fits.
    """
    if budget == 0:
        return np.ones(len(scores), bool)
    order = np.argsort(scores, kind="stable")
    fits = np.cumsum(words[order], dtype=np.int64) <= budget
    if not fits.any():
        raise UserError(f"no pair fits {budget} words; valid is 0 (keep all) or more")
    kept = np.zeros(len(scores), bool)
    kept[order[fits]] = True
    return kept


def area_under_curve(better: np.ndarray, worse: np.ndarray) -> float:
    """The probability that a score of the first kind is lower than one of the second; ties half.

    The area under the ROC curve, from rank sums (Mann and Whitney).
    """
    both = np.concatenate([better, worse])
    _, places, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    below = ranks[len(better) :].sum() - len(worse) * (len(worse) + 1) / 2
    return float(below / (len(better) * len(worse)))
