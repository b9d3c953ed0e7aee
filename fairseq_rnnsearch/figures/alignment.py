"""One soft alignment: its words, its weights, and statistics of them.

Weights are always ``(target, source)``: each row belongs to a target word, as in the paper's
Figure 3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.coverage import word_of, words_in
from fairseq_rnnsearch.text.reversible import shown

END = "</s>"
SOURCE_END_CHOICES = ("keep", "drop", "renormalise")


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """Return links as ``0-0 1-2 ...``, the source first, in the order of the target words."""
    ordered = sorted(links, key=lambda link: (link[1], link[0]))
    return " ".join(f"{source}-{target}" for source, target in ordered)


def largest_effect(effects: NDArray[np.floating]) -> float:
    """Return the size of the largest finite effect, by which all are drawn; 1 if all are zero."""
    return float(np.abs(effects[np.isfinite(effects)]).max(initial=0)) or 1.0


@dataclass(frozen=True, eq=False)
class Alignment:
    """A sentence pair and the weight of each source word for each target word.

    Attributes:
        source, target: the tokens; a sentence's end symbol, if it is there, stands last.
        weights: ``(target, source)``, each row a distribution over the source; read-only.
        id: the sentence's number in its data set, counted from 1.
        score: the model's score of the target, if it is known (log-probability, base 2, as
            fairseq prints it).
        probabilities: of each target token, given the source and the tokens before it, if they
            are known.
        attribution: ``(target, source)``, the natural logarithm of a target token's probability
            minus what it is without the source position, where that was computed; read-only.

    Raises:
        UserError: when the shape of the weights or of ``attribution``, or the number of
            probabilities, does not fit the tokens.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[np.floating]
    id: int = 1
    score: float | None = None
    probabilities: tuple[float, ...] | None = None
    attribution: NDArray[np.floating] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", tuple(self.source))
        object.__setattr__(self, "target", tuple(self.target))
        object.__setattr__(self, "weights", self._fitting("weights", self.weights))
        if self.attribution is not None:
            object.__setattr__(self, "attribution", self._fitting("effects", self.attribution))
        if self.probabilities is not None:
            object.__setattr__(self, "probabilities", tuple(self.probabilities))
            if len(self.probabilities) != len(self.target):
                raise UserError(
                    f"{len(self.probabilities)} probabilities for {len(self.target)} target words"
                )

    def __eq__(self, other: object) -> bool:
        """Compare all attributes; arrays are equal in whole or not at all."""
        if not isinstance(other, Alignment):
            return NotImplemented
        values = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(np.array_equal(one, another) for one, another in values)

    def __hash__(self) -> int:
        return hash((self.source, self.target, self.id))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make copies and unpickled alignments read-only too."""
        self.__init__(**state)

    def _fitting(self, name: str, given: NDArray[np.floating]) -> NDArray[np.floating]:
        matrix, expected = np.asarray(given).view(), (len(self.target), len(self.source))
        matrix.setflags(write=False)
        if matrix.shape != expected:
            raise UserError(
                f"alignment {name} have shape {matrix.shape}, but {expected[0]} target "
                f"and {expected[1]} source words need {expected}"
            )
        return matrix

    @property
    def has_words(self) -> bool:
        """Whether the source has a word; a blank line has nothing to show."""
        return any(word != END for word in self.source)

    def merge_pieces(self, has_pieces: Sequence[bool] = (True, True)) -> "Alignment":
        """Return the alignment of words instead of subword pieces (``@@``).

        The weight of a source word is the sum of its pieces' weights, because they are parts of
        one distribution; the row of a target word is the mean of its pieces' rows, so that it
        remains a distribution. The probability of a word is the product of its pieces'.
        ``attribution`` is summed over the pieces of both: that is exact for the target word, whose
        log-probability is such a sum, but each source piece was taken away alone, and pieces that
        stand in for each other matter more together.

        Args:
            has_pieces: whether the source and the target have pieces, see ``merged_words``.
        """
        source, columns = merged_words(self.source, has_pieces[0])
        target, rows = merged_words(self.target, has_pieces[1])
        weights = np.add.reduceat(self.weights, columns, axis=1, dtype=float)
        weights = np.add.reduceat(weights, rows, axis=0)
        weights /= np.diff(rows, append=len(self.target))[:, None]  # the pieces of each word
        merged: dict[str, Any] = {"source": source, "target": target, "weights": weights}
        if self.probabilities is not None:
            merged["probabilities"] = np.multiply.reduceat(self.probabilities, rows).tolist()
        if self.attribution is not None:
            effects = np.add.reduceat(self.attribution, columns, axis=1)
            merged["attribution"] = np.add.reduceat(effects, rows, axis=0)
        return replace(self, **merged)

    def with_source_end(self, choice: str) -> "Alignment":
        """Keep the column of the source's end symbol, drop it, or drop it and let rows sum to one.

        Args:
            choice: one of `SOURCE_END_CHOICES`.
        """
        if choice == "keep" or len(self.source) < 2 or self.source[-1] != END:
            return self
        weights = self.weights[:, :-1]
        if choice == "renormalise":
            total = weights.sum(axis=1, keepdims=True)
            weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
        attribution = None if self.attribution is None else self.attribution[:, :-1]
        return replace(self, source=self.source[:-1], weights=weights, attribution=attribution)

    def links(self) -> list[tuple[int, int]]:
        """Return the best source word of each target word as ``(source, target)``, counted from 0.

        End symbols have no links.
        """
        source_words = word_count(self.source)
        if not source_words:
            return []
        best = self.weights[: word_count(self.target), :source_words].argmax(axis=1)
        return [(int(source), target) for target, source in enumerate(best)]

    def pharaoh(self) -> str:
        """Return the links as a line of text, see the function."""
        return pharaoh(self.links())

    def entropy(self) -> float:
        """Return the mean over target words of the entropy of their weights, in bits.

        It is 0 when every target word looks at one source word only, and 1 when each looks at two
        source words equally. The end symbol is not a word, unless it stands alone.
        """
        weights = self._rows_of_words()
        logarithms = np.log2(weights, out=np.zeros_like(weights, dtype=float), where=weights > 0)
        return float(-(weights * logarithms).sum(axis=1).mean())

    def confidence(self) -> float:
        """Return the mean over target words of the largest weight; 1 is sure of every word."""
        return float(self._rows_of_words().max(axis=1).mean())

    def _rows_of_words(self) -> np.ndarray:
        return self.weights[: word_count(self.target) or None]


def word_count(tokens: Sequence[str]) -> int:
    """Count the words of a sentence, without its end symbol."""
    return len(tokens) - (tuple(tokens[-1:]) == (END,))


def merged_words(
    pieces: Sequence[str], has_pieces: bool = True
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the words as people see them, and the place of each word's first piece.

    Args:
        has_pieces: whether a token that ends with ``@@`` is a piece, and not such a word.
    """
    if not has_pieces:
        return tuple(map(shown, pieces)), np.arange(len(pieces))
    end = word_count(pieces)
    words = [*words_in(pieces[:end]), *([symbol] for symbol in pieces[end:])]
    lengths = np.array([len(word) for word in words], dtype=int)
    return tuple(shown(word_of(word)) for word in words), lengths.cumsum() - lengths
