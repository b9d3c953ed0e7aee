"""Convert plain text to the tokens that a model was trained on, and back.

A data folder may have a ``preprocessing.json``, which describes each language's tokenisation:

    {"en": {"tokenizer": "moses", "sacremoses": "0.2.0", "lowercase": false,
            "bpe_codes": "codes.en", "single_sentences": true},
     "fr": {"tokenizer": "space", "lowercase": false, "bpe_codes": null}}

``tokenizer`` is one of ``text.tokenizers``; ``sacremoses`` is the version of the package that split
the training text, ``bpe_codes`` a file of subword-nmt in the same folder, or null,
``case_and_digits`` whether pieces of words are those of ``reversible.parts``, and
``single_sentences`` whether hardly any line of the training text has several sentences. Recipes,
``rnnsearch-train`` and ``rnnsearch-tokenize`` write this file; where there is none, text is split
at spaces.
"""

import copy
import io
import json
import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import regex

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import write_text
from fairseq_rnnsearch.text import reversible
from fairseq_rnnsearch.text.coverage import word_of, words_in
from fairseq_rnnsearch.text.tokenizers import SPACE, TOKENIZERS, tokenizer_of

logger = logging.getLogger(__name__)

FILE_NAME = "preprocessing.json"

# Titles and initials do not end a sentence, nor does the day of a German date ("3. Mai"); Chinese
# and Japanese have no space after a sentence.
_GERMAN = "Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
_ABBREVIATION = (
    r"\b(?:\p{Lu}|Mr|Mrs|Ms|Dr|St|Prof|Mme|Mlle)\."
    rf"|\d\.(?=\s+(?:{_GERMAN}|Jahrhundert)(?!\p{{L}}))"
)
_BETWEEN_SENTENCES = (
    rf"""(?<=[.!?…؟।۔։።။។]["'”’»)\]]*)(?<!{_ABBREVIATION})\s+"""
    r"""(?=["'“‘«(\[¿¡]*[\p{Lu}\p{Lo}])|(?<=[。！？]["'”’」』）]*)\s*(?=[\p{L}「『（])"""
)
_TYPES = {
    **{"tokenizer": str, "sacremoses": str, "bpe_codes": str | None},
    **dict.fromkeys(("lowercase", "single_sentences", "case_and_digits"), bool),
}
_SEVERAL = 0.05  # of the lines may have several sentences


@dataclass(frozen=True)
class Line:
    """A line of text, and where its tokens stand in it.

    Attributes:
        text: the line as it was.
        spans: of each token its first character, from 0, and the one after its last.
    """

    text: str
    spans: tuple[tuple[int, int], ...]

    @property
    def words(self) -> list[int]:
        """The number of each token's word, from 0; words are what stands between spaces."""
        begins = [word.start() for word in re.finditer(r"\S+", self.text)]
        return [max(bisect_right(begins, begin) - 1, 0) for begin, _ in self.spans]


