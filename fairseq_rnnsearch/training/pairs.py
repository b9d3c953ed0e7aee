"""Parallel text as people keep it: two files, or one of two columns, plain or packed."""

import bz2
import gzip
import lzma
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedIOBase, BufferedReader
from itertools import product, zip_longest
from pathlib import Path
from typing import Literal

from fairseq_rnnsearch.data.corpus import lines_as_they_come
from fairseq_rnnsearch.errors import UserError, as_text, counted

Pair = tuple[str, str]

_OPENERS: dict[bytes, Callable[[BufferedReader, Literal["rb"]], BufferedIOBase]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
    b"\x5d\x00\x00": lzma.open,  # xz's older kind
}
_MOST_TIMES = 100  # text shrinks to a tenth; what unpacks to more than this is not text
_MOST_MISTAKES = 100  # one line in this many may be something other than text
_NUMBER = re.compile(r"[-+\d.,:%#\s]+")
_NAME = re.compile(
    r"\S*[\d_/]\S*|[a-z]{2,3}(?:-[a-zA-Z]+)*"
)  # of a sentence, an address or a language
# What other programs leave in text that they have prepared: SentencePiece, GPT-2's and BERT's
# tokenisers, subword-nmt, OpenNMT, Moses and web pages; or spaces before full stops.
_PREPARED = re.compile(
    r"▁|Ġ|(?:^| )##\w|@@(?: |$)|￭|@-@|&(?:apos|quot|amp|lt|gt|nbsp|#\d+);|[^\W\d] [.,](?: |$)"
)
_QUOTED = re.compile(r'"(?:[^"]|"")*"')  # a field of a spreadsheet
_HEADING = re.compile(
    r"source|target|src|tgt|trg|text|sentence|translation|english|[a-z]{2,3}", re.I
)
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

    def note_preparation(self, name: str) -> None:
        """Note that text looks as if another program had prepared it, where one in ten does."""
        for side in (0, 1):
            prepared = [pair[side] for pair in self.kept if _PREPARED.search(pair[side])]
            if 10 * len(prepared) > len(self.kept):
                self.notes.append(
                    f"{name}: {counted(len(prepared), 'pair')} look prepared already, such as"
                    f" {as_text(prepared[0], 40)!r}: give the text as it was written, or the"
                    " tokenizer space and, for subwords, the vocabulary shortlist"
                )
                return

    def note_table(self, name: str) -> None:
        """Note what a table adds to sentences: headings, and quotation marks around fields."""
        if self.kept and all(map(_HEADING.fullmatch, self.kept[0])):
            self.notes.append(
                f"{name}: the first pair, {' and '.join(self.kept[0])}, looks like the headings of"
                " a table: remove it, or it is trained on"
            )
        quoted = [pair for pair in self.kept if all(map(_QUOTED.fullmatch, pair))]
        if 10 * len(quoted) > len(self.kept):
            self.notes.append(
                f"{name}: {counted(len(quoted), 'pair')} with quotation marks around both sides,"
                f" such as {as_text(quoted[0][0], 40)}: remove them, or they are trained on"
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
        UserError: a file cannot be read or is no sound text; their numbers of lines differ; or most
            lines of one have a tab, as those of a file of pairs have.
    """
    pairs, paths = Pairs(), (source, target)
    mistakes: list[UserError] = []
    tabs: tuple[list[int], list[int]] = ([], [])  # the numbers of the lines that have one
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
            if "\t" in line:
                tabs[side].append(number)
        pairs.add(*lines)
    pairs.note_mistakes(mistakes)
    pairs.note_preparation(str(source))
    for path, numbers in zip(paths, tabs, strict=True):
        if 2 * len(numbers) > pairs.read:
            raise UserError(
                f"{path}: {len(numbers):,} of its {counted(pairs.read, 'line')} have a tab; a file"
                f" of two columns is given by --pairs {path} --languages en,fr, and in a file of"
                " one language tabs must be removed"
            )
        if numbers:
            pairs.notes.append(
                f"{path}: {counted(len(numbers), 'line')} with a tab, which counts as a space;"
                f" the first is line {numbers[0]}"
            )
    return pairs


def read_columns(path: Path) -> Pairs:
    """Read a file whose lines have a source sentence, a tab, and its translation.

    Further columns are left out, such as those in which Tatoeba names its authors.

    Raises:
        UserError: the file cannot be read, or is no sound text; most lines have no tab; or a
            column has numbers.
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
    pairs.note_preparation(str(path))
    pairs.note_table(str(path))
    if 2 * pairs.left_out["no tab"] > pairs.read:
        raise UserError(
            f"{path}, line {first_without}: no tab, as in {pairs.left_out['no tab']:,} of"
            f" {counted(pairs.read, 'line')}; expected a sentence, a tab, and its translation"
        )
    wrong = {"numbers": _NUMBER}
    if 2 * further > pairs.read:  # the wrong two may come first
        wrong["names"] = _NAME
    for column, (kind, pattern) in product((0, 1), wrong.items()):
        alike = [pair[column] for pair in pairs.kept if pattern.fullmatch(pair[column])]
        if 2 * len(alike) > len(pairs.kept):
            raise UserError(
                f"{path}: column {column + 1} has {kind} ({alike[0][:40]}) in {len(alike):,} of"
                f" {counted(len(pairs.kept), 'line')}; the first two columns must be a sentence"
                " and its translation"
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
        UserError: there is no such file, or it is empty, a zip archive or a broken packed file.
    """
    lines = size = 0
    try:
        with path.open("rb") as packed:  # once, as a pipe can be read once
            start = packed.peek(5)
            unpack = next((u for magic, u in _OPENERS.items() if start.startswith(magic)), None)
            most = _MOST_TIMES * max(path.stat().st_size, 1 << 20) if unpack else math.inf
            file = unpack(packed, "rb") if unpack else packed
            for line in lines_as_they_come(file, str(path), True, mistakes):
                lines += 1
                size += len(line)
                if size > most:
                    raise UserError(f"{path} unpacks to more than {_MOST_TIMES} times its size")
                yield line
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
        reason = getattr(problem, "strerror", None) or f"broken packed file: {problem}"
        raise UserError(f"{path} cannot be read: {reason}") from problem
    if not lines:
        raise UserError(f"{path} is empty; expected a sentence in each line")
