"""Check a parallel corpus and part it into training, validation and test.

    python recipes/own_data/split.py --out DIR --source corpus.en --target corpus.fr
        [--valid PREFIX] [--test PREFIX]

writes DIR/{train,valid,test}.{en,fr}. Where no PREFIX is given, up to 1,000 pairs, and at most one
in twenty, are drawn at random and held out; no source sentence of them remains in training.
"""

import argparse
import random
from pathlib import Path

from fairseq_rnnsearch.data.corpus import check_parallel
from fairseq_rnnsearch.errors import UserError, install_excepthook

MOST_HELD_OUT, SHARE_HELD_OUT = 1000, 20


def read_pairs(source: Path, target: Path) -> list[tuple[str, str]]:
    """Check two files and read their pairs; those with an empty side are left out."""
    check_parallel(source, target)
    with source.open(encoding="utf-8") as first, target.open(encoding="utf-8") as second:
        pairs = [
            tuple(" ".join(line.split()) for line in pair)
            for pair in zip(first, second, strict=True)
        ]
    return [pair for pair in pairs if all(pair)]


def hold_out(
    pairs: list[tuple[str, str]], draw: random.Random
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Hold some pairs out; return what remains, and what is held out."""
    count = min(MOST_HELD_OUT, max(1, len(pairs) // SHARE_HELD_OUT))
    held_out = draw.sample(sorted(set(pairs)), min(count, len(set(pairs)) - 1))
    sources = {source for source, _ in held_out}
    return [pair for pair in pairs if pair[0] not in sources], held_out


def main() -> None:
    install_excepthook()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--valid")
    parser.add_argument("--test")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    suffixes = options.source.suffix, options.target.suffix
    draw = random.Random(options.seed)
    splits = {"train": read_pairs(options.source, options.target)}
    for split in ("valid", "test"):
        if prefix := getattr(options, split):
            splits[split] = read_pairs(*(Path(prefix + suffix) for suffix in suffixes))
        else:
            splits["train"], splits[split] = hold_out(splits["train"], draw)
    if not all(splits.values()):
        raise UserError(f"{options.source}: too few pairs to train, validate and test on")
    options.out.mkdir(parents=True)
    for split, pairs in splits.items():
        print(f"{split}: {len(pairs)} pairs")
        for side, suffix in enumerate(suffixes):
            text = "".join(pair[side] + "\n" for pair in pairs)
            (options.out / (split + suffix)).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