class PlainText:
    """The tokenisation of one language's sentences.

    Args:
        language: a code such as ``"fr"``, which chooses the rules of the Moses tokeniser.
        tokenizer: one of ``TOKENIZERS``; Moses makes no XML escapes, as in the recipes.
        lowercase: whether tokens become lower case.
        bpe_codes: subword-nmt's file of merges, or None for whole words.
        sacremoses: the version of the package that split the training text, if it is known. When
            another one is installed, a warning says so, because it may split text in other places.
        single_sentences: whether the lines of the training text are single sentences.
        case_and_digits: whether marks of case and digits are pieces, see ``reversible.parts``.

    Attributes:
        language, tokenizer, lowercase, bpe_codes, single_sentences, case_and_digits: as they were
            given.
        has_pieces: whether tokens may be pieces of words, see the function.

    Raises:
        UserError: there is no such tokeniser.
    """

    def __init__(
        self,
        language: str,
        tokenizer: str = "space",
        lowercase: bool = False,
        bpe_codes: str | Path | None = None,
        sacremoses: str | None = None,
        single_sentences: bool = False,
        case_and_digits: bool = False,
    ) -> None:
        if tokenizer not in TOKENIZERS:
            raise UserError(f"tokenizer {tokenizer!r:.60}: must be one of {', '.join(TOKENIZERS)}")
        self.language, self.tokenizer, self.lowercase = language, tokenizer, lowercase
        self.single_sentences, self.case_and_digits = single_sentences, case_and_digits
        self.bpe_codes = Path(bpe_codes) if bpe_codes else None
        self._sacremoses = sacremoses
        self._split, self._join = tokenizer_of(tokenizer, language, sacremoses)
        self._segment = self.bpe_codes and segmenter(self.bpe_codes, case_and_digits)
        self._settings = {"tokenizer": tokenizer, "bpe_codes": bpe_codes}
        self.has_pieces = has_pieces(self._settings)
        self._spaces: Container[str] | None = None  # that a model knows

    @classmethod
    def of(cls, folder: Path, language: str, **changes: Any) -> "PlainText":
        """Follow a data folder's ``preprocessing.json`` for a language.

        Args:
            changes: arguments of the class; those that are not None replace the file's.

        Raises:
            UserError: the file is broken.
        """
        settings = settings_of(folder).get(language, {})
        if settings.get("bpe_codes"):
            settings["bpe_codes"] = folder / settings["bpe_codes"]
        changes = {name: value for name, value in changes.items() if value is not None}
        text = cls(language, **settings | changes)
        if not settings and not text.bpe_codes:
            text._settings, text.has_pieces = {}, True
        for name in settings.keys() & {"tokenizer", "lowercase"} & changes.keys():
            # text that is split already, as that of the training was, takes the tokenizer space
            if changes[name] not in (settings[name], "space"):
                logger.warning(
                    "%s %s: the %s text of the training had %s %s, so the model has learned other "
                    "tokens",
                    *(name, changes[name], language, name, settings[name]),
                )
        return text

    def read_with(self, symbols: Iterable[str]) -> "PlainText":
        """Return the same for a model with these symbols: it reads only the white space it knows.

        See ``reversible.with_spaces_of``.
        """
        of_model = copy.copy(self)
        of_model._spaces = reversible.spaces_in(symbols)
        of_model.has_pieces = has_pieces(self._settings, symbols)
        return of_model

    def tokens(self, sentence: str) -> list[str]:
        """Return the tokens of a sentence, which are subword pieces if the model has them."""
        if self._spaces is not None:
            sentence = reversible.with_spaces_of(sentence, self._spaces)
        tokens = self._split(sentence)
        if self.lowercase:
            tokens = [token.lower() for token in tokens]
        return self._segment(tokens) if self._segment else tokens

    def line(self, sentence: str, tokens: Sequence[str]) -> "Line | None":
        """Find where tokens stand in their sentence.

        A piece stands where its word stands, and white space that is a token between two words.

        Returns:
            None for tokens that are not the sentence's characters in their order, such as Moses',
            or if a word of the sentence is none of them.
        """
        if self.tokenizer == "moses":
            return None
        blank = SPACE if self.tokenizer == "character" else ""  # stands for a space there
        places = [
            place
            for place, character in enumerate(sentence)
            for one in (character.lower() if self.lowercase else character)
            if not (one.isspace() or one == blank)
        ]
        ends, spans, end = [0, *(place + 1 for place in places)], [], 0
        for pieces in words_in(tokens, self.has_pieces):
            word = self._join([word_of(pieces, self.has_pieces)])
            begin, end = end, end + sum(not one.isspace() for one in word)
            if end > len(places):
                return None
            after = places[end - 1] + 1 if end > begin else [*places, len(sentence)][end]
            spans += [(places[begin] if end > begin else ends[begin], after)] * len(pieces)
        line = Line(sentence, tuple(spans))
        is_whole = end == len(places) and {*line.words} == {*range(len(sentence.split()))}
        return line if is_whole else None

    def text(self, tokens: Sequence[str]) -> str:
        """Return a sentence from tokens; pieces are merged, and lower case stays."""
        joined = " ".join(tokens) + " "
        return self._join((joined.replace("@@ ", "") if self.has_pieces else joined).split())


