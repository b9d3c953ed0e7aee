"""The hypotheses of a search in words."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.commands.doubt import Limits, doubt_of
from fairseq_rnnsearch.commands.translation import Translation
from fairseq_rnnsearch.decoding.search.history import Hypothesis
from fairseq_rnnsearch.text.coverage import (
    UNKNOWN,
    Vocabulary,
    marked,
    replace_unknown,
    unknown_words,
)
from fairseq_rnnsearch.text.plain_text import PlainText


class InWords(NamedTuple):
    """Puts the hypotheses of one call into words.

    It lives as long as one of them, and holds no model.
    """

    dictionary: Any
    texts: tuple[PlainText, PlainText]
    vocabularies: tuple[Vocabulary, Vocabulary]
    limits: Limits
    merges: bool
    replaces_unknown: bool
    kind: str

    def translated(
        self,
        source: str,
        source_tokens: list[str],
        beam: Sequence[Hypothesis],
        effects: NDArray[np.floating] | None = None,
        is_cut: bool = False,
    ) -> Translation:
        """Return the best hypothesis of a search, with the others."""
        best, *others = beam
        eos = self.dictionary.eos()
        tokens = [self.dictionary[word] for word in best.words if word != eos]
        if self.replaces_unknown and UNKNOWN in tokens:
            tokens = _without_unknown(tokens, source_tokens, best.weights, self.vocabularies[0])
        text, sizes = self.texts[1].text(tokens), (len(source_tokens), len(tokens))
        is_known = not unknown_words(source_tokens, self.vocabularies[0])
        bits = float(np.mean(best.log_p)) / math.log(2)
        doubt = doubt_of(source, text, sizes, is_known, bits, self.limits)
        sides = source, text, source_tokens, tokens
        return self.translation(*sides, best, effects, others, is_cut, doubt)

    def translation(
        self,
        source: str,
        text: str,
        source_tokens: list[str],
        tokens: list[str],
        hypothesis: Hypothesis,
        effects: NDArray[np.floating] | None,
        others: Sequence[Hypothesis] = (),
        is_cut: bool = False,
        doubt: str | None = None,
    ) -> Translation:
        """Return a hypothesis with both its sides."""

        def make_details() -> dict[str, Any]:
            each = tuple(self.translated(source, source_tokens, [one]) for one in others)
            sides = (source, text), (source_tokens, tokens)
            return self._details(*sides, hypothesis, effects) | {"others": each}

        score = hypothesis.score / math.log(2)
        known = {"source": source, "text": text, "score": score, "is_cut": is_cut, "doubt": doubt}
        return Translation.begun(known, make_details)

    def _details(
        self,
        lines: tuple[str, str],
        sides: tuple[list[str], list[str]],
        hypothesis: Hypothesis,
        effects: NDArray[np.floating] | None,
    ) -> dict[str, Any]:
        """Return what a translation has beside its texts, its score and the others."""
        from fairseq_rnnsearch.figures.alignment import END, Alignment, merged_words

        _, score, log_p, weights = hypothesis
        words = [(*side, END) for side in sides]
        known = tuple(text.line(*of) for text, *of in zip(self.texts, lines, sides, strict=True))
        alignment = Alignment(
            *((*side, END) for side in map(marked, sides, self.vocabularies)),
            np.zeros([len(side) for side in words[::-1]]) if weights is None else weights,
            score=score / math.log(2),
            probabilities=np.exp(log_p, dtype=float).tolist(),
            attribution=effects,
            lines=None if None in known else known,
            kind=self.kind,
        )
        if self.merges:
            has_pieces = [side.has_pieces for side in self.vocabularies]
            words = [merged_words(*side)[0] for side in zip(words, has_pieces, strict=True)]
            alignment = alignment.merge_pieces(has_pieces)
        return {
            "source_tokens": words[0],
            "tokens": words[1],
            "alignment": None if weights is None else alignment,
            "probabilities": alignment.probabilities,
            "unknown": unknown_words(sides[0], self.vocabularies[0]),
        }


def _without_unknown(
    tokens: list[str],
    source_tokens: list[str],
    weights: NDArray[np.floating],
    vocabulary: Vocabulary,
) -> list[str]:
    """Replace each unknown token by the source word with the largest weight."""
    words = list(vocabulary.words_in(source_tokens))
    first_pieces = np.cumsum([0, *map(len, words[:-1])])
    of_words = np.add.reduceat(weights[:, :-1], first_pieces, axis=1)
    looked_at = of_words.argmax(axis=1)[:-1]
    return replace_unknown(tokens, (vocabulary.word_of(words[i]) for i in looked_at))
