"""Check a parallel corpus and split it into training, validation and test.

If no text is given for the last two, up to 1,000 pairs, and at most one in twenty, are drawn at
random and held out; none of their source sentences remains in training.
"""

import argparse
import random
import sys
from itertools import product
from pathlib import Path
from typing import NamedTuple

from fairseq_rnnsearch.errors import UserError, counted
from fairseq_rnnsearch.train.pairs import Pair, Pairs, read_columns, read_two_files
from fairseq_rnnsearch.train.progress import Text, describe

PARTS = ("train", "valid", "test")
LEAST = 20  # pairs; fewer train nothing
MOST_HELD_OUT, SHARE_HELD_OUT = 1000, 20
MOST_TIMES_AS_LONG = 9  # as in Moses' clean-corpus-n.perl
HELD_OUT = "a source sentence that is held out"


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


def read_corpus(options: argparse.Namespace) -> Pairs:
    """Read the corpus; pairs with an empty side are left out."""
    return (
        read_columns(options.pairs)
        if options.pairs
        else read_two_files(options.source, options.target)
    )


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
                f"{counted(common, 'pair')} of the corpus with a source sentence of {prefix}"
                " remain: scores on it will be too good"
            )
    least = {"train": LEAST, "valid": 1, "test": 1}
    for name, pairs in splits.items():
        if len(pairs) < least[name]:
            where = getattr(options, name, None) or options.pairs or options.source
            raise UserError(
                f"{where}: only {counted(len(pairs), 'usable pair')} for {name}; at least"
                f" {least[name]} needed"
                + (f"; {_reasons(corpus)}" if any(corpus.left_out.values()) else "")
            )
    return splits


def _reasons(pairs: Pairs) -> str:
    reasons = [
        f"{counted(count, 'pair')} with {why}" for why, count in pairs.left_out.items() if count
    ]
    return f"left out: {'; '.join(reasons)}"


def show(corpus: Pairs, splits: dict[str, list[Pair]], texts: dict[str, Text]) -> None:
    """Print what the corpus holds, what is left out and why, and how it is split."""
    say = [f"{counted(corpus.read, 'pair')} read"]
    if any(corpus.left_out.values()):
        say.append(_reasons(corpus))
    say += corpus.notes
    for language, text in texts.items():
        say.append(f"{language}: {counted(text.words, 'word')}")
    say.append(
        ", ".join(f"{name}: {counted(len(pairs), 'pair')}" for name, pairs in splits.items())
    )
    print("\n".join(f"  {line}" for line in say), file=sys.stderr)


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
        options: the files (``pairs``, or ``source`` and ``target``) and the prefixes ``valid`` and
            ``test``.

    Raises:
        UserError: if a file is not such a text, or has too few pairs.
    """
    corpus = read_corpus(options)
    texts = describe(pair[0] for pair in corpus.kept), describe(pair[1] for pair in corpus.kept)
    leave_out_unequal(corpus)
    splits = split(corpus, options, languages, seed)
    show(corpus, splits, dict(zip(languages, texts, strict=True)))
    return Parts(len(corpus.kept), texts, splits)
