"""Read parallel text, check it, and split it into training, validation and test.

It is two files, or one of two columns, plain or packed. If no text is given for validation or test,
up to 1,000 pairs, and at most one in twenty, are drawn at random and held out; none of their source
sentences remains in training.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import NamedTuple

from fairseq_rnnsearch.errors import UserError, as_text, pluralize
from fairseq_rnnsearch.text.corpus import in_parallel, lines_as_they_come, opened
from fairseq_rnnsearch.text.lengths import warning_of
from fairseq_rnnsearch.text.tables import rows_of
from fairseq_rnnsearch.train.progress import Text, describe

Pair = tuple[str, str]

_MOST_MISTAKES = 100  # one line in this many may be something other than text
PARTS = ("train", "valid", "test")
LEAST = 20  # pairs; fewer train nothing
MOST_HELD_OUT, SHARE_HELD_OUT = 1000, 20
MOST_TIMES_AS_LONG = 9  # as in Moses' clean-corpus-n.perl
HELD_OUT = "a source sentence that is held out"


@dataclass
class Pairs:
    """What was read.

    Attributes:
        kept: source and target of each pair, with one space wherever there was any.
        left_out: how many pairs are not among them, by the reason.
        notes: further remarks about the files, as sentences.
        lengths: of the source and the target of each pair that was read, in characters.
    """

    kept: list[Pair] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    lengths: list[tuple[int, int]] = field(default_factory=list)

    @property
    def read(self) -> int:
        """How many pairs the files have."""
        return len(self.lengths)

    def note_faults(self, name: str, mistakes: list[UserError]) -> None:
        """Record which lines are not text, and where lines have slid.

        Pairs with a line that is no text were left out because one side is empty.

        Args:
            name: what messages call the text.

        Raises:
            UserError: the first mistake, where there are too many.
        """
        if len(mistakes) * _MOST_MISTAKES > self.read:
            more = f" (and {pluralize(len(mistakes) - 1, 'other line')})" if mistakes[1:] else ""
            raise UserError(f"{mistakes[0]}{more}")
        if mistakes:
            lines = pluralize(len(mistakes), "line")
            self.notes.append(f"left out, as no text: {lines}; the first: {mistakes[0]}")
        if warning := warning_of(name, self.lengths):
            self.notes.append(warning)

    def add(self, source: str, target: str) -> None:
        """Keep a pair, unless a side of it is empty."""
        pair = " ".join(source.split()), " ".join(target.split())
        self.lengths.append((len(pair[0]), len(pair[1])))
        if all(pair):
            self.kept.append(pair)
        else:
            self.left_out["an empty side"] += 1


def read_two_files(source: Path, target: Path) -> Pairs:
    """Read two files whose lines translate each other.

    Raises:
        UserError: a file cannot be read or is no sound text; or their numbers of lines differ.
    """
    pairs, mistakes = Pairs(), []
    sides = _lines(source, mistakes), _lines(target, mistakes)
    for lines in in_parallel((source, target), *sides):
        pairs.add(*lines)
    pairs.note_faults(f"{source} and {target}", mistakes)
    return pairs


def read_columns(path: Path) -> Pairs:
    """Read a file whose lines have a source sentence, a tab, and its translation.

    Further columns are left out, such as those in which Tatoeba names its authors.

    Raises:
        UserError: the file cannot be read, or is no sound text; or most lines have no tab.
    """
    pairs, mistakes, further = Pairs(), [], []
    for columns in rows_of(path, True, mistakes, pairs.notes):
        if len(columns) < 2:
            pairs.lengths.append((0, 0))
            pairs.left_out["no tab"] += 1
            continue
        further += [columns] * (len(columns) > 2)
        pairs.add(columns[0], columns[1])
    pairs.note_faults(str(path), mistakes)
    if further:
        pairs.notes.append(
            f"{path}: {pluralize(len(further), 'line')} with more than two columns; only the first"
            f" two are read, such as {as_text(further[0][0], 40)!r} and"
            f" {as_text(further[0][1], 40)!r}"
        )
    return pairs


def _lines(path: Path, mistakes: list[UserError]) -> Iterator[str]:
    """Yield a file's lines, each after a check, and an empty one for each that is no text.

    Raises:
        UserError: there is no such file, or it is a broken packed file.
    """
    with opened(path) as file:
        yield from lines_as_they_come(file, str(path), True, mistakes)


# --- splitting ----------------------------------------------------------------------------------


class Parts(NamedTuple):
    """A corpus in parts.

    Attributes:
        pairs: how many there are to divide, or to train with if the user gave the other parts.
        texts: what was counted in the source and the target.
        splits: the pairs of ``train``, ``valid`` and ``test``.
    """

    pairs: int
    texts: tuple[Text, Text]
    splits: dict[str, list[Pair]]


def leave_out_unequal(corpus: Pairs) -> None:
    """Leave out pairs with one side much longer, in words and in characters.

    A word and its phonemes, separated by spaces, have about as many characters.
    """

    def is_equal(pair: Pair) -> bool:
        in_words = [len(side.split()) for side in pair]
        return any(
            max(lengths) <= MOST_TIMES_AS_LONG * min(lengths)
            for lengths in (in_words, list(map(len, pair)))
        )

    equal = [pair for pair in corpus.kept if is_equal(pair)]
    reason = f"one side more than {MOST_TIMES_AS_LONG} times as long as the other"
    corpus.left_out[reason] += len(corpus.kept) - len(equal)
    corpus.kept = equal


def file_of(prefix: str, language: str) -> Path:
    """Return the file PREFIX.fr, or PREFIX.fr.txt, which may be compressed; also PREFIX.pt-BR.

    Raises:
        UserError: there is none.
    """
    names = language, language.replace("_", "-")
    for name, end, packed in product(names, ("", ".txt"), ("", ".gz", ".bz2", ".xz")):
        if (path := Path(f"{prefix}.{name}{end}{packed}")).is_file():
            return path
    raise UserError(f"there is no file {prefix}.{language}")


def hold_out(pairs: list[Pair], draw: random.Random) -> tuple[list[Pair], list[Pair]]:
    """Hold some pairs out; return what remains, and what is held out."""
    distinct = sorted(set(pairs))
    count = min(MOST_HELD_OUT, max(1, len(distinct) // SHARE_HELD_OUT), len(distinct) - 1)
    held_out = draw.sample(distinct, max(count, 0))
    sources = {source for source, _ in held_out}
    return [pair for pair in pairs if pair[0] not in sources], held_out


def split(
    corpus: Pairs, options: argparse.Namespace, languages: tuple[str, str], seed: int
) -> dict[str, list[Pair]]:
    """Split a corpus, or read the parts that are given.

    Raises:
        UserError: a part would have too few pairs.
    """
    draw = random.Random(seed)
    splits = {"train": corpus.kept}
    for name, prefix in (("valid", options.valid), ("test", options.test)):
        if not prefix:
            before = len(splits["train"])
            splits["train"], splits[name] = hold_out(splits["train"], draw)
            lost = before - len(splits["train"]) - len(splits[name])
            corpus.left_out[HELD_OUT] += lost
            continue
        given = read_two_files(*(file_of(prefix, language) for language in languages))
        splits[name] = given.kept
        sources = {source for source, _ in given.kept}
        common = sum(source in sources for source, _ in corpus.kept)
        corpus.notes += given.notes
        if given.left_out:
            corpus.notes.append(f"{prefix}: {_reasons(given)}")
        if common:
            corpus.notes.append(
                f"{pluralize(common, 'pair')} of the corpus with a source sentence of {prefix}"
                " remain: scores on it will be too good"
            )
    least = {"train": LEAST, "valid": 1, "test": 1}
    for name, pairs in splits.items():
        if len(pairs) < least[name]:
            where = getattr(options, name, None) or options.pairs or options.source
            raise UserError(
                f"{where}: only {pluralize(len(pairs), 'usable pair')} for {name}; at least"
                f" {least[name]} needed"
                + (f"; {_reasons(corpus)}" if any(corpus.left_out.values()) else "")
            )
    return splits


def _reasons(pairs: Pairs) -> str:
    reasons = [
        f"{pluralize(count, 'pair')} with {why}" for why, count in pairs.left_out.items() if count
    ]
    return f"left out: {'; '.join(reasons)}"


def show(corpus: Pairs, splits: dict[str, list[Pair]], texts: dict[str, Text]) -> None:
    """Print what the corpus holds, what is left out and why, and how it is split."""
    parts = (f"{name}: {pluralize(len(pairs), 'pair')}" for name, pairs in splits.items())
    lines = [
        f"{pluralize(corpus.read, 'pair')} read",
        *([_reasons(corpus)] if any(corpus.left_out.values()) else []),
        *corpus.notes,
        *(f"{language}: {pluralize(text.words, 'word')}" for language, text in texts.items()),
        ", ".join(parts),
    ]
    print(*(f"  {line}" for line in lines), sep="\n", file=sys.stderr)


def write_parts(parts: Parts, languages: tuple[str, str], out: Path) -> None:
    """Write ``out/{train,valid,test}.LANGUAGE``."""
    out.mkdir()
    for name, pairs in parts.splits.items():
        for side, language in enumerate(languages):
            text = "".join(pair[side] + "\n" for pair in pairs)
            (out / f"{name}.{language}").write_text(text, encoding="utf-8", newline="\n")


def read_parts(options: argparse.Namespace, languages: tuple[str, str], seed: int) -> Parts:
    """Read and split a corpus, and print what it holds.

    Args:
        options: the files (``pairs``, or ``source`` and ``target``), the prefixes ``valid`` and
            ``test``, and ``mix``, a file of pairs for training alone.

    Raises:
        UserError: if a file is not such a text, or has too few pairs.
    """
    files = options.source, options.target
    corpus = read_columns(options.pairs) if options.pairs else read_two_files(*files)
    mixed = read_columns(options.mix).kept if options.mix else []
    read = [*corpus.kept, *mixed]
    texts = describe(pair[0] for pair in read), describe(pair[1] for pair in read)
    leave_out_unequal(corpus)
    splits = split(corpus, options, languages, seed)
    splits["train"] = [*splits["train"], *mixed]
    show(corpus, splits, dict(zip(languages, texts, strict=True)))
    return Parts(len(corpus.kept) + len(mixed), texts, splits)
