"""Check a parallel corpus and part it into training, validation and test.

    python recipes/own_data/split.py --source corpus.en --target corpus.fr --languages en,fr
        [--valid PREFIX] [--test PREFIX] [--out DIR]
    python recipes/own_data/split.py --pairs corpus.tsv --languages en,fr ...

says what the files hold and what is left out, and writes DIR/{train,valid,test}.{en,fr}. Where no
PREFIX is given, up to 1,000 pairs, and at most one in twenty, are drawn at random and held out; no
source sentence of them remains in training. Without --out nothing is written but, on standard
output, the facts on which the size of a model depends, as NAME=NUMBER.
"""

import argparse
import random
import sys
from pathlib import Path

from pairs import Pair, Pairs, read_columns, read_two_files
from writing_systems import Text, describe

from fairseq_rnnsearch.errors import UserError, counted, program

LEAST = 20  # pairs; fewer train nothing
MOST_HELD_OUT, SHARE_HELD_OUT = 1000, 20
MOST_TIMES_AS_LONG = 9  # as in Moses' clean-corpus-n.perl
HELD_OUT = "a source sentence that is held out"


def read_corpus(options: argparse.Namespace) -> Pairs:
    """Read the corpus; pairs with an empty side are left out."""
    corpus = (
        read_columns(options.pairs)
        if options.pairs
        else read_two_files(options.source, options.target)
    )
    repeated = len(corpus.kept) - len(set(corpus.kept))
    if repeated:
        corpus.notes.append(f"{counted(repeated, 'pair')} occurred before, and stay")
    same = sum(source == target for source, target in corpus.kept)
    if 0 < same == len(corpus.kept):
        raise UserError(
            f"{options.pairs or options.source}: source and target are the same text in all pairs"
        )
    if 2 * same > len(corpus.kept):
        corpus.notes.append(f"source and target are the same in {counted(same, 'pair')}")
    return corpus


def leave_out_unequal(corpus: Pairs, texts: tuple[Text, Text]) -> None:
    """Leave out the pairs of which one side is much longer; its words, or its characters, count."""
    units = [len if text.unspaced else lambda side: len(side.split()) for text in texts]

    def is_equal(pair: Pair) -> bool:
        shorter, longer = sorted(count(side) for count, side in zip(units, pair, strict=True))
        return longer <= MOST_TIMES_AS_LONG * shorter

    kept = [pair for pair in corpus.kept if is_equal(pair)]
    reason = f"one side more than {MOST_TIMES_AS_LONG} times as long as the other"
    corpus.left_out[reason] += len(corpus.kept) - len(kept)
    corpus.kept = kept


def read_prefix(prefix: str, languages: list[str]) -> Pairs:
    """Read PREFIX.en and PREFIX.fr, each of which may have .gz at its end.

    A language of which ``-`` became ``_`` may have either in its file's name.
    """
    files = []
    for language in languages:
        names = [f"{prefix}.{name}" for name in (language, language.replace("_", "-"))]
        found = [Path(f"{name}{end}") for name in names for end in ("", ".gz")]
        files.append(next((file for file in found if file.exists()), found[0]))
    return read_two_files(*files)


