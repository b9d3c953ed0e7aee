"""`dictionary`, `replace-unk` and `no-unk`: what can be done about words the model does not know.

Luong et al. (2015) and Jean et al. (2015, section 3.3) replace each UNK by a dictionary's
translation of the source word it is aligned to, or by that word itself. Here the links are
RNNsearch's own: each target word is linked to the source word of most weight.
"""

import argparse
import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import compress
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.alignment.evaluation.links import Link, read_links, read_sentence_pairs
from fairseq_rnnsearch.alignment.evaluation.sentences import (
    add_dictionaries,
    known_sentences,
    read_as_many,
    read_known_words,
    read_sentences,
)
from fairseq_rnnsearch.alignment.evaluation.subcommands import add_file, add_number
from fairseq_rnnsearch.alignment.figures import Alignment, read_alignments
from fairseq_rnnsearch.data.coverage import UNKNOWN
from fairseq_rnnsearch.errors import UsageError, UserError, counted, option_of
from fairseq_rnnsearch.files import make_folder, refuse_overwriting, replacing

# --- a dictionary of translations ---------------------------------------------------------------


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


def add_learning_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dictionary`."""
    add_file(parser, "--source", "tokenised", required=True)
    add_file(parser, "--target", "tokenised", required=True)
    add_file(parser, "--alignments", "their links, alignments.pharaoh", required=True)
    add_file(parser, "--out", "to write", required=True)
    add_number(parser, "--fewest", 2, "N", "times that two words must be linked")


def learn(options: argparse.Namespace) -> None:
    """Learn a dictionary from a model's alignments.

    Its lines are `source target`, for replace-unk and for fairseq-generate --replace-unk FILE: to
    each source word the target word whose links to it have the largest Dice coefficient.
    """
    if options.fewest < 1:
        raise UsageError(f"--fewest {options.fewest}: must be 1 or more")
    pairs = read_sentence_pairs(options.source, options.target)
    links = read_links(options.alignments, "pharaoh", pairs=pairs).links
    source, target = map(read_sentences, (options.source, options.target))
    words = learn_dictionary(source, target, links, options.fewest)
    if not words:
        raise UserError(
            f"{options.alignments}: no two words are linked {counted(options.fewest, 'time')};"
            " --fewest 1 takes all links"
        )
    lines = (f"{word} {translation}" for word, translation in words.items())
    _write_lines({options.out: lines}, options)
    print(f"{options.out}: {counted(len(words), 'word')}")


def _write_lines(files: Mapping[Path, Iterable[str]], options: argparse.Namespace) -> None:
    """Write the lines of files, all or none, but overwrite no file that an option names.

    Raises:
        UserError: if they would overwrite one, or cannot be written.
    """
    given = [(option_of(name), value) for name, value in vars(options).items() if name != "out"]
    inputs = [(option, value) for option, value in given if isinstance(value, Path)]
    with contextlib.ExitStack() as stack:
        for path, lines in files.items():
            refuse_overwriting(path, inputs)
            unfinished = stack.enter_context(replacing(path))
            unfinished.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_translations(path: Path) -> dict[str, str]:
    """Read a dictionary as `learn_dictionary` makes it, from `source target` lines.

    Raises:
        UserError: a line is anything else; and as `read_sentences`.
    """
    words = {}
    for number, line in enumerate(read_sentences(path), start=1):
        fields = line.split()
        if len(fields) != 2:
            raise UserError(
                f"{path}, line {number}: found {line[:60]!r}; expected a source word and its"
                " translation"
            )
        words[fields[0]] = fields[1]
    return words


# --- words in the place of UNK ------------------------------------------------------------------


def replace_unknown(
    translation: str, alignment: Alignment, source: str, dictionary: Mapping[str, str]
) -> str:
    """Return a translation without ``<unk>``.

    Args:
        translation: tokens, of which some are ``<unk>``.
        alignment: the alignment of these tokens; its weights may include the end symbols, and its
            source words may differ from ``source`` where the model did not know them.
        source: tokens.
        dictionary: translations of source words; a word that it lacks is copied.

    Raises:
        UserError: the alignment is that of other sentences.
    """
    words, sources = translation.split(), source.split()
    links = alignment.links()
    if UNKNOWN not in words or not sources:
        return translation
    if len(links) != len(words) or max(i for i, _ in links) >= len(sources):
        raise UserError(
            f"alignment {alignment.id} has {len(links)} target words and is not that of the"
            f" translation {translation[:60]!r} of {source[:60]!r}"
        )
    for i, j in links:
        if words[j] == UNKNOWN:
            words[j] = dictionary.get(sources[i], sources[i])
    return " ".join(words)


def add_replacing_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `replace-unk`."""
    add_file(parser, "--source", "tokenised source sentences, with all words", required=True)
    add_file(parser, "--translations", "tokenised", required=True)
    add_file(parser, "--alignments", "theirs, alignments.jsonl", required=True)
    add_file(parser, "--out", "to write", required=True)
    add_file(parser, "--dictionary", "`source target` lines")


def replace(options: argparse.Namespace) -> None:
    """Put words in the place of each <unk> in finished translations.

    That is the source word of most weight, or what --dictionary has for it, as with
    fairseq-generate --replace-unk while it searches.
    """
    source = read_sentences(options.source)
    translations = read_as_many(options.translations, len(source), options.source)
    alignments = read_alignments(options.alignments)
    dictionary = read_translations(options.dictionary) if options.dictionary else {}
    for number, translation in enumerate(translations):
        if UNKNOWN in translation.split() and number not in alignments:
            raise UserError(
                f"{options.alignments} has no alignment {number}, whose translation has an unknown"
                " word; expected one of each (--heatmap-samples all)"
            )
    nothing = Alignment((), (), np.zeros((0, 0)))
    replaced = [
        replace_unknown(there, alignments.get(number, nothing), here, dictionary)
        for number, (here, there) in enumerate(zip(source, translations, strict=True))
    ]
    _write_lines({options.out: replaced}, options)


# --- the sentences without unknown words --------------------------------------------------------


def add_subset_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `no-unk`."""
    add_file(parser, "--source", "tokenised", required=True)
    add_file(parser, "--reference", "tokenised", required=True)
    add_dictionaries(parser, required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")


def write_subset(options: argparse.Namespace) -> None:
    """Write the sentence pairs that have no unknown word on either side.

    They are the paper's No-UNK subset and go to FOLDER/text.SOURCE and FOLDER/text.TARGET, named by
    the files' endings.
    """
    endings = options.source.suffix, options.reference.suffix
    if endings[0] == endings[1] or not all(endings):
        raise UsageError(
            f"--source {options.source} and --reference {options.reference}: must end in their "
            "languages, such as .en and .fr"
        )
    source = read_sentences(options.source)
    reference = read_as_many(options.reference, len(source), options.source)
    words = (options.source_dictionary, options.target_dictionary)
    known = known_sentences(source, [reference], *map(read_known_words, words))
    make_folder(options.out)
    sides = (endings[0], source), (endings[1], reference)
    files = {options.out / f"text{end}": compress(text, known) for end, text in sides}
    _write_lines(files, options)
    print(f"{known.sum():,} of {len(source):,} sentence pairs without unknown words")
