"""Count a text's unknown words, and warn once about each way in which a text does not suit a model.

A *word* is what the tokeniser makes of a text, punctuation marks too, with its subword pieces
(``@@``) put together. It is *unknown* if the dictionary lacks one of its pieces, so that the model
reads ``<unk>`` there. Warnings are due for

- unknown words: any in a text of one sentence, ``MOST_UNKNOWN`` of a longer text's words; or words
  that split into ``MOST_PIECES`` times as many pieces as in the training. The warning also says
  what would make more of the text known: the model's other language, or other tokens;
- lines with several sentences, of which a model that was trained on single ones often translates
  only the first;
- a sentence of more than `LONG` tokens, before its translation begins;
- a text whose words are known, but which is unlike the training's: the model is less sure of the
  tokens that it writes than it was of those that people wrote as translations of its validation
  text.
"""

import logging
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fairseq_rnnsearch.data.plain_text import PlainText, sentences_in
from fairseq_rnnsearch.data.reversible import JOINER, shown
from fairseq_rnnsearch.errors import as_text, counted

logger = logging.getLogger(__name__)

UNKNOWN = "<unk>"
MOST_UNKNOWN = 0.05
MOST_PIECES = 1.5  # above it, `en-fr` has 15 BLEU on its test sentences, and 41 on the others
LEAST_BITS = 1.0  # -log2 p of a token: fewer are never unsure, as in models of toy corpora
ENOUGH = 1000  # words, after which a text is judged before its end
LONG = 500  # tokens of a sentence; a search takes some ten seconds, and four times for twice
EXAMPLES = 5

_COMPOSED = "its Unicode form NFKC (no ligatures, no loose accents) without soft hyphens"

Tokens = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Vocabulary:
    """One language of a model.

    Attributes:
        language: its code.
        counts: how often each piece, or word, stood in the training text; without fairseq's
            symbols.
        tokens: makes the tokens of a sentence.
        alternatives: other ways to make them, by description; called when a warning wants them.
    """

    language: str
    counts: Mapping[str, int]
    tokens: Tokens = str.split
    alternatives: Callable[[], Mapping[str, Tokens]] = dict

    @cached_property
    def pieces_per_word(self) -> float:
        """The mean number of pieces of a word in the training text."""
        ends = sum(n for piece, n in self.counts.items() if not piece.endswith("@@"))
        return sum(self.counts.values()) / ends if ends > 0 else 1.0

    def lacks(self, word: Sequence[str]) -> bool:
        """Tell whether a word, given as its pieces, is unknown."""
        return any(piece not in self.counts for piece in word)


@dataclass
class Count:
    """The counts of one side of a text.

    Attributes:
        lines: sentences that have words.
        unknown_examples, split_examples: different words that are unknown, and that have very many
            pieces.
        sentences: the first plain sentences, to try what else they may be.
    """

    vocabulary: Vocabulary
    lines: int = 0
    words: int = 0
    unknown: int = 0
    pieces: int = 0
    unknown_examples: dict[str, None] = field(default_factory=dict)
    split_examples: dict[str, None] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)

    def add(self, tokens: Sequence[str], sentence: str | None = None) -> None:
        """Count a sentence.

        Args:
            tokens: as the model reads them.
            sentence: the plain text, where it is known.
        """
        many = MOST_PIECES * self.vocabulary.pieces_per_word
        if sentence is not None and self.words < ENOUGH:
            self.sentences.append(sentence)
        self.lines += bool(tokens)
        for pieces in words_in(tokens):
            self.words += 1
            self.pieces += len(pieces)
            name = shown(word_of(pieces))
            if self.vocabulary.lacks(pieces):
                self.unknown += 1
                if name != UNKNOWN or sentence is not None:  # binarised text has no other name
                    _keep(name, self.unknown_examples)
            if len(pieces) >= many:
                _keep(name, self.split_examples)

    @property
    def unknown_rate(self) -> float:
        return self.unknown / max(self.words, 1)

    @property
    def pieces_per_word(self) -> float:
        return self.pieces / max(self.words, 1)

    @property
    def trouble(self) -> float:
        """The larger of both numbers as a multiple of its limit."""
        return max(self.unknown_rate / MOST_UNKNOWN, self._pieces / MOST_PIECES)

    @property
    def is_bad(self) -> bool:
        """Whether a warning is due."""
        return self.trouble >= 1 or (self.lines == 1 and self.unknown > 0)

    @property
    def _pieces(self) -> float:
        return self.pieces_per_word / self.vocabulary.pieces_per_word

    def finding(self) -> str:
        """Describe the number that is too large, with examples."""
        words = f"{counted(self.words, 'word')} ({self.vocabulary.language})"
        if self._pieces < MOST_PIECES or self.unknown_rate >= MOST_UNKNOWN:
            are = "is" if self.unknown == 1 else "are"
            examples = _shown(self.unknown_examples)
            return f"{self.unknown:,} of {words} {are} unknown to the model{examples}"
        return (
            f"the model has hardly seen such words: the {words} split into "
            f"{self.pieces_per_word:.1f} subword pieces each, and those of the training into "
            f"{self.vocabulary.pieces_per_word:.1f}{_shown(self.split_examples)}"
        )


