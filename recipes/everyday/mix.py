"""Training text of several kinds for an everyday model, beside the pairs of corpus.py.

    python recipes/everyday/mix.py --out DIR --base CORPUS --target fr \
        --translated by-en-fr.en by-fr-en.fr --laws laws.tsv.gz

- pairs of a sentence and a model's translation, of its best ones that nearest to the sentence's own
  (sequence-level interpolation, Kim and Rush 2016; data diversification, Nguyen et al. 2020).
  --translated names what `rnnsearch-translate --nbest N` printed for CORPUS/train.LANGUAGE, in
  files with the suffix of that language;
- short pairs of --laws, for other words than those of every day;
- copies of training pairs in capitals, and with a source in lower case.

Translations and laws keep the numbers of their sentences, and no pair has a sentence of validation
or test on either side. CORPUS/valid gets as many pairs of --news, for choices that should not rest
on everyday sentences alone.
"""

import argparse
import random
import re
import sys
from collections.abc import Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

from sacrebleu import sentence_chrf as chrf

from fairseq_rnnsearch.command_line import program

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:2]]
from corpus import Sentences, write
from laws.split import read_documents
from text_files import LANGUAGES, Pair, read_lines, read_pairs

LONGEST = 30  # words of a law, by spaces
WORST = 20  # one in so many translations, those with the lowest scores, is left out
CAPITALS, LOWER_CASE = 0.08, 0.02  # shares of the pairs


def numbers_stay(pair: Pair) -> bool:
    """Tell whether both sides have the same numbers."""
    return len({tuple(sorted(re.findall(r"\d+", side))) for side in pair}) == 1


def translated(base: Path, nbest: Path) -> Iterator[Pair]:
    """Yield sentences of the training text with a model's translations, nearest by chrF."""
    side = LANGUAGES.index(nbest.suffix[1:])
    rows = (line.split("\t") for line in read_lines(nbest))  # number, score, text, doubt
    several = [[*group] for _, group in groupby(rows, key=itemgetter(0))]
    worst = sorted(float(best[1]) for best, *_ in several)[len(several) // WORST]
    for pair, group in zip(read_pairs(base / "train"), several, strict=True):
        text = max((row[2] for row in group), key=lambda text: chrf(text, [pair[1 - side]]).score)
        if text and float(group[0][1]) >= worst:
            yield (pair[0], text) if side == 0 else (text, pair[1])


def is_short(pair: Pair) -> bool:
    return 3 <= max(len(side.split()) for side in pair) <= LONGEST


@program
def main() -> None:
    """Write DIR/{train,valid,test}.{en,fr}."""
    parser = argparse.ArgumentParser(description="Training text of several kinds.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True, metavar="CORPUS")
    parser.add_argument("--target", choices=LANGUAGES, required=True)
    parser.add_argument("--translated", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument("--laws", type=Path, help="document, English, French; .gz")
    parser.add_argument(
        "--short-laws", type=int, default=60_000, help="pairs (default: %(default)s)"
    )
    parser.add_argument("--news", nargs="*", default=[], metavar="PREFIX")
    options = parser.parse_args()
    pairs, valid, test = (read_pairs(options.base / part) for part in ("train", "valid", "test"))
    held_out, drawn = Sentences(valid + test), random.Random(1)
    source = LANGUAGES.index(options.target) - 1  # 0, or -1 for the last
    upper = [(pair[0].upper(), pair[1].upper()) for pair in share(drawn, pairs, CAPITALS)]
    lower = [list(pair) for pair in share(drawn, pairs, LOWER_CASE)]
    for pair in lower:
        pair[source] = pair[source].lower()
    documents = read_documents(options.laws).values() if options.laws else ()
    laws = list(dict.fromkeys(filter(is_short, chain.from_iterable(documents))))
    laws = drawn.sample(laws, min(options.short_laws, len(laws)))
    new = chain(laws, *(translated(options.base, file) for file in options.translated))
    known = dict.fromkeys(pairs)
    known |= {pair: None for pair in new if numbers_stay(pair) and pair not in held_out}
    news = [pair for prefix in options.news for pair in read_pairs(prefix)]
    options.out.mkdir(parents=True, exist_ok=True)
    train = [*known, *upper, *map(tuple, lower)]
    drawn.shuffle(train)
    write(options.out, "train", train, options.target)
    write(
        options.out, "valid", valid + drawn.sample(news, min(len(news), len(valid))), options.target
    )
    write(options.out, "test", test, options.target)


def share(drawn: random.Random, pairs: list[Pair], part: float) -> list[Pair]:
    return drawn.sample(pairs, round(part * len(pairs)))


if __name__ == "__main__":
    main()
