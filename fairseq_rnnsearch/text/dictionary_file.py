"""A dictionary's file, ``dict.en.txt``: one word and its count per line, most frequent first.

fairseq takes a byte order mark for a part of the first word, and crashes unintelligibly on other
mistakes. ``#fairseq:overwrite`` after a count, which allows a repeated word, is accepted.
"""

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.corpus import checked_lines

_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
_UNKNOWN = _SYMBOLS.index("<unk>")
_ENTRY = re.compile(r"([^\s\0]+) ([0-9]{1,18})\n")
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

    def __init__(self, path: str = "") -> None:
        self.symbols: list[str] = []
        self.count: list[int] = []
        self.indices: dict[str, int] = {}
        self.path = path
        for symbol in _SYMBOLS:
            self.add(symbol, 1)
        self.nspecial = len(_SYMBOLS)

    def add(self, word: str, count: int) -> None:
        """Add a word; it takes the place of the same word before."""
        self.indices[word] = len(self.symbols)
        self.symbols.append(word)
        self.count.append(count)

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
    dictionary = Dictionary(str(path))
    if _read_at_once(path, dictionary):
        return dictionary
    for number, line in enumerate(checked_lines(path, has_symbols=True), start=1):
        entry = line.rstrip()
        may_repeat = entry.endswith(_OVERWRITE)
        word, _, count = entry.removesuffix(_OVERWRITE).rpartition(" ")
        if not word.strip() or not _COUNT.fullmatch(count):
            raise UserError(
                f"{path}, line {number}: {entry[:60]!r} is not a word and a count; expected "
                "a line such as 'house 12', as fairseq-preprocess writes it"
            )
        if word in dictionary.indices and not may_repeat:
            before = dictionary.indices[word] - dictionary.nspecial + 1
            first = f"as in line {before}" if before > 0 else "one of fairseq's symbols"
            raise UserError(
                f"{path}, line {number}: the word {word!r:.60} a second time, {first}; remove "
                "one of the lines, or make the data again with fairseq-preprocess"
            )
        dictionary.add(word, int(count))
    return dictionary


def _read_at_once(path: Path, dictionary: Dictionary) -> bool:
    """Read a file that has nothing to check line by line, in a fifth of the time."""
    with contextlib.suppress(OSError, UnicodeDecodeError):  # which reading by lines explains
        text = path.read_bytes().decode("utf-8")
        entries = _ENTRY.findall(text)
        words = [*dictionary.symbols, *(word for word, _ in entries)]
        numbers = {word: number for number, word in enumerate(words)}
        is_whole = sum(len(word) + len(count) + 2 for word, count in entries) == len(text)
        if entries and is_whole and len(numbers) == len(words) and not text.startswith("\ufeff"):
            dictionary.symbols, dictionary.indices = words, numbers
            dictionary.count += [int(count) for _, count in entries]
            return True
    return False


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
