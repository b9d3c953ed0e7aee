"""Parallel text as people keep it: two files, or one of two columns, plain or packed."""

import bz2
import gzip
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedIOBase, BufferedReader
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from fairseq_rnnsearch.errors import UserError, counted
from fairseq_rnnsearch.text.corpus import lines_as_they_come

Pair = tuple[str, str]

_OPENERS: dict[bytes, Callable[[BufferedReader, Literal["rb"]], BufferedIOBase]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
    b"\x5d\x00\x00": lzma.open,  # xz's older kind
}
_MOST_MISTAKES = 100  # one line in this many may be something other than text
_EACH = "each line of the one must translate the same line of the other"


@dataclass
class Pairs:
    """What was read.

    Attributes:
        read: how many pairs the files have.
        kept: source and target of each pair, with one space wherever there was any.
        left_out: how many pairs are not among them, by the reason.
        notes: what else a user should know of the files, in sentences.
    """

    read: int = 0
    kept: list[Pair] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def note_mistakes(self, mistakes: list[UserError]) -> None:
        """Note which lines are not text; their pairs were left out, because a side is empty.

        Raises:
            UserError: the first mistake, where there are too many.
        """
        if len(mistakes) * _MOST_MISTAKES > self.read:
            more = f" (and {counted(len(mistakes) - 1, 'other line')})" if mistakes[1:] else ""
            raise UserError(f"{mistakes[0]}{more}")
        if mistakes:
            are = "is not text, and was" if len(mistakes) == 1 else "are not text, and were"
            self.notes.append(
                f"{counted(len(mistakes), 'line')} {are} left out; the first: {mistakes[0]}"
            )

    def add(self, source: str, target: str) -> None:
        """Keep a pair, unless a side of it is empty."""
        self.read += 1
        pair = " ".join(source.split()), " ".join(target.split())
        if all(pair):
            self.kept.append(pair)
        else:
            self.left_out["an empty side"] += 1


def read_two_files(source: Path, target: Path) -> Pairs:
    """Read two files whose lines translate each other.

    Raises:
        UserError: a file cannot be read or is no sound text; or their numbers of lines differ.
    """
    pairs, paths = Pairs(), (source, target)
    mistakes: list[UserError] = []
    tabs = [0, 0]  # how many lines have one
    sides = _lines(source, mistakes), _lines(target, mistakes)
    for number, lines in enumerate(zip_longest(*sides), start=1):
        if None in lines:
            shorter = lines.index(None)
            total = number + sum(1 for _ in sides[1 - shorter])
            raise UserError(
                f"{paths[shorter]} has {counted(number - 1, 'line')} but {paths[1 - shorter]} has"
                f" {counted(total, 'line')}; {_EACH}"
            )
        for side, line in enumerate(lines):
            tabs[side] += "\t" in line
        pairs.add(*lines)
    pairs.note_mistakes(mistakes)
    for path, lines_with_tabs in zip(paths, tabs, strict=True):
        if lines_with_tabs:
            pairs.notes.append(
                f"{path}: {counted(lines_with_tabs, 'line')} with a tab, which counts as a space"
            )
    return pairs


def read_columns(path: Path) -> Pairs:
    """Read a file whose lines have a source sentence, a tab, and its translation.

    Further columns are left out, such as those in which Tatoeba names its authors.

    Raises:
        UserError: the file cannot be read, or is no sound text; or most lines have no tab.
    """
    pairs, further, first_without = Pairs(), 0, 0
    mistakes: list[UserError] = []
    for number, line in enumerate(_lines(path, mistakes), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            first_without = first_without or number
            pairs.read += 1
            pairs.left_out["no tab"] += 1
            continue
        further += len(columns) > 2
        pairs.add(columns[0], columns[1])
    pairs.note_mistakes(mistakes)
    if 2 * pairs.left_out["no tab"] > pairs.read:
        raise UserError(
            f"{path}, line {first_without}: no tab, as in {pairs.left_out['no tab']:,} of"
            f" {counted(pairs.read, 'line')}; expected a sentence, a tab, and its translation"
        )
    if further:
        pairs.notes.append(
            f"{path}: {counted(further, 'line')} with more than two columns; only the first"
            " two are read"
        )
    return pairs


def _lines(path: Path, mistakes: list[UserError]) -> Iterator[str]:
    """Yield a file's lines, each after a check, and an empty one for each that is no text.

    Raises:
        UserError: there is no such file, or it is a broken packed file.
    """
    try:
        with path.open("rb") as packed:  # once, as a pipe can be read once
            start = packed.peek(5)
            unpack = next((u for magic, u in _OPENERS.items() if start.startswith(magic)), None)
            file = unpack(packed, "rb") if unpack else packed
            yield from lines_as_they_come(file, str(path), True, mistakes)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
        reason = getattr(problem, "strerror", None) or f"broken packed file: {problem}"
        raise UserError(f"{path} cannot be read: {reason}") from problem
