"""`lengths`: BLEU against the length of the source sentence, the paper's Figure 2."""

import argparse
from pathlib import Path

from fairseq_rnnsearch.evaluation import lengths
from fairseq_rnnsearch.evaluation.commands import options as shared
from fairseq_rnnsearch.evaluation.results import length_table
from fairseq_rnnsearch.evaluation.tables import markdown
from fairseq_rnnsearch.figures import save_length_curves


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "lengths",
        help="BLEU against sentence length, as a table and as a picture (Figure 2)",
        description=lengths.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    shared.add_texts(parser)
    shared.add_bins(parser)
    shared.add_bootstrap(parser)
    parser.add_argument(
        "--figure",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="draw it there: .svg, .png or .pdf, any number of times",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    test, systems = shared.read_texts(options)
    names = [system.name for system in systems]
    bins = shared.read_bins(options, test, systems)
    for path in options.figure:
        save_length_curves(path, *lengths.curves(bins, names, options.fewest))
    print(markdown(length_table(bins, names)))
