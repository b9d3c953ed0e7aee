"""One soft alignment: its words, its weights, and statistics of them.

Weights are always ``(target, source)``: each row belongs to a target word, as in the paper's
Figure 3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.coverage import word_of, words_in
from fairseq_rnnsearch.text.plain_text import Line
from fairseq_rnnsearch.text.reversible import shown

END = "</s>"
UNITS = ("words", "characters", "tokens")
Units = Literal["words", "characters", "tokens"]
SOURCE_END_CHOICES = ("keep", "drop", "renormalise")
_Merged = tuple[tuple[str, ...], np.ndarray]  # words, and the place of each one's first token


def pharaoh(links: Iterable[tuple[Any, Any]]) -> str:
    """Return links as ``0-0 1-2 ...``, the source first, in the order of the target words.

    Spans of characters are ``0:5-0:7``.
    """
    ordered = sorted(links, key=lambda link: (link[1], link[0]))
    return " ".join("-".join(map(_place, link)) for link in ordered)


def best_links(
    weights: NDArray[np.floating], axis: int = 1, threshold: float | None = None
) -> list[tuple[int, int]]:
    """Return links ``(source, target)`` to the largest of weights ``(target, source)``.

    Args:
        axis: 1 gives each target word one source word, and 0 each source word one target word.
        threshold: all links with a larger weight instead.
    """
    if threshold is not None:
        return [(source, target) for target, source in np.argwhere(weights > threshold).tolist()]
    if not weights.size:
        return []
    best = enumerate(weights.argmax(axis=axis).tolist())
    return [(other, place) if axis == 1 else (place, other) for place, other in best]


def _place(place: int | tuple[int, int]) -> str:
    return str(place) if isinstance(place, int) else "{}:{}".format(*place)


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
        lines: where the source's and the target's tokens stand in the lines of text, if that is
            known.
        units: what the source and the target are in, one of `UNITS`.
        kind: which weights these are, "attention" or "posterior", where there is a choice.

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
    lines: tuple[Line, Line] | None = None
    units: Units = "tokens"
    kind: str = ""

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
    def title(self) -> str | None:
        """What pictures say of the weights, where there is a choice."""
        return f"{self.kind} weights" if self.kind else None

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
        sides = zip((self.source, self.target), has_pieces, strict=True)
        return self._merged(*(merged_words(*side) for side in sides))

    def in_units(self, units: Units) -> "Alignment":
        """Return an alignment of tokens in other units, or as it is if its lines are not known.

        Args:
            units: "words" are those between the spaces of the lines, as other tools count them;
                tokens become words as pieces do, see `merge_pieces`. "characters" leaves the
                tokens, and links are between spans of characters, ``line[begin:end]``.
        """
        if self.lines is None or self.units != "tokens":
            return self
        merged = self
        if units == "words":
            sides = zip((self.source, self.target), self.lines, strict=True)
            merged = self._merged(*(_words_of_line(*side) for side in sides))
        return replace(merged, units=units)

    def _merged(self, source: _Merged, target: _Merged) -> "Alignment":
        (words, columns), (target_words, rows) = source, target
        weights = merged_weights(self.weights, columns, rows)
        merged: dict[str, Any] = {"source": words, "target": target_words, "weights": weights}
        if self.probabilities is not None:
            merged["probabilities"] = np.multiply.reduceat(self.probabilities, rows).tolist()
        if self.attribution is not None:
            effects = np.add.reduceat(self.attribution, columns, axis=1)
            merged["attribution"] = np.add.reduceat(effects, rows, axis=0)
        if self.lines is not None:
            merged["lines"] = tuple(map(_line_of_words, self.lines, (columns, rows)))
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

    def links(
        self, units: Units | None = None, threshold: float | None = None
    ) -> list[tuple[Any, Any]]:
        """Return links ``(source, target)`` between words, counted from 0.

        End symbols have no links.

        Args:
            units: see `in_units`; None: as the alignment is. Links in "characters" are
                ``((begin, end), (begin, end))``.
            threshold: all links with a larger weight, instead of each target word's best.
        """
        shown = self.in_units(units or self.units)
        return [shown.named(link) for link in best_links(shown.weights_of_words, 1, threshold)]

    def named(self, link: tuple[int, int]) -> tuple[Any, Any]:
        """Return a link between places of words in the alignment's units."""
        if self.units != "characters":
            return link
        source, target = self.lines
        return source.spans[link[0]], target.spans[link[1]]

    @property
    def weights_of_words(self) -> NDArray[np.floating]:
        """The weights without those of end symbols."""
        return self.weights[: word_count(self.target), : word_count(self.source)]

    def pharaoh(self, threshold: float | None = None) -> str:
        """Return the links as a line of text, see the function."""
        return pharaoh(self.links(threshold=threshold))

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


def merged_weights(
    weights: NDArray[np.floating], columns: np.ndarray, rows: np.ndarray
) -> NDArray[np.floating]:
    """Return the weights of words from those of their tokens, see `Alignment.merge_pieces`.

    Args:
        columns, rows: the place of each word's first token.
    """
    of_words = np.add.reduceat(weights, columns, axis=1, dtype=float)
    sizes = np.diff(rows, append=len(weights))
    return np.add.reduceat(of_words, rows, axis=0) / sizes[:, None]


def word_count(tokens: Sequence[str]) -> int:
    """Count the words of a sentence, without its end symbol."""
    return len(tokens) - (tuple(tokens[-1:]) == (END,))


def merged_words(pieces: Sequence[str], has_pieces: bool = True) -> _Merged:
    """Return the words as people see them, and the place of each word's first piece.

    Args:
        has_pieces: whether a token that ends with ``@@`` is a piece, and not such a word.
    """
    end = word_count(pieces)
    words = [*words_in(pieces[:end], has_pieces), *([symbol] for symbol in pieces[end:])]
    lengths = np.array([len(word) for word in words], dtype=int)
    return tuple(shown(word_of(word, has_pieces)) for word in words), lengths.cumsum() - lengths


def _words_of_line(tokens: Sequence[str], line: Line) -> _Merged:
    """Return a line's words, the unknown ones marked, and the place of each word's first token."""
    words, numbers = line.text.split(), line.words
    for token, number in zip(tokens, numbers, strict=False):
        if token.startswith("<unk:") and not words[number].startswith("<unk:"):
            words[number] = f"<unk:{words[number]}>"
    ends = range(len(numbers), len(tokens))
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return (*words, *tokens[len(numbers) :]), np.array([*firsts, *ends], int)


def _line_of_words(line: Line, firsts: np.ndarray) -> Line:
    """Return a line with the spans of words, given the place of each one's first token."""
    begins = [first for first in firsts.tolist() if first < len(line.spans)]
    each = zip(begins, [*begins, len(line.spans)][1:], strict=True)  # none in a blank line
    spans = tuple((line.spans[begin][0], line.spans[end - 1][1]) for begin, end in each)
    return replace(line, spans=spans)
