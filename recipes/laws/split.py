"""Split a corpus into training, validation and test by document.

    python recipes/laws/split.py laws.tsv.gz --out FOLDER

reads lines of document, English and French, separated by tabs, and writes
FOLDER/{train,valid,test,long}.{en,fr}, which share no document. The seed decides the order of the
documents; validation and the two test sets take them until they have enough. Documents of more than
--largest pairs go to training, so that no single law makes a test set. A pair is held out once, and
only if neither side occurs in another document. `long` has pairs of more than 40 English words,
from other documents than `test`.
"""

import argparse
import gzip
import random
import sys
import zlib
from collections import defaultdict
from pathlib import Path

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError, pluralize

sys.path.append(str(Path(__file__).resolve().parents[1]))
from text_files import Pair, write_pairs

LONG = 40  # English words, by spaces


def read_documents(path: Path) -> dict[str, list[Pair]]:
    """Read the pairs of each document, in their order."""
    documents = defaultdict(list)
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                columns = line.rstrip("\n").split("\t")
                if len(columns) != 3:
                    raise UserError(
                        f"{path}, line {number}: must be document, English and French, separated"
                        f" by tabs; has {pluralize(len(columns), 'column')}"
                    )
                documents[columns[0]].append((columns[1], columns[2]))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as problem:
        raise UserError(f"cannot read {path}: {problem}") from problem
    return documents


def is_long(pair: Pair) -> bool:
    return len(pair[0].split()) > LONG


def part(
    documents: dict[str, list[Pair]], sizes: dict[str, int], largest: int, seed: int
) -> dict[str, list[Pair]]:
    """Split the pairs by document.

    Args:
        documents: pairs of each document.
        sizes: how many pairs `valid`, `test` and `long` are to have.
        largest: the most pairs of a document that may be held out.
        seed: of the order in which documents are drawn.

    Raises:
        UserError: there are too few pairs.
    """
    names = sorted(documents)
    random.Random(seed).shuffle(names)
    # Sentences of documents that are never held out cannot be test sentences.
    always = [name for name in names if len(documents[name]) > largest]
    drawn = [name for name in names if len(documents[name]) <= largest]
    where = defaultdict(set)
    for name, pairs in documents.items():
        for pair in pairs:
            for side in enumerate(pair):
                where[side].add(name)

    parts: dict[str, list[Pair]] = {}
    held_out: set[str] = set()
    for split, size in sizes.items():
        kept: dict[Pair, None] = {}
        while len(kept) < size:
            if not drawn:
                raise UserError(f"{split}: only {pluralize(len(kept), 'pair')}, should be {size:,}")
            name = drawn.pop()
            held_out.add(name)
            kept.update(
                (pair, None)
                for pair in documents[name]
                if all(where[side] == {name} for side in enumerate(pair))
                and (split != "long" or is_long(pair))
            )
        parts[split] = list(kept)[:size]
    parts["train"] = [pair for name in always + drawn for pair in documents[name]]
    random.Random(seed).shuffle(parts["train"])
    return parts


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Split a corpus by document.")
    parser.add_argument("laws", type=Path, help="document, English, French; .gz")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--valid", type=int, default=3000, help="pairs (default: %(default)s)")
    parser.add_argument("--test", type=int, default=3000, help="pairs (default: %(default)s)")
    parser.add_argument("--long", type=int, default=1000, help="pairs (default: %(default)s)")
    parser.add_argument("--largest", type=int, default=500, help="pairs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sizes = {"valid": options.valid, "test": options.test, "long": options.long}
    parts = part(read_documents(options.laws), sizes, options.largest, options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    for split, pairs in parts.items():
        write_pairs(pairs, options.out, split)
        print(f"{split}: {pluralize(len(pairs), 'pair')}")


if __name__ == "__main__":
    main()
