"""A dictionary's file, ``dict.en.txt``: one word and its count per line, most frequent first.

fairseq takes a byte order mark for a part of the first word, and crashes unintelligibly on other
mistakes. ``#fairseq:overwrite`` after a count, which allows a repeated word, is accepted.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.corpus import checked_lines

_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
_UNKNOWN = _SYMBOLS.index("<unk>")
_ENTRY = re.compile(r"^([^\s\0\ufeff\ud800-\udfff]+) ([0-9]{1,18})$", re.MULTILINE)
_COUNT = re.compile("-?[0-9]{1,18}")
_OVERWRITE = " #fairseq:overwrite"


class Dictionary:
    """Words and their numbers, as ``fairseq.data.Dictionary`` has them; made by `read_dictionary`.

    Attributes:
        symbols: words by their numbers; the first four are fairseq's own.
        count: how often each occurred.
        indices: numbers by words.
        nspecial: the number of the first word.
        path: the file.
    """

    def __init__(self, path: str, entries: Sequence[tuple[str, int]]) -> None:
        self.path, self.nspecial = path, len(_SYMBOLS)
        self.symbols = [*_SYMBOLS, *(word for word, _ in entries)]
        self.count = [*(1 for _ in _SYMBOLS), *(count for _, count in entries)]
        # a word takes the place of the same word before
        self.indices = {word: number for number, word in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def __getitem__(self, number: int) -> str:
        return self.symbols[number]

    def index(self, word: str) -> int:
        """Return a word's number, or the unknown word's."""
        return self.indices.get(word, _UNKNOWN)

    def pad(self) -> int:
        """Return the number of the padding."""
        return _SYMBOLS.index("<pad>")

    def eos(self) -> int:
        """Return the number of the end symbol."""
        return _SYMBOLS.index("</s>")

    def unk(self) -> int:
        """Return the number of the unknown word."""
        return _UNKNOWN


def read_dictionary(path: Path) -> Dictionary:
    """Read and check one dictionary.

    Raises:
        UserError: as from `checked_lines`; or naming a line that is not a word and a count, or
            repeats a word.
    """
    return Dictionary(str(path), _read_at_once(path) or _read_by_lines(path))


def _read_at_once(path: Path) -> list[tuple[str, int]]:
    """Read a file that has nothing to check line by line, in a fifth of the time; or nothing."""
    text = path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else ""
    entries = _ENTRY.findall(text)
    is_whole = "".join(map("%s %s\n".__mod__, entries)) == text
    is_new = len({*_SYMBOLS, *(word for word, _ in entries)}) == len(_SYMBOLS) + len(entries)
    return [(word, int(count)) for word, count in entries] if is_whole and is_new else []


def _read_by_lines(path: Path) -> list[tuple[str, int]]:
    """Read and check a file; see `read_dictionary`."""
    entries, lines = [], dict.fromkeys(_SYMBOLS, 0)  # the last line of each word
    for number, line in enumerate(checked_lines(path, has_symbols=True), start=1):
        entry = line.rstrip()
        may_repeat = entry.endswith(_OVERWRITE)
        word, _, count = entry.removesuffix(_OVERWRITE).rpartition(" ")
        if not word.strip() or not _COUNT.fullmatch(count):
            raise UserError(
                f"{path}, line {number}: {entry[:60]!r} is not a word and a count; expected "
                "a line such as 'house 12', as fairseq-preprocess writes it"
            )
        if word in lines and not may_repeat:
            first = f"as in line {lines[word]}" if lines[word] else "one of fairseq's symbols"
            raise UserError(
                f"{path}, line {number}: the word {word!r:.60} a second time, {first}; remove "
                "one of the lines, or make the data again with fairseq-preprocess"
            )
        lines[word] = number
        entries.append((word, int(count)))
    return entries


def numbers_of(dictionary: Any, tokens: Iterable[str]) -> list[int]:
    """Return the numbers of the tokens and the end symbol; tokens like symbols are unknown."""
    first, unknown = dictionary.nspecial, dictionary.unk()
    numbers = map(dictionary.index, tokens)
    return [*(n if n >= first else unknown for n in numbers), dictionary.eos()]


def written(dictionary: Any) -> str:
    """Return the text of the file, for this dictionary or fairseq's."""
    first = dictionary.nspecial
    entries = zip(dictionary.symbols[first:], dictionary.count[first:], strict=True)
    return "".join(f"{word} {count}\n" for word, count in entries)


def file_of(dictionary: Any) -> str:
    """Return a dictionary's file as `` (file)``, or nothing if unknown."""
    path = vars(dictionary).get("path")
    return f" ({path})" if path else ""
