"""`dictionary`: the translations of words, from a model's alignments."""

import argparse
from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation.dictionary import dictionary, lines
from fairseq_rnnsearch.evaluation.links import read_links, read_sentence_pairs
from fairseq_rnnsearch.evaluation.texts import read_as_many, read_sentences
from fairseq_rnnsearch.files import write_text


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "dictionary",
        help="a dictionary for --replace-unk from alignments",
        description=(
            "Write `source target` lines for fairseq-generate --replace-unk FILE: to each source"
            " word the target word whose links to it have the largest Dice coefficient."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("--source", type=Path, required=True, metavar="FILE", help="tokenised")
    parser.add_argument("--target", type=Path, required=True, metavar="FILE", help="tokenised")
    parser.add_argument(
        "--alignments", type=Path, required=True, metavar="FILE", help="their links, Pharaoh format"
    )
    parser.add_argument(
        "--fewest",
        type=int,
        default=2,
        metavar="N",
        help="times that two words must be linked (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    if options.fewest < 1:
        raise UserError(f"--fewest {options.fewest}: must be 1 or more")
    source = read_sentences(options.source)
    target = read_as_many(options.target, len(source), options.source)
    links = read_links(
        options.alignments, "pharaoh", pairs=read_sentence_pairs(options.source, options.target)
    )
    words = dictionary(source, target, links.links, options.fewest)
    if not words:
        raise UserError(
            f"{options.alignments}: no two words are linked {options.fewest} times; --fewest 1"
            " takes all links"
        )
    write_text(options.out, "".join(lines(words)))
    print(f"{options.out}: {len(words):,} words")