def hold_out(pairs: list[Pair], draw: random.Random) -> tuple[list[Pair], list[Pair]]:
    """Hold some pairs out; return what remains, and what is held out."""
    distinct = sorted(set(pairs))
    count = min(MOST_HELD_OUT, max(1, len(pairs) // SHARE_HELD_OUT), len(distinct) - 1)
    held_out = draw.sample(distinct, max(count, 0))
    sources = {source for source, _ in held_out}
    return [pair for pair in pairs if pair[0] not in sources], held_out


def split(corpus: Pairs, options: argparse.Namespace) -> dict[str, list[Pair]]:
    """Part a corpus, or read the parts that are given.

    Raises:
        UserError: a part would have no pair.
    """
    draw = random.Random(options.seed)
    splits = {"train": corpus.kept}
    for name, prefix in (("valid", options.valid), ("test", options.test)):
        if not prefix:
            before = len(splits["train"])
            splits["train"], splits[name] = hold_out(splits["train"], draw)
            lost = before - len(splits["train"]) - len(splits[name])
            corpus.left_out[HELD_OUT] += max(lost, 0)
            continue
        given = read_prefix(prefix, options.languages)
        splits[name] = given.kept
        sources = {source for source, _ in given.kept}
        common = sum(source in sources for source, _ in corpus.kept)
        corpus.notes += given.notes
        if given.left_out:
            corpus.notes.append(f"{prefix}: {_reasons(given)}")
        if common:
            corpus.notes.append(
                f"{counted(common, 'pair')} of the corpus with a source sentence of {prefix}"
            )
    if not all(splits.values()) or len(splits["train"]) < LEAST:
        raise UserError(
            f"{options.pairs or options.source}: {counted(len(corpus.kept), 'pair')} that can be"
            " used are too few to train, validate and test on"
        )
    return splits


def _reasons(pairs: Pairs) -> str:
    reasons = [
        f"{counted(count, 'pair')} with {why}" for why, count in pairs.left_out.items() if count
    ]
    return f"left out: {'; '.join(reasons)}"


def show(corpus: Pairs, splits: dict[str, list[Pair]], texts: dict[str, Text]) -> None:
    """Say what the corpus holds, what is left out of it and why, and how it is parted."""
    say = [f"{counted(corpus.read, 'pair')} read"]
    if any(corpus.left_out.values()):
        say.append(_reasons(corpus))
    say += corpus.notes
    for language, text in texts.items():
        say.append(f"{language}: {counted(text.words, 'word')}")
        if text.unspaced:
            say[-1] = f"{language}: {counted(text.characters, 'character')}, each of them a token,"
            say[-1] += " because there are no spaces between words"
    say.append(
        ", ".join(f"{name}: {counted(len(pairs), 'pair')}" for name, pairs in splits.items())
    )
    print("\n".join(f"  {line}" for line in say), file=sys.stderr)


def print_facts(corpus: Pairs, splits: dict[str, list[Pair]], texts: dict[str, Text]) -> None:
    print(f"PAIRS={len(corpus.kept)}")
    print(f"TRAIN_PAIRS={len(splits['train'])}")
    print(f"TEST_PAIRS={len(splits['test'])}")
    for side, text in zip(("SOURCE", "TARGET"), texts.values(), strict=True):
        for name, value in vars(text).items():
            print(f"{side}_{name.upper()}={int(value)}")


def write(out: Path, splits: dict[str, list[Pair]], languages: list[str]) -> None:
    out.mkdir(parents=True)
    for name, pairs in splits.items():
        for side, language in enumerate(languages):
            text = "".join(pair[side] + "\n" for pair in pairs)
            (out / f"{name}.{language}").write_text(text, encoding="utf-8", newline="\n")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--pairs", type=Path, help="source, a tab and target in each line")
    parser.add_argument("--languages", help="such as en,fr")
    parser.add_argument("--valid", metavar="PREFIX")
    parser.add_argument("--test", metavar="PREFIX")
    parser.add_argument("--out", type=Path, metavar="DIR")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if bool(options.pairs) == bool(options.source and options.target):
        parser.error("give --source and --target, or --pairs")
    if options.languages:
        options.languages = options.languages.split(",")
    else:
        parser.error("--languages must name both, such as en,fr")
    return options


@program
def main() -> None:
    options = read_options()
    corpus = read_corpus(options)
    texts = tuple(describe(pair[side] for pair in corpus.kept) for side in (0, 1))
    leave_out_unequal(corpus, texts)
    splits = split(corpus, options)
    if options.out:
        write(options.out, splits, options.languages)
        return
    of_languages = dict(zip(options.languages, texts, strict=True))
    show(corpus, splits, of_languages)
    print_facts(corpus, splits, of_languages)


if __name__ == "__main__":
    main()
