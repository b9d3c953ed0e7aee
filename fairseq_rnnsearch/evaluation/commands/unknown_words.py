"""`dictionary`, `replace-unk`, `no-unk`: what can be done about words the model does not know."""

import argparse
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation import texts, unknown_words
from fairseq_rnnsearch.evaluation.commands.options import add_dictionaries
from fairseq_rnnsearch.evaluation.links import read_links, read_sentence_pairs
from fairseq_rnnsearch.figures import Alignment, read_alignments
from fairseq_rnnsearch.files import write_text


def add(commands: argparse._SubParsersAction) -> None:
    _add_dictionary(commands)
    _add_replace(commands)
    _add_subset(commands)


def _command(
    commands: argparse._SubParsersAction, name: str, help: str, more: str
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=help, description=more, allow_abbrev=False)


def _add_files(parser: argparse.ArgumentParser, **files: str) -> None:
    for name, text in files.items():
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="FILE", help=text)


def _add_dictionary(commands: argparse._SubParsersAction) -> None:
    parser = _command(
        commands,
        "dictionary",
        "a dictionary from a model's alignments",
        "Write `source target` lines, for replace-unk and for fairseq-generate --replace-unk FILE:"
        " to each source word the target word whose links to it have the largest Dice coefficient.",
    )
    _add_files(
        parser,
        source="tokenised",
        target="tokenised",
        alignments="their links, alignments.pharaoh",
        out="to write",
    )
    parser.add_argument(
        "--fewest",
        type=int,
        default=2,
        metavar="N",
        help="times that two words must be linked (default: %(default)s)",
    )
    parser.set_defaults(run=_dictionary)


def _dictionary(options: argparse.Namespace) -> None:
    if options.fewest < 1:
        raise UserError(f"--fewest {options.fewest}: must be 1 or more")
    pairs = read_sentence_pairs(options.source, options.target)
    links = read_links(options.alignments, "pharaoh", pairs=pairs).links
    source, target = map(texts.read_sentences, (options.source, options.target))
    words = unknown_words.learn_dictionary(source, target, links, options.fewest)
    if not words:
        raise UserError(
            f"{options.alignments}: no two words are linked {options.fewest} times; --fewest 1"
            " takes all links"
        )
    write_text(options.out, "".join(unknown_words.dictionary_lines(words)))
    print(f"{options.out}: {len(words):,} words")


def _add_replace(commands: argparse._SubParsersAction) -> None:
    parser = _command(
        commands,
        "replace-unk",
        "put words in the place of UNK in finished translations",
        "Replace each <unk> by the source word of most weight, or by what --dictionary has for it,"
        " as fairseq-generate --replace-unk does while it searches.",
    )
    _add_files(
        parser,
        source="tokenised source sentences, with all words",
        translations="tokenised",
        alignments="theirs, alignments.jsonl",
        out="to write",
    )
    parser.add_argument("--dictionary", type=Path, metavar="FILE", help="`source target` lines")
    parser.set_defaults(run=_replace)


def _replace(options: argparse.Namespace) -> None:
    source = texts.read_sentences(options.source)
    translations = texts.read_as_many(options.translations, len(source), options.source)
    alignments = read_alignments(options.alignments)
    dictionary = unknown_words.read_dictionary(options.dictionary) if options.dictionary else {}
    for number, translation in enumerate(translations):
        if unknown_words.UNKNOWN in translation.split() and number not in alignments:
            raise UserError(
                f"{options.alignments} has no alignment {number}, whose translation has an unknown"
                " word; valid is one of each (--heatmap-samples all)"
            )
    nothing = Alignment((), (), np.zeros((0, 0)))
    lines = [
        unknown_words.replace_unknown(there, alignments.get(number, nothing), here, dictionary)
        for number, (here, there) in enumerate(zip(source, translations, strict=True))
    ]
    write_text(options.out, "".join(f"{line}\n" for line in lines))


def _add_subset(commands: argparse._SubParsersAction) -> None:
    parser = _command(
        commands,
        "no-unk",
        "the sentences without unknown words",
        "Write the sentence pairs that have no unknown word on either side, the paper's No-UNK"
        " subset, to FOLDER/text.SOURCE and FOLDER/text.TARGET, named by the files' endings.",
    )
    _add_files(parser, source="tokenised", reference="tokenised")
    add_dictionaries(parser, required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="exists")
    parser.set_defaults(run=_subset)


def _subset(options: argparse.Namespace) -> None:
    source = texts.read_sentences(options.source)
    reference = texts.read_as_many(options.reference, len(source), options.source)
    words = (options.source_dictionary, options.target_dictionary)
    known = texts.known_sentences(source, reference, *map(texts.read_dictionary, words))
    chosen = np.flatnonzero(known)
    for path, sentences in ((options.source, source), (options.reference, reference)):
        lines = texts.pick(sentences, chosen)
        write_text(options.out / f"text{path.suffix}", "".join(f"{line}\n" for line in lines))
    print(f"{len(chosen):,} of {len(source):,} sentence pairs without unknown words")
