"""Parallel text as people keep it: two files, or one of two columns, plain or packed by gzip."""

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from fairseq_rnnsearch.data.corpus import lines_as_they_come
from fairseq_rnnsearch.errors import UserError, counted

Pair = tuple[str, str]

_GZIP = b"\x1f\x8b"
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
    tabs: tuple[list[int], list[int]] = ([], [])  # the numbers of the lines that have one
    sides = _lines(source), _lines(target)
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
        UserError: the file cannot be read, or is no sound text; or most lines have no tab.
    """
    pairs, further, first_without = Pairs(), 0, 0
    for number, line in enumerate(_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            first_without = first_without or number
            pairs.read += 1
            pairs.left_out["no tab"] += 1
            continue
        further += len(columns) > 2
        pairs.add(columns[0], columns[1])
    if 2 * pairs.left_out["no tab"] > pairs.read:
        raise UserError(
            f"{path}, line {first_without}: no tab, as in {pairs.left_out['no tab']:,} of"
            f" {counted(pairs.read, 'line')}; valid is a sentence, a tab, and its translation"
        )
    if further:
        pairs.notes.append(
            f"{path}: {counted(further, 'line')} with more than two columns, of which only two are"
            " read"
        )
    return pairs


def _lines(path: Path) -> Iterator[str]:
    """Yield a file's lines, each after a check.

    Raises:
        UserError: there is no such file, or it is empty, no text in UTF-8 or a broken gzip file.
    """
    lines = 0
    try:
        with path.open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
        with gzip.open(path) if packed else path.open("rb") as file:
            for line in lines_as_they_come(file, str(path)):
                lines += 1
                yield line
    except (OSError, EOFError, zlib.error) as problem:
        reason = getattr(problem, "strerror", None) or f"broken gzip file: {problem}"
        raise UserError(f"{path} cannot be read: {reason}") from problem
    if not lines:
        raise UserError(f"{path} is empty; expected a sentence in each line")
