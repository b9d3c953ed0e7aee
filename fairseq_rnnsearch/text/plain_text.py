"""Convert plain text to the tokens that a model was trained on, and back.

A data folder may have a ``preprocessing.json``, which describes each language's tokenisation:

    {"en": {"tokenizer": "moses", "sacremoses": "0.2.0", "lowercase": false,
            "bpe_codes": "codes.en"},
     "fr": {"tokenizer": "space", "lowercase": false, "bpe_codes": null}}

``tokenizer`` is ``reversible`` (every text comes back as it was, see ``text.reversible``),
``moses``, ``words`` (see `word_tokenizer`), ``character`` (each character is a
token, as for Chinese, Japanese and Thai, which have no spaces between words) or ``space`` (the text
is tokenised already); ``sacremoses`` is the version of the package that split the training text,
and ``bpe_codes`` a file of subword-nmt in the same folder, or null. Recipes,
``rnnsearch-train`` and ``rnnsearch-tokenize`` write this file; where there is none, text is split
at spaces.
"""

import copy
import io
import json
import logging
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import regex

from fairseq_rnnsearch.errors import UserError, as_text
from fairseq_rnnsearch.files import write_text
from fairseq_rnnsearch.text import reversible

logger = logging.getLogger(__name__)

FILE_NAME = "preprocessing.json"
Tokenizer = Literal["reversible", "moses", "words", "character", "space"]
TOKENIZERS: tuple[str, ...] = get_args(Tokenizer)
SPACE = "\u2581"  # a space as a token of its own, as in fairseq's `characters` and in SentencePiece
Split = Callable[[str], list[str]]
Join = Callable[[Sequence[str]], str]

# Titles and initials do not end a sentence, nor does the day of a German date ("3. Mai"); Chinese
# and Japanese have no space after a sentence.
_GERMAN = "Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
_ABBREVIATION = (
    r"\b(?:\p{Lu}|Mr|Mrs|Ms|Dr|St|Prof|Mme|Mlle)\."
    rf"|\d\.(?=\s+(?:{_GERMAN}|Jahrhundert)(?!\p{{L}}))"
)
_BETWEEN_SENTENCES = regex.compile(
    rf"""(?<=[.!?…؟।۔։።။។]["'”’»)\]]*)(?<!{_ABBREVIATION})\s+"""
    r"""(?=["'“‘«(\[¿¡]*[\p{Lu}\p{Lo}])|(?<=[。！？]["'”’」』）]*)\s*(?=[\p{L}「『（])"""
)
_TYPES = {"tokenizer": str, "sacremoses": str, "lowercase": bool, "bpe_codes": str | None}


class PlainText:
    """The tokenisation of one language's sentences.

    Args:
        language: a code such as ``"fr"``, which chooses the rules of the Moses tokeniser.
        tokenizer: one of ``TOKENIZERS``; Moses makes no XML escapes, as in the recipes.
        lowercase: whether tokens become lower case.
        bpe_codes: subword-nmt's file of merges, or None for whole words.
        sacremoses: the version of the package that split the training text, if it is known. When
            another one is installed, a warning says so, because it may split text in other places.

    Attributes:
        language, tokenizer, lowercase, bpe_codes: as they were given.

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
    ) -> None:
        if tokenizer not in TOKENIZERS:
            raise UserError(f"tokenizer {tokenizer!r:.60}: must be one of {', '.join(TOKENIZERS)}")
        self.language, self.tokenizer, self.lowercase = language, tokenizer, lowercase
        self.bpe_codes = Path(bpe_codes) if bpe_codes else None
        self._sacremoses = sacremoses
        self._split: Split = str.split
        self._join: Join = " ".join
        if tokenizer == "reversible":
            self._split, self._join = reversible.split, reversible.join
        elif tokenizer == "moses":
            self._split, self._join = _moses_tokenizer(language, sacremoses)
        elif tokenizer == "words":
            self._split, self._join = word_tokenizer(language)
        elif tokenizer == "character":
            self._split, self._join = _characters, _sentence_of_characters
        self._segment = segmenter(self.bpe_codes) if self.bpe_codes else None
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
        return of_model

    def tokens(self, sentence: str) -> list[str]:
        """Return the tokens of a sentence, which are subword pieces if the model has them."""
        if self._spaces is not None:
            sentence = reversible.with_spaces_of(sentence, self._spaces)
        tokens = self._split(sentence)
        if self.lowercase:
            tokens = [token.lower() for token in tokens]
        return self._segment(tokens) if self._segment else tokens

    def text(self, tokens: Sequence[str]) -> str:
        """Return a sentence from tokens; pieces are merged, and lower case stays."""
        joined = " ".join(tokens) + " "
        return self._join(joined.replace("@@ ", "").split())


def sentences_in(line: str) -> list[str]:
    """Split a line after a mark that ends a sentence if another sentence seems to follow."""
    return _BETWEEN_SENTENCES.split(line)


def word_tokenizer(language: str) -> tuple[Split, Join]:
    """Return functions that split a sentence into words and punctuation marks, and join them again.

    The rules are simpler than Moses', and also take text that is split already: a word is
    letters and digits, with hyphens and apostrophes inside. The English 's and the elided words of
    French (l', qu') stand alone, as in the quickstart's corpus. Every apostrophe becomes "'".
    """
    alone = {"en": r"'s\b", "fr": r"\b(?:[cdjlmnst]|\w*qu)'"}.get(language, r"(?!)")
    word = re.compile(rf"{alone}|\w+(?:[-'](?!s\b)\w+)*|[^\w\s]", re.IGNORECASE)
    # French has a space before the marks of two parts.
    close = {"fr": ".,)", "en": ".,;:?!)'"}.get(language, ".,;:?!)")

    def split(sentence: str) -> list[str]:
        return word.findall(sentence.replace("’", "'"))

    def join(words: Sequence[str]) -> str:
        text = ""
        for before, word in zip(["", *words], words, strict=False):
            tight = not before or before == "(" or word[0] in close
            tight = tight or (language == "fr" and before.endswith("'"))
            text += word if tight else f" {word}"
        return text

    return split, join


def _moses_tokenizer(language: str, sacremoses: str | None) -> tuple[Split, Join]:
    """Return Moses' functions; a warning says that another version split the training text."""
    from sacremoses import MosesDetokenizer, MosesTokenizer

    if sacremoses not in (None, version("sacremoses")):
        logger.warning(
            "the %s text of the training was split into tokens by sacremoses %s, and %s is "
            "installed: tokens may differ from those that the model has learned",
            *(language, as_text(sacremoses, 20), version("sacremoses")),
        )
    moses, inverse = MosesTokenizer(lang=language), MosesDetokenizer(lang=language)
    return (
        lambda sentence: moses.tokenize(sentence, escape=False),
        lambda words: inverse.detokenize(words, unescape=False),
    )


def _characters(sentence: str) -> list[str]:
    """Split into what a reader calls characters: accents and vowel signs stay on their letters."""
    return regex.findall(r"\X", SPACE.join(sentence.split()))


def _sentence_of_characters(characters: Sequence[str]) -> str:
    return " ".join("".join(characters).replace(SPACE, " ").split())


def segmenter(path: Path) -> Callable[..., list[str]]:
    """Return the function that splits words by the merges of subword-nmt's file.

    Its arguments are the words and, optionally, the probability of leaving a merge out.
    """
    return _merges(path.read_bytes().decode("utf-8")).segment_tokens


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
