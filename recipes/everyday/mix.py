"""Training text of several kinds for an everyday model, beside the pairs of corpus.py.

    python recipes/everyday/mix.py --out DIR --base CORPUS --target fr \
        --translated by-en-fr.en by-fr-en.fr --sentences PREFIX --laws laws.tsv.gz

- pairs of a sentence and a model's translation, of its best ones that nearest to the sentence's own
  (sequence-level interpolation, Kim and Rush 2016; data diversification, Nguyen et al. 2020).
  --translated names what `rnnsearch-translate --nbest N` printed for CORPUS/train.LANGUAGE, in
  files with the suffix of that language, and then for PREFIX.LANGUAGE: other sentences, which join
  with the model's best translation (Sennrich et al. 2016, section 3.2, if they are the target);
- short pairs of --laws, for other words than those of every day;
- copies of these pairs in capitals and with a source in lower case, with a made-up name in place of
  Tom, and two in one line, for names that nobody has met and for longer text.

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
CAPITALS, LOWER_CASE, JOINED = 0.08, 0.02, 0.05  # shares of the pairs
NAME, RENAMED = re.compile(r"\bTom\b"), 0.3  # of the pairs with this name
SYLLABLES = [start + vowel for start in "bcdfgklmnprstvz" for vowel in ("a", "e", "i", "o", "ou")]


def numbers_stay(pair: Pair) -> bool:
    """Tell whether both sides have the same numbers."""
    return len({tuple(sorted(re.findall(r"\d+", side))) for side in pair}) == 1


def translated(base: Path, sentences: Path | None, nbest: Path) -> Iterator[Pair]:
    """Yield sentences with a model's translations, those of the training text nearest by chrF."""
    side, pairs = LANGUAGES.index(nbest.suffix[1:]), read_pairs(base / "train")
    further = read_lines(Path(f"{sentences}{nbest.suffix}")) if sentences else ()
    pairs += [(line, "") if side == 0 else ("", line) for line in further]
    rows = (line.split("\t") for line in read_lines(nbest))  # number, score, text, doubt
    several = [[*group] for _, group in groupby(rows, key=itemgetter(0))]
    worst = sorted(float(best[1]) for best, *_ in several)[len(several) // WORST]
    for pair, group in zip(pairs, several, strict=True):
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
    parser.add_argument("--sentences", type=Path, metavar="PREFIX", help="translated, too")
    parser.add_argument("--laws", type=Path, help="document, English, French; .gz")
    parser.add_argument(
        "--short-laws", type=int, default=60_000, help="pairs (default: %(default)s)"
    )
    parser.add_argument("--news", nargs="*", default=[], metavar="PREFIX")
    options = parser.parse_args()
    pairs, valid, test = (read_pairs(options.base / part) for part in ("train", "valid", "test"))
    held_out, drawn = Sentences(valid + test), random.Random(1)
    documents = read_documents(options.laws).values() if options.laws else ()
    laws = list(dict.fromkeys(filter(is_short, chain.from_iterable(documents))))
    laws = drawn.sample(laws, min(options.short_laws, len(laws)))
    new = chain(
        laws, *(translated(options.base, options.sentences, file) for file in options.translated)
    )
    known = dict.fromkeys(pairs)
    known |= {pair: None for pair in new if numbers_stay(pair) and pair not in held_out}
    news = [pair for prefix in options.news for pair in read_pairs(prefix)]
    options.out.mkdir(parents=True, exist_ok=True)
    train = [*known, *copies(drawn, [*known], 1 - LANGUAGES.index(options.target))]
    drawn.shuffle(train)
    write(options.out, "train", train, options.target)
    write(
        options.out, "valid", valid + drawn.sample(news, min(len(news), len(valid))), options.target
    )
    write(options.out, "test", test, options.target)


def copies(drawn: random.Random, pairs: list[Pair], source: int) -> Iterator[Pair]:
    """Yield altered copies of a share of the pairs."""
    for english, french in share(drawn, pairs, CAPITALS):
        yield english.upper(), french.upper()
    for english, french in share(drawn, pairs, LOWER_CASE):
        yield (english.lower(), french) if source == 0 else (english, french.lower())
    for english, french in share(
        drawn, [pair for pair in pairs if all(map(NAME.search, pair))], RENAMED
    ):
        name = "".join(drawn.choices(SYLLABLES, k=drawn.randint(2, 4))).capitalize()
        yield NAME.sub(name, english), NAME.sub(name, french)
    for first, second in zip(*(share(drawn, pairs, JOINED) for _ in range(2)), strict=True):
        yield f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"


def share(drawn: random.Random, pairs: list[Pair], part: float) -> list[Pair]:
    return drawn.sample(pairs, round(part * len(pairs)))


if __name__ == "__main__":
    main()
