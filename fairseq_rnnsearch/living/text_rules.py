"""The rules by which the page tokenises text, the same as in ``text.plain_text``."""

import functools
import sys
from collections.abc import Iterable
from typing import Any

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.plain_text import PlainText


def text_rules(texts: Iterable[PlainText]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rules of each language, and the files of merges that they name by number.

    Raises:
        UserError: the page has not the rules of a tokeniser.
    """
    merges: list[str] = []
    all_rules = []
    for text in texts:
        if text.tokenizer == "moses":
            raise UserError(
                "the page cannot split text by Moses' rules, as this model's was; train one with "
                "--tokenizer reversible"
            )
        rules = {
            "language": text.language,
            "tokenizer": text.tokenizer,
            "lowercase": text.lowercase,
            "merges": None,
            "hasPieces": text.has_pieces,
            "caseAndDigits": text.case_and_digits,
        }
        if text.bpe_codes:
            codes = text.bpe_codes.read_text(encoding="utf-8").rstrip("\n")
            if codes not in merges:  # languages may share them
                merges.append(codes)
            rules["merges"] = merges.index(codes)
        if text.tokenizer == "words":
            rules["classes"] = {"word": _word_characters()}
        all_rules.append(rules)
    return all_rules, merges


@functools.cache
def _word_characters() -> str:
    r"""Return the characters that match Python's \w."""
    everything = map(chr, range(sys.maxunicode + 1))
    return ranges(c for c in everything if c.isalnum() or c == "_")


def ranges(characters: Iterable[str]) -> str:
    r"""Return characters as ranges inside a class of a regular expression, ``\u{61}-\u{7a}``."""
    runs: list[list[int]] = []
    for code in sorted({ord(character) for character in characters}):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(f"\\u{{{first:x}}}-\\u{{{last:x}}}" for first, last in runs)
