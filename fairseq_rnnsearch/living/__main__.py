"""``rnnsearch-living``: a trained model as a page that translates, offline.

    rnnsearch-living checkpoint_best.pt --data data-bin --out living.html

Open the file with a double click: it translates as you type, shows what the model looks at, and
lets you change words and attention. Nothing is fetched, and nothing leaves the page. A second
checkpoint with the same dictionaries stands beside the first. With --training the page has a slider
that goes through a training:

    rnnsearch-living --training checkpoints --data data-bin --out training.html
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_rnnsearch.checks import PAGE_WEIGHTS, count_of
from fairseq_rnnsearch.command_line import parser_of, program
from fairseq_rnnsearch.commands.command_options import (
    add_text_options,
    load_options,
    show_warnings,
    starting,
)
from fairseq_rnnsearch.errors import UsageError, pluralize
from fairseq_rnnsearch.models.find import MOST_CHECKPOINTS, checkpoints_of, find_model


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    show_warnings()
    options = _parser().parse_args(arguments)
    if bool(options.checkpoint) == bool(options.training):
        raise UsageError("give checkpoints, or --training with the folder of a training")
    if options.training:
        chosen = checkpoints_of(options.training, options.moments)
        options.name, options.checkpoint = list(chosen), [str(path) for path in chosen.values()]
        checkpoints = pluralize(len(chosen), "checkpoint")
        print(f"{options.training}: reading {checkpoints}", file=sys.stderr)
    if options.out.is_file() and options.out.suffix != ".html":
        raise UsageError(f"--out {options.out} would be overwritten, and does not end in .html")
    with starting():  # imports torch, which --help does not need
        from fairseq_rnnsearch.commands.loading import load
        from fairseq_rnnsearch.living.living_page import write_living_page
        from fairseq_rnnsearch.models.folder import read_config

    models = [
        load(checkpoint, options.data, **load_options(options), compute_dtype="float32")
        for checkpoint in options.checkpoint  # the page computes in float32, too
    ]
    found = find_model(options.checkpoint[0])
    of_folder = read_config(found) if found.is_dir() else None
    size = write_living_page(
        options.out,
        models,
        names=options.name,
        title=options.title,
        examples=options.example or (of_folder.examples if of_folder else ()),
        licence=options.licence or (of_folder.licence if of_folder else ""),
        weights=options.weights,
        is_training=options.training is not None,
        other_direction=options.other_direction,
    )
    print(f"{options.out}: {size / 1e6:.1f} MB; open it in a browser", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("rnnsearch-living", __doc__)
    parser.add_argument(
        "checkpoint", nargs="*",
        help="a checkpoint or a model, such as en-fr; two with the same dictionaries stand side by "
        "side",
    )  # fmt: skip
    parser.add_argument(
        "--training", type=Path, metavar="FOLDER",
        help="instead of checkpoints, the save folder of a training: a slider goes through its "
        "checkpoints",
    )  # fmt: skip
    parser.add_argument(
        "--moments", type=count_of, default=MOST_CHECKPOINTS, metavar="N",
        help="with --training, take at most N checkpoints, closer together at the beginning "
        "(default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the page")
    parser.add_argument(
        "--title",
        default="",
        help="heading (default: RNNsearch or RNNencdec, and languages)",
    )
    parser.add_argument(
        "--name", action="append", default=[],
        help="name of a model, once for each (default: RNNsearch or RNNencdec)",
    )  # fmt: skip
    parser.add_argument(
        "--example", action="append", default=[], metavar="SENTENCE",
        help="a sentence that the page offers, any number of times; it begins with the first "
        "(default: its folder's)",
    )  # fmt: skip
    parser.add_argument(
        "--other-direction", default="", metavar="PAGE",
        help="address of a page that translates back, such as fr-en.html, to which this one links",
    )  # fmt: skip
    parser.add_argument(
        "--licence", default="", metavar="TEXT",
        help="a line about the data that the model was trained on (default: its folder's)",
    )  # fmt: skip
    parser.add_argument(
        "--weights", choices=PAGE_WEIGHTS, default="int8",
        help="how parameters are stored: 8 bits with a scale for each row of a matrix, or "
        "unrounded and four times as large (default: %(default)s)",
    )  # fmt: skip
    add_text_options(parser)
    return parser


if __name__ == "__main__":
    main()