def joined_line(text: str, parts: Iterable[Line]) -> Line:
    """Return the line of a text that has these lines in it, in their order."""
    spans, begin = [], 0
    for part in parts:
        begin = text.index(part.text, begin)
        spans += [(begin + first, begin + after) for first, after in part.spans]
        begin += len(part.text)
    return Line(text, tuple(spans))


def has_pieces(settings: Mapping[str, Any], symbols: Iterable[str] = ()) -> bool:
    """Tell whether a token that ends with ``@@`` is a piece of a word, by a language's settings.

    Without merges, only the tokenizer ``space`` makes such tokens, and they are the text's own.
    Without settings, the text may have been split by other programs; none makes a piece that is
    nothing but the mark.

    Args:
        symbols: those that a model knows.
    """
    if not settings:
        return "@@" not in symbols
    return bool(settings.get("bpe_codes")) or settings.get("tokenizer", "space") != "space"


def sentences_in(line: str) -> list[str]:
    """Split a line after a mark that ends a sentence if another sentence seems to follow."""
    return regex.split(_BETWEEN_SENTENCES, line)


def are_single_sentences(lines: Iterable[str]) -> bool:
    """Tell whether hardly any line has several sentences."""
    several = [len(sentences_in(line)) > 1 for line in lines]
    return sum(several) <= _SEVERAL * len(several)


def segmenter(
    path: Path, case_and_digits: bool = False, dropout: float = 0.0
) -> Callable[[Sequence[str]], list[str]]:
    """Return the function that splits words by the merges of subword-nmt's file.

    Args:
        case_and_digits: see `PlainText`.
        dropout: the probability of leaving a merge out.
    """
    # subword-nmt would split a word again as dropout did before, also without dropout
    merges = _merges.__wrapped__ if dropout else _merges
    segment = partial(merges(path.read_bytes().decode("utf-8")).segment_tokens, dropout=dropout)
    return partial(_segment_parts, segment) if case_and_digits else segment


def _segment_parts(
    segment: Callable[[Sequence[str]], list[str]], tokens: Sequence[str]
) -> list[str]:
    pieces: list[str] = []
    for token in tokens:
        for part in reversible.parts(token):
            pieces += [part] if reversible.ESCAPE in part else segment([part])
            pieces[-1] += "@@"
        pieces[-1] = pieces[-1].removesuffix("@@")
    return pieces


@lru_cache(maxsize=1)
def _merges(text: str) -> Any:
    """Return subword-nmt's object for a file; both languages of a model often have the same."""
    from subword_nmt.apply_bpe import BPE

    return BPE(io.StringIO(text))


def write_settings(folder: Path, languages: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a folder's preprocessing.json, which ``settings_of`` reads."""
    text = json.dumps(languages, indent=1, ensure_ascii=False) + "\n"
    write_text(folder / FILE_NAME, text)


def settings_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Read each language's settings from a folder's preprocessing.json; without one, none.

    Raises:
        UserError: the file is broken.
    """
    path = folder / FILE_NAME
    try:
        languages = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as problem:
        raise UserError(f"{path} cannot be read: {problem}") from problem
    for language, settings in languages.items():
        for name, value in settings.items():
            if not isinstance(value, _TYPES.get(name, ())):
                raise UserError(
                    f"{path}: {language:.60}: {name:.60} cannot be {value!r:.60}; expected values "
                    f"of {', '.join(_TYPES)}"
                )
    return languages