class CountedText:
    """Counts a text while it is read; each warning comes only once.

    Args:
        source, target: the languages that the model reads and writes; there may be no target text.
        validation_bits: -log2 p of a token of the validation text's translations; None if unknown.
    """

    def __init__(
        self, source: Vocabulary, target: Vocabulary, validation_bits: float | None = None
    ) -> None:
        self._source, self._target = Count(source), Count(target)
        self._has_warned = self._has_long_sentence = False
        self._validation_bits = validation_bits or math.inf
        self._bits = self._tokens = 0.0
        self._long_lines, self._first_long_line = 0, ""

    def add_source(self, tokens: Sequence[str], sentence: str | None = None) -> None:
        """Count a source sentence; see `Count.add`."""
        self._source.add(tokens, sentence)
        if len(tokens) > LONG and not self._has_long_sentence and not self._target.words:
            self._has_long_sentence = True
            logger.warning(
                "a sentence of %s tokens, %.60r: time grows with the square of its length, up to "
                "hours; Ctrl-C ends, and shorter lines are translated sooner and better",
                *(f"{len(tokens):,}", " ".join(tokens)),
            )
        if sentence is not None and len(sentences_in(sentence)) > 1:
            self._long_lines += 1
            self._first_long_line = self._first_long_line or sentence
        if self._source.words >= ENOUGH:
            self._judge()

    def add_target(self, tokens: Sequence[str], sentence: str | None = None) -> None:
        """Count a given target sentence, before its source; see `Count.add`."""
        self._target.add(tokens, sentence)

    def add_translation(self, probabilities: Sequence[float]) -> None:
        """Count the probabilities of a translation's tokens, after its source was added."""
        if all(probabilities):
            self._bits -= sum(map(math.log2, probabilities))
            self._tokens += len(probabilities)
        if self._source.words >= ENOUGH:
            self._judge_certainty()

    def end(self) -> None:
        """Give the warnings that are due, however short the text was."""
        self._judge()
        self._judge_certainty()
        if self._long_lines and not self._target.words:
            logger.warning(
                "several sentences in %s, such as %.60r: the model may translate only the first; "
                "split_sentences=True (--split-sentences) translates each",
                *(counted(self._long_lines, "line"), self._first_long_line),
            )

    def _judge(self) -> None:
        sides = (self._source, self._target)
        bad = [(one, other) for one, other in zip(sides, sides[::-1], strict=True) if one.is_bad]
        if bad and not self._has_warned:
            self._has_warned = True
            explained = "; ".join(_explained(one, other.vocabulary) for one, other in bad)
            result = "alignment" if self._target.words else "translation"
            logger.warning("probably a bad %s: %s", result, explained)

    def _judge_certainty(self) -> None:
        most = self._tokens * max(LEAST_BITS, self._validation_bits)
        if self._tokens and self._bits > most and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "probably a bad translation: the text seems unlike the training's; the model gives "
                "what it writes a probability of %.3f a token (geometric mean), and gave %.3f to "
                "human translations of its validation text",
                *(2 ** -(self._bits / self._tokens), 2**-self._validation_bits),
            )


def _explained(count: Count, other: Vocabulary) -> str:
    """Return the finding, and an alternative that would at least halve the trouble."""
    own = count.vocabulary
    tried = [(other, other.tokens, f"it looks like {other.language}: are the languages swapped?")]
    composed = {_COMPOSED: lambda sentence: own.tokens(_composed(sentence))}
    for described, tokens in (composed | own.alternatives()).items():
        tried.append((own, tokens, f"{described} would suit it better"))
    best, suspicion = count, ""
    for vocabulary, tokens, said in tried if count.sentences else ():
        again = Count(vocabulary)
        for sentence in count.sentences:
            again.add(tokens(sentence))
        if again.trouble < best.trouble and again.trouble <= count.trouble / 2:
            best = again
            suspicion = f"; {said} ({again.unknown_rate:.1%} unknown"
            pieces = again.pieces_per_word
            suspicion += f", {pieces:.1f} pieces a word)" if pieces > 1 else ")"
    return count.finding() + suspicion


def _composed(sentence: str) -> str:
    return unicodedata.normalize("NFKC", sentence).replace("\u00ad", "")


def words_of(dictionary: Any, language: str, text: PlainText | None = None) -> Vocabulary:
    """Return what a model knows of a language, fairseq's symbols not included.

    Args:
        dictionary: fairseq's.
        text: how its sentences become tokens (default: they are tokens with spaces between them).
    """
    first = dictionary.nspecial
    counts = dict(zip(dictionary.symbols[first:], dictionary.count[first:], strict=True))
    if text is None:
        return Vocabulary(language, counts)
    return Vocabulary(language, counts, text.tokens, text.alternatives)


def unknown_words(tokens: Sequence[str], vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the unknown words of a sentence, each once, in order."""
    unknown = filter(vocabulary.lacks, words_in(tokens))
    return tuple(dict.fromkeys(shown(word_of(pieces)) for pieces in unknown))


def marked(tokens: Sequence[str], vocabulary: Vocabulary) -> list[str]:
    """Return tokens as pictures show them: an unknown word is ``<unk:word>``.

    The first piece of a word begins the mark, and the last one ends it.
    """
    found: list[str] = []
    for pieces in words_in(tokens):
        if pieces != [UNKNOWN] and vocabulary.lacks(pieces):
            pieces[0] = f"<unk:{pieces[0].lstrip(JOINER)}"
            pieces[-1] = f"{pieces[-1].removesuffix('@@').rstrip(JOINER)}>"
        found += pieces
    return found


def words_in(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Yield the pieces of each word."""
    word: list[str] = []
    for token in tokens:
        word.append(token)
        if not token.endswith("@@"):
            yield word
            word = []
    if word:
        yield word


def word_of(pieces: Sequence[str]) -> str:
    """Put the pieces of a word together."""
    return "".join(piece.removesuffix("@@") for piece in pieces)


def _keep(name: str, examples: dict[str, None]) -> None:
    if len(examples) < EXAMPLES:
        examples[name] = None


def _shown(examples: dict[str, None]) -> str:
    names = ", ".join(as_text(name, 30) for name in examples)
    return names and f"{', such as' if len(examples) == EXAMPLES else ':'} {names}"
