"""Unknown words: those that a model reads as ``<unk>``, counted and named.

A *word* is what the tokeniser makes of a text, punctuation marks too, with its subword pieces
(``@@``) put together. It is *unknown* if the dictionary lacks one of its pieces. If a text has
unknown words, one warning for each language counts and names them.
"""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fairseq_rnnsearch.errors import as_text, pluralize
from fairseq_rnnsearch.text.reversible import JOINER, shown

logger = logging.getLogger(__name__)

UNKNOWN = "<unk>"
EXAMPLES = 5
_LONGEST_EXAMPLE = 30  # characters

_LANGUAGES = {
    **{"ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek"},
    **{"en": "English", "es": "Spanish", "fi": "Finnish", "fr": "French", "hi": "Hindi"},
    **{"hu": "Hungarian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch"},
    **{"pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish"},
    **{"th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "zh": "Chinese"},
}


@dataclass(frozen=True)
class Vocabulary:
    """One language of a model.

    Attributes:
        language: its code.
        symbols: the pieces, or words, that the model knows, without fairseq's special symbols.
        has_pieces: whether a token that ends with ``@@`` is a piece of a word, see
            ``plain_text.has_pieces``.
    """

    language: str
    symbols: Set[str]
    has_pieces: bool = True

    def words_in(self, tokens: Sequence[str]) -> Iterator[list[str]]:
        """Yield the pieces of each word."""
        return words_in(tokens, self.has_pieces)

    def word_of(self, pieces: Sequence[str]) -> str:
        """Join the pieces of a word."""
        return word_of(pieces, self.has_pieces)

    def lacks(self, word: Sequence[str]) -> bool:
        """Tell whether a word, given as its pieces, is unknown."""
        return any(piece not in self.symbols for piece in word)


@dataclass
class WordCount:
    """Counts the words of a text in one language.

    Attributes:
        names: the different unknown words, in order.
    """

    vocabulary: Vocabulary
    words: int = 0
    unknown: int = 0
    names: dict[str, None] = field(default_factory=dict)

    def add(self, tokens: Sequence[str]) -> None:
        """Count the words of a sentence, given as the model reads it."""
        for pieces in self.vocabulary.words_in(tokens):
            self.words += 1
            if self.vocabulary.lacks(pieces):
                self.unknown += 1
                if pieces != [UNKNOWN]:  # binarised text has lost the name
                    self.names[shown(self.vocabulary.word_of(pieces))] = None

    def warn(self) -> None:
        """Warn if there are unknown words, for example "2 of 25 English words are unknown: ..."."""
        if not self.unknown:
            return
        noun = f"{language_name(self.vocabulary.language)} word"
        are = "is" if self.unknown == 1 else "are"
        examples = ", ".join(as_text(name, _LONGEST_EXAMPLE) for name in [*self.names][:EXAMPLES])
        such_as = examples and (", such as " if len(self.names) > EXAMPLES else ": ")
        counts = f"{self.unknown:,} of {pluralize(self.words, noun)}"
        logger.warning("%s %s unknown%s%s", counts, are, such_as, examples)


class TextCounter:
    """Counts the unknown words of a text's two sides, and warns of them."""

    # the texts that a thread or an asyncio task is counting, by their counters
    _texts: ClassVar[ContextVar[dict["TextCounter", list[WordCount]]]] = ContextVar("texts")

    def __init__(self, source: Vocabulary, target: Vocabulary) -> None:
        self._vocabularies = source, target

    @contextlib.contextmanager
    def as_one_text(self) -> Iterator[None]:
        """Count over all calls in the block, unless it is inside another, and warn at its end."""
        text = list(map(WordCount, self._vocabularies))
        token = self._texts.set({**self._texts.get({}), self: text})
        try:
            yield
        finally:
            self._texts.reset(token)
            for side in text:
                side.warn()
            text.clear()  # an asyncio task of the block may go on after it

    def count(self, *sides: Iterable[Sequence[str]]) -> None:
        """Count the words of sentences; without a block around, they are a text of their own."""
        with contextlib.nullcontext() if self._texts.get({}).get(self) else self.as_one_text():
            for side, sentences in zip(self._texts.get()[self], sides, strict=True):
                for tokens in sentences:
                    side.add(tokens)


def language_name(code: str) -> str:
    """Return a language's English name; an unknown code is returned as it is."""
    return _LANGUAGES.get(code, code)


def words_of(dictionary: Any, language: str, has_pieces: bool = True) -> Vocabulary:
    """Return the words of fairseq's dictionary, without its special symbols."""
    return Vocabulary(language, frozenset(dictionary.symbols[dictionary.nspecial :]), has_pieces)


def unknown_words(tokens: Sequence[str], vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the unknown words of a sentence, each once, in order."""
    unknown = filter(vocabulary.lacks, vocabulary.words_in(tokens))
    return tuple(dict.fromkeys(shown(vocabulary.word_of(pieces)) for pieces in unknown))


def replace_unknown(
    tokens: Iterable[str], looked_at: Iterable[str], translations: Mapping[str, str] | None = None
) -> list[str]:
    """Replace each ``<unk>`` by the source word that the model looked at.

    Args:
        looked_at: for each token, the source word with the largest weight.
        translations: of source words; a word that it lacks is copied.
    """
    known = translations or {}
    return [
        known.get(seen, seen) if token == UNKNOWN else token
        for token, seen in zip(tokens, looked_at, strict=True)
    ]


def marked(tokens: Sequence[str], vocabulary: Vocabulary) -> list[str]:
    """Return tokens as pictures show them: an unknown word is ``<unk:word>``.

    The first piece of a word begins the mark, and the last one ends it.
    """
    found: list[str] = []
    for pieces in vocabulary.words_in(tokens):
        if pieces != [UNKNOWN] and vocabulary.lacks(pieces):
            pieces[0] = f"<unk:{pieces[0].lstrip(JOINER)}"
            pieces[-1] = f"{vocabulary.word_of(pieces[-1:]).rstrip(JOINER)}>"
        found += pieces
    return found


def words_in(tokens: Sequence[str], has_pieces: bool = True) -> Iterator[list[str]]:
    """Yield the pieces of each word.

    Args:
        has_pieces: see `Vocabulary`.
    """
    word: list[str] = []
    for token in tokens:
        word.append(token)
        if not (has_pieces and token.endswith("@@")):
            yield word
            word = []
    if word:
        yield word


def word_of(pieces: Sequence[str], has_pieces: bool = True) -> str:
    """Join the pieces of a word; see `words_in`."""
    return "".join(piece.removesuffix("@@" if has_pieces else "") for piece in pieces)
