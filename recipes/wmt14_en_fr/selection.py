"""Score sentence pairs' resemblance to a domain by bilingual cross-entropy difference.

Axelrod, He and Gao (2011), "Domain Adaptation via Pseudo In-Domain Data Selection", after Moore
and Lewis (2010). The score of a pair, which is lower the more it resembles the domain, is

    (H_in(source) - H_out(source)) + (H_in(target) - H_out(target))

where H is the cross-entropy per word, end symbol included, of a sentence by a language model
(ngram.py): one of the domain (in), or one of a random sample, as large, of all the text that there
is to select from (out). As in Moore and Lewis both models share the vocabulary of the words that
occur twice or more in the domain's text, so that they differ in nothing but what they were
estimated from.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ngram import NGramModel, Vocabulary

SIDES = ("source", "target")


@dataclass(frozen=True)
class Contrast:
    """The two models of one language: of the domain, and of everything."""

    inside: NGramModel
    outside: NGramModel

    @classmethod
    def estimate(cls, inside: str, outside: str, order: int, min_count: int) -> "Contrast":
        """Estimate both models from tokenised text, a sentence per line.

        Args:
            inside: text of the domain.
            outside: text of everything.
            order: how many words the longest n-gram has.
            min_count: how often the domain's text has a word of the vocabulary, at least.
        """
        vocabulary = Vocabulary.of(inside.split("\n"), min_count)
        return cls(
            NGramModel.estimate(vocabulary, inside, order),
            NGramModel.estimate(vocabulary, outside, order),
        )

    def differences(self, text: str) -> np.ndarray:
        """Return (lines,) H_in - H_out in nats per word, for lines each ended by a line feed."""
        tokens = self.inside.vocabulary.encode(text)
        return self.inside.cross_entropies(tokens) - self.outside.cross_entropies(tokens)


class Selector:
    """Scores sentence pairs.

    Args:
        source: the models of the source language.
        target: the models of the target language.
    """

    def __init__(self, source: Contrast, target: Contrast) -> None:
        self.source = source
        self.target = target

    def scores(self, source: str, target: str) -> np.ndarray:
        """Return (pairs,) float32 for lines of either language, each ended by a line feed."""
        return (self.source.differences(source) + self.target.differences(target)).astype("f4")

    def save(self, folder: Path) -> None:
        """Write the four models into a folder that is there."""
        for side in SIDES:
            getattr(self, side).inside.save(folder / f"in.{side}.npz")
            getattr(self, side).outside.save(folder / f"out.{side}.npz")

    @classmethod
    def load(cls, folder: Path) -> "Selector":
        """Read what `save` wrote.

        Raises:
            UserError: a file is missing or not a model.
        """
        load = NGramModel.load
        return cls(
            *(
                Contrast(load(folder / f"in.{side}.npz"), load(folder / f"out.{side}.npz"))
                for side in SIDES
            )
        )
