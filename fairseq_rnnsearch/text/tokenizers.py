"""Tokenizers: how a sentence is split into tokens, and how tokens become a sentence again.

``reversible``  every text comes back as it was, see ``text.reversible``
``moses``       that of most published results, without XML escapes
``words``       see `word_tokenizer`
``character``   each character is a token, as for Chinese, Japanese and Thai, which have no spaces
                between words
``space``       the text is tokenised already

Packages are imported when they are needed: ``rnnsearch-train --dry-run`` goes without.
"""

import logging
import re
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from fairseq_rnnsearch.errors import as_text

logger = logging.getLogger(__name__)

Tokenizer = Literal["reversible", "moses", "words", "character", "space"]
TOKENIZERS: tuple[str, ...] = get_args(Tokenizer)
SPACE = "\u2581"  # a space as a token of its own, as in fairseq's `characters` and in SentencePiece
Split = Callable[[str], list[str]]
Join = Callable[[Sequence[str]], str]


def tokenizer_of(name: str, language: str, sacremoses: str | None = None) -> tuple[Split, Join]:
    """Return the functions of one of ``TOKENIZERS``, see ``PlainText``."""
    if name == "reversible":
        from fairseq_rnnsearch.text import reversible

        return reversible.split, reversible.join
    if name == "moses":
        return _moses_tokenizer(language, sacremoses)
    if name == "words":
        return word_tokenizer(language)
    if name == "character":
        return _characters, _sentence_of_characters
    return str.split, " ".join


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
    from importlib.metadata import version

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
    import regex

    return regex.findall(r"\X", SPACE.join(sentence.split()))


def _sentence_of_characters(characters: Sequence[str]) -> str:
    return " ".join("".join(characters).replace(SPACE, " ").split())
