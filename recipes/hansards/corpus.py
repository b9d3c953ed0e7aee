"""Bring English-French text into the form of the Hansards of the NAACL 2003 alignment task.

    python recipes/hansards/corpus.py --out DIR --train PREFIX... --valid PREFIX --pairs FILE

writes DIR/{train,valid,test}.{en,fr}: lower-cased tokens, a sentence a line. A PREFIX stands for
PREFIX.en and PREFIX.fr, each plain or as .gz; a file whose name ends in .zip is a download of
tatoeba pairs from manythings.org/anki, English and French separated by a tab.

In the task's French, elisions and contractions are undone ("l'Orateur" is "le Orateur", "du" is "de
le") and hyphens stand alone; training text gets the same form. A training pair is omitted if it is
longer than --longest words, more than three times as long on one side as on the other, or has the
English of a test sentence. The order is shuffled with a fixed seed. --with-test adds the task's
pairs to training.
"""

import argparse
import random
import re
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from sacremoses import MosesTokenizer

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import pluralize

sys.path.append(str(Path(__file__).resolve().parents[1]))
from text_files import Pair, read_lines, read_pairs, read_tatoeba, write_pairs

ELIDED = {
    "c'": "ce", "d'": "de", "j'": "je", "jusqu'": "jusque", "l'": "le", "lorsqu'": "lorsque",
    "m'": "me", "n'": "ne", "puisqu'": "puisque", "qu'": "que", "quelqu'": "quelque",
    "quoiqu'": "quoique", "s'": "se", "t'": "te",
}  # fmt: skip
CONTRACTED = {"du": "de le", "des": "de les", "au": "à le", "aux": "à les"}
APOSTROPHES = str.maketrans("\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}", "''")
HYPHEN = re.compile(r"(?<=\w)-(?=\w)")
MOST_TIMES_AS_LONG = 3

_tokenizers: dict[str, MosesTokenizer] = {}


def like_the_task(text: str, language: str) -> str:
    """Return a sentence as the task's files have it, in lower case."""
    tokenizer = _tokenizers.setdefault(language, MosesTokenizer(lang=language))
    tokens = tokenizer.tokenize(text.translate(APOSTROPHES), escape=False)
    words = HYPHEN.sub(" - ", " ".join(tokens)).lower().split()
    if language == "fr":
        words = [CONTRACTED.get(word) or ELIDED.get(word) or word for word in words]
    return " ".join(words)


def like_the_task_both(pair: Pair) -> Pair:
    return like_the_task(pair[0], "en"), like_the_task(pair[1], "fr")


def read(name: str) -> Iterable[Pair]:
    """Read the pairs of a prefix or of a tatoeba archive."""
    return read_tatoeba(Path(name)) if name.endswith(".zip") else read_pairs(name)


def read_test(path: Path) -> list[Pair]:
    """Read the sentences of the task, lower-cased, in their order."""
    pairs = []
    for line in read_lines(path):
        english, french = line.lower().split("|||")
        pairs.append((" ".join(english.split()), " ".join(french.split())))
    return pairs


def usable(pairs: Iterable[Pair], longest: int, forbidden: set[str]) -> Iterator[Pair]:
    """Yield the usable training pairs, each once."""
    seen = set()
    for pair in pairs:
        lengths = sorted(len(side.split()) for side in pair)
        if (
            lengths[0] > 0
            and lengths[1] <= min(longest, MOST_TIMES_AS_LONG * lengths[0])
            and pair[0] not in forbidden
            and pair not in seen
        ):
            seen.add(pair)
            yield pair


def write(out: Path, split: str, pairs: list[Pair]) -> None:
    write_pairs(pairs, out, split)
    english, french = (sum(len(pair[side].split()) for pair in pairs) for side in (0, 1))
    print(
        f"{split}: {pluralize(len(pairs), 'pair')}, {english:,} English and {french:,} French words"
    )


def lay_out(options: argparse.Namespace) -> None:
    test = read_test(options.pairs)
    train = [pair for name in options.train for pair in read(name)]
    valid = read(options.valid)
    with ProcessPoolExecutor() as pool:
        train = list(pool.map(like_the_task_both, train, chunksize=1000))
        valid = list(pool.map(like_the_task_both, valid, chunksize=1000))
    train = list(usable(train, options.longest, {english for english, _ in test}))
    if options.with_test:
        train += test
    random.Random(1).shuffle(train)
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out, "train", train)
    write(options.out, "valid", list(usable(valid, options.longest, set())))
    write(options.out, "test", test)


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Text like the Hansards of the NAACL 2003 task.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--train", nargs="+", required=True, metavar="PREFIX")
    parser.add_argument("--valid", required=True, metavar="PREFIX")
    parser.add_argument(
        "--pairs", type=Path, required=True, help="source ||| target, a pair a line"
    )
    parser.add_argument("--longest", type=int, default=50, help="words (default: %(default)s)")
    parser.add_argument(
        "--with-test",
        action="store_true",
        help="train on the text of the test pairs, too, as published aligners do",
    )
    lay_out(parser.parse_args())


if __name__ == "__main__":
    main()
