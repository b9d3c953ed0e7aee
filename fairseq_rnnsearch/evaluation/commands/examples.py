"""`examples`: sentences side by side, the paper's Table 3."""

import argparse

from fairseq_rnnsearch.evaluation import examples
from fairseq_rnnsearch.evaluation.commands import options as shared
from fairseq_rnnsearch.evaluation.tables import markdown


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "examples",
        help="source, reference and translations of chosen sentences (Table 3)",
        description="Source, reference and every system's translation of chosen sentences.",
        allow_abbrev=False,
    )
    shared.add_texts(parser)
    add_choice(parser)
    parser.set_defaults(run=_run)


def add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--examples",
        metavar="3,17",
        help="sentence numbers, from 0 (default: the paper's three sentences, where the source has"
        " them, or else the first three of 30 words or more)",
    )


def _run(options: argparse.Namespace) -> None:
    test, systems = shared.read_texts(options)
    ids = examples.parse_ids_or_choose(options.examples, test)
    print("\n\n".join(map(markdown, examples.tables(test, systems, ids))))
