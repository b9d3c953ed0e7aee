"""`symmetrise`: join the links of two directions."""

import argparse
from pathlib import Path

from fairseq_rnnsearch.evaluation import links
from fairseq_rnnsearch.evaluation.commands.link_files import add_reading, joined, read
from fairseq_rnnsearch.evaluation.symmetrisation import METHODS


def add(commands: argparse._SubParsersAction) -> None:
    join = commands.add_parser(
        "symmetrise",
        help="join the links of two directions",
        description=(
            "Join the links of two directions and write them to standard output in Pharaoh "
            "format: source-target, from 0, in the order of the target words."
        ),
        epilog=links.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    join.set_defaults(run=_symmetrise)
    join.add_argument(
        "--forward",
        type=Path,
        required=True,
        metavar="FILE",
        help="links by the model that translates source to target",
    )
    join.add_argument(
        "--inverse",
        type=Path,
        required=True,
        metavar="FILE",
        help="links by the model that translates target to source",
    )
    join.add_argument("--method", choices=METHODS, required=True, help="how to join them")
    join.add_argument(
        "--format",
        choices=("auto", *links.FORMATS),
        default="auto",
        help="of both files (default: %(default)s)",
    )
    add_reading(join, ("forward", "inverse"))


def _symmetrise(options: argparse.Namespace) -> None:
    paths = {"forward": options.forward, "inverse": options.inverse}
    files = read(options, paths, dict.fromkeys(paths, options.format))
    # a naacl file does not show how many sentences there are
    longest = max(files.values(), key=lambda file: (len(file.sentences), file.format != "naacl"))
    forward, inverse = (
        links.same_sentences(file, len(longest.sentences), longest.path) for file in files.values()
    )
    for sentence in joined(forward, inverse, options.method):
        ordered = sorted(sentence, key=lambda link: (link[1], link[0]))
        print(" ".join(f"{source}-{target}" for source, target in ordered))
