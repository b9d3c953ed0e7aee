"""`alignments`: chosen sentences' alignments as pictures, the paper's Figure 3."""

import argparse
from pathlib import Path

from fairseq_rnnsearch.evaluation.examples import chosen_alignments
from fairseq_rnnsearch.figures import parse_formats, write_gallery


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "alignments",
        help="pictures of chosen alignments (Figure 3)",
        description="Draw alignments that fairseq-generate wrote with --heatmap-format jsonl.",
        allow_abbrev=False,
    )
    parser.add_argument("--alignments", type=Path, required=True, metavar="FILE", help="the jsonl")
    parser.add_argument("--ids", required=True, metavar="3,17", help="sentence numbers, from 0")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--format", default="svg", help="as of --heatmap-format (%(default)s)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    chosen = chosen_alignments(options.alignments, options.ids, "--ids")
    write_gallery(options.out, chosen, parse_formats(options.format))
