"""`dictionary`, `replace-unk` and `no-unk`: handle words that the model does not know.

Luong et al. (2015) and Jean et al. (2015, section 3.3) replace each UNK by a dictionary's
translation of the source word it is aligned to, or by that word itself. Here the links are
RNNsearch's own: each target word is linked to the source word of most weight.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import compress
from pathlib import Path

from fairseq_rnnsearch.align.links import Link, read_links
from fairseq_rnnsearch.command_line import parser_of, program
from fairseq_rnnsearch.figures import Alignment, read_alignments
from fairseq_rnnsearch.files import write_text
from fairseq_rnnsearch.text.coverage import UNKNOWN, replace_unknown

sys.path.append(str(Path(__file__).resolve().parents[1]))
from reporting.sentences import known_sentences, read_as_many, read_known_words, read_sentences


def learn_dictionary(
    source: Iterable[str],
    target: Iterable[str],
    links: Iterable[frozenset[Link]],
    fewest: int = 2,
) -> dict[str, str]:
    """Return the translation of each source word, by the Dice coefficient of its links.

    The coefficient is 2 c(s, t) / (c(s) + c(t)), where c counts links: a frequent target word,
    which is linked to many source words, is not taken for the translation of each.

    Args:
        source, target: tokenised sentences.
        links: the links of each pair, source and target word from 0.
        fewest: the number of times that two words must be linked.

    Returns:
        Source words in alphabetical order. If translations are equally good, the most frequent one,
        then the first in alphabetical order.
    """
    together = Counter(
        (here[i], there[j])
        for here, there, pairs in zip(
            map(str.split, source), map(str.split, target), links, strict=True
        )
        for i, j in pairs
    )
    of_source, of_target = Counter(), Counter()
    for (s, t), count in together.items():
        of_source[s] += count
        of_target[t] += count
    best: dict[str, tuple] = {}
    for (s, t), count in together.items():
        if count >= fewest:
            dice = 2 * count / (of_source[s] + of_target[t])
            best[s] = min(best.get(s, (0,)), (-dice, -count, t))
    return {s: best[s][-1] for s in sorted(best)}


def without_unknown(
    translation: str, alignment: Alignment, source: str, translations: Mapping[str, str]
) -> str:
    """Return a translation without ``<unk>``; the alignment may lack words that its model did."""
    words, sources = translation.split(), source.split()
    looked_at = [sources[i] for i, _ in alignment.links()] if sources else words
    return " ".join(replace_unknown(words, looked_at, translations))


def dictionary(options: argparse.Namespace) -> None:
    """Learn a dictionary, `source target` lines, from a model's alignments."""
    source, target = map(read_sentences, (options.source, options.target))
    words = learn_dictionary(source, target, read_links(options.alignments, "pharaoh").links)
    lines = (f"{word} {translation}\n" for word, translation in words.items())
    write_text(options.out, "".join(lines))


def replace_unk(options: argparse.Namespace) -> None:
    """Replace each <unk> by the source word of most weight, or its translation."""
    source = read_sentences(options.source)
    translations = read_as_many(options.translations, len(source), options.source)
    alignments = read_alignments(options.alignments)
    words = dict(map(str.split, read_sentences(options.dictionary))) if options.dictionary else {}
    replaced = (
        without_unknown(there, alignments[number], here, words) if UNKNOWN in there else there
        for number, (here, there) in enumerate(zip(source, translations, strict=True), start=1)
    )
    write_text(options.out, "".join(f"{line}\n" for line in replaced))


def no_unk(options: argparse.Namespace) -> None:
    """Write the pairs without unknown words, the paper's No-UNK subset, to FOLDER/text.LANGUAGE."""
    source = read_sentences(options.source)
    reference = read_as_many(options.reference, len(source), options.source)
    words = (options.source_dictionary, options.target_dictionary)
    known = known_sentences(source, [reference], *map(read_known_words, words))
    for path, side in ((options.source, source), (options.reference, reference)):
        lines = (f"{line}\n" for line in compress(side, known))
        write_text(options.out / f"text{path.suffix}", "".join(lines))
    print(f"{known.sum():,} of {len(source):,} sentence pairs without unknown words")


COMMANDS = {  # and their options that name files
    dictionary: "source target alignments out",
    replace_unk: "source translations alignments out",
    no_unk: "source reference source-dictionary target-dictionary out",
}


@program
def main(argv: list[str] | None = None) -> None:
    """Run one of the commands."""
    parser = parser_of("unknown_words.py", __doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for run, files in COMMANDS.items():
        command = commands.add_parser(run.__name__.replace("_", "-"), description=run.__doc__)
        command.set_defaults(run=run)
        for name in files.split():
            command.add_argument(f"--{name}", type=Path, required=True)
        if run is replace_unk:
            command.add_argument("--dictionary", type=Path, help="`source target` lines")
    options = parser.parse_args(argv)
    options.run(options)


if __name__ == "__main__":
    main()
