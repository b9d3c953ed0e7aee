"""`aer`: precision, recall and alignment error rate of hypothesised links against gold links."""

import argparse
import math
from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation import links
from fairseq_rnnsearch.evaluation.alignment_error_rate import (
    Counts,
    bootstrap_interval,
    count_links,
    total,
)
from fairseq_rnnsearch.evaluation.commands.link_files import add_reading, joined, read
from fairseq_rnnsearch.evaluation.symmetrisation import METHODS


def add(commands: argparse._SubParsersAction) -> None:
    aer = commands.add_parser(
        "aer",
        help="precision, recall and alignment error rate",
        description=(
            "Precision, recall and alignment error rate of hypothesised links against gold links. "
            "All links of a hypothesis count alike, sure or possible."
        ),
        epilog=links.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    aer.set_defaults(run=_aer)
    aer.add_argument("--gold", type=Path, required=True, metavar="FILE", help="gold links")
    aer.add_argument(
        "--hypothesis", type=Path, required=True, metavar="FILE", help="the links to score"
    )
    aer.add_argument(
        "--hypothesis-inverse",
        type=Path,
        metavar="FILE",
        help="links by the model of the other direction, to be joined with --symmetrise",
    )
    aer.add_argument("--symmetrise", choices=METHODS, help="how to join the two directions")
    formats = ("auto", *links.FORMATS)
    aer.add_argument(
        "--format", choices=formats, default="auto", help="of the gold file (default: %(default)s)"
    )
    aer.add_argument(
        "--hypothesis-format",
        choices=formats,
        default="auto",
        help="of the hypothesis files (default: %(default)s)",
    )
    add_reading(aer, ("gold", "hypothesis", "inverse"))
    aer.add_argument(
        "--bootstrap",
        type=int,
        metavar="N",
        help="print the 95%% interval of the AER over N resamples of the sentences",
    )
    aer.add_argument("--seed", type=int, default=1, help="of the resampling (default: %(default)s)")


def _aer(options: argparse.Namespace) -> None:
    if (options.hypothesis_inverse is None) != (options.symmetrise is None):
        raise UserError(
            "--hypothesis-inverse and --symmetrise belong together: give both or neither"
        )
    paths = {"gold": options.gold, "hypothesis": options.hypothesis}
    formats = {"gold": options.format, "hypothesis": options.hypothesis_format}
    if options.hypothesis_inverse is not None:
        paths["inverse"] = options.hypothesis_inverse
        formats["inverse"] = options.hypothesis_format
    files = read(options, paths, formats)
    gold = files["gold"]
    count = len(gold.sentences)
    if not any(gold.links):
        raise UserError(f"{gold.path} holds no links; valid is a file of gold links")
    files = {name: links.same_sentences(file, count, gold.path) for name, file in files.items()}

    hypothesis = files["hypothesis"].links
    if "inverse" in files:
        hypothesis = joined(files["hypothesis"], files["inverse"], options.symmetrise)
    counts = count_links(gold.sentences, hypothesis)
    interval = None
    if options.bootstrap is not None:
        interval = bootstrap_interval(counts, options.bootstrap, options.seed)

    for name, file in files.items():
        print(f"{name:<13}{_described(file)}")
    if options.symmetrise:
        print(f"{'joined by':<13}{options.symmetrise}")
    without = sum(not sentence.possible for sentence in gold.sentences)
    print(f"{'sentences':<13}{count}" + (f", {without} of them without gold links" * bool(without)))
    _print_score(total(counts))
    if interval is not None:
        print(
            f"{'95% interval':<13}{interval[0]:.2%} to {interval[1]:.2%} of AER"
            f" ({options.bootstrap} resamples of the sentences, seed {options.seed})"
        )


def _print_score(score: Counts) -> None:
    print(f"{'gold links':<13}{score.sure} sure, {score.possible} possible (the sure included)")
    rows = {
        "precision": (
            score.precision,
            f"{score.hypothesis_possible} of {score.hypothesis} links are possible",
        ),
        "recall": (score.recall, f"{score.hypothesis_sure} of {score.sure} sure links are found"),
        "AER": (
            score.aer,
            f"1 - ({score.hypothesis_sure} + {score.hypothesis_possible})"
            f" / ({score.hypothesis} + {score.sure})",
        ),
    }
    for name, (value, counts) in rows.items():
        print(f"{name:<13}{'undefined' if math.isnan(value) else f'{value:.2%}'} ({counts})")


def _described(file: links.LinkFile) -> str:
    null_links = f", {file.null_links} null links left out" if file.null_links else ""
    return f"{file.path} ({file.format}, words from {file.first_word}{null_links})"
