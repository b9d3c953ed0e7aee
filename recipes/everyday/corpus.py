"""Everyday sentences of Tatoeba in English and French: training, validation and the public test.

    python recipes/everyday/corpus.py --out DIR --archive fra-eng.zip --test PREFIX --target fr

writes DIR/{train,valid,test}.{en,fr}, a sentence a line. The archive is a download from
manythings.org/anki; PREFIX.en and PREFIX.fr, plain or as .gz, are the test set.

Training and validation pairs share no sentence, on either side, with the test set, and training
pairs share none with validation. So one split serves both directions. Sentences that differ only in
case or white space count as equal. Validation gets the pairs of --valid English sentences, drawn
with a fixed seed. White space of the target side, such as the narrow space before a French question
mark, becomes a plain space; the source side keeps what people write.
"""

import argparse
import random
import sys
from collections.abc import Iterable
from pathlib import Path

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError

sys.path.append(str(Path(__file__).resolve().parents[1]))
from text_files import LANGUAGES, Pair, read_pairs, read_tatoeba, write_pairs


def same(sentence: str) -> str:
    """Return the form in which equal sentences agree."""
    return " ".join(sentence.casefold().split())


class Sentences:
    """Sentences that no other part of the corpus may have, on either side."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self._sides = [{same(pair[side]) for pair in pairs} for side in (0, 1)]

    def __contains__(self, pair: Pair) -> bool:
        return any(same(text) in side for text, side in zip(pair, self._sides, strict=True))


def split(
    pairs: list[Pair], test: list[Pair], valid: int
) -> tuple[list[Pair], list[Pair], int, int]:
    """Return training and validation pairs, and how many pairs each rule has left out.

    Raises:
        UserError: fewer than two English sentences for each one of the validation remain.
    """
    tested = Sentences(test)
    free = [pair for pair in dict.fromkeys(pairs) if pair not in tested]
    english = sorted({same(pair[0]) for pair in free})
    if len(english) < 2 * valid:
        raise UserError(f"{len(english)} English sentences are too few to hold {valid} out")
    drawn = set(random.Random(1).sample(english, valid))
    held_out = [pair for pair in free if same(pair[0]) in drawn]
    validated = Sentences(held_out)
    train = [pair for pair in free if pair not in validated]
    return train, held_out, len(pairs) - len(free), len(free) - len(held_out) - len(train)


def write(out: Path, name: str, pairs: list[Pair], target: str) -> None:
    if target == "fr":
        pairs = [(english, " ".join(french.split())) for english, french in pairs]
    else:
        pairs = [(" ".join(english.split()), french) for english, french in pairs]
    write_pairs(pairs, out, name)
    print(f"  {name}: {len(pairs):,} pairs")


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Everyday sentences in English and French.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--archive", type=Path, required=True, help="fra-eng.zip")
    parser.add_argument("--test", required=True, metavar="PREFIX")
    parser.add_argument("--target", choices=LANGUAGES, required=True)
    parser.add_argument("--valid", type=int, default=1000, help="English sentences held out")
    options = parser.parse_args()
    pairs, test = list(read_tatoeba(options.archive)), read_pairs(options.test)
    train, valid, of_test, of_valid = split(pairs, test, options.valid)
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"  left out: {of_test:,} of {len(pairs):,} pairs, which occur twice or have a sentence")
    print(f"    of the test set, and {of_valid:,} with a sentence of the validation pairs")
    write(options.out, "train", train, options.target)
    write(options.out, "valid", valid, options.target)
    write(options.out, "test", test, options.target)


if __name__ == "__main__":
    main()
