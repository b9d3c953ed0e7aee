"""``python -m fairseq_rnnsearch.evaluation``: score alignments, or join two directions.

The 447 Hansards sentences, aligned by an English-French model and by a French-English model,
each of which wrote its own source word first:

    python -m fairseq_rnnsearch.evaluation aer --gold enfr.gold --hypothesis en-fr.pharaoh \\
        --hypothesis-inverse fr-en.pharaoh --reverse inverse --symmetrise grow-diag-final-and \\
        --bootstrap 1000
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from fairseq_rnnsearch.errors import UserError, install_excepthook
from fairseq_rnnsearch.evaluation import links
from fairseq_rnnsearch.evaluation.alignment_error_rate import (
    Counts,
    bootstrap_interval,
    count_links,
    total,
)
from fairseq_rnnsearch.evaluation.symmetrisation import METHODS, symmetrise

_FORMATS_ELSEWHERE = "python -m fairseq_rnnsearch.evaluation --help describes the formats."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help shows the options)")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands.

    Raises:
        UserError: for every mistake in options or files.
    """
    parser = _Parser(
        prog="python -m fairseq_rnnsearch.evaluation",
        description=f"Hard alignments in files.\n\n{links.__doc__}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="aer|symmetrise", dest="command")
    _add_aer(commands)
    _add_symmetrise(commands)
    options = parser.parse_args(arguments)
    options.run(options)


def _add_aer(commands: argparse._SubParsersAction) -> None:
    aer = commands.add_parser(
        "aer",
        help="precision, recall and alignment error rate",
        description=(
            "Precision, recall and alignment error rate of hypothesised links against gold links. "
            "All links of a hypothesis count alike, sure or possible."
        ),
        epilog=_FORMATS_ELSEWHERE,
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
    _add_reading(aer, ("gold", "hypothesis", "inverse"))
    aer.add_argument(
        "--bootstrap",
        type=int,
        metavar="N",
        help="print the 95%% interval of the AER over N resamples of the sentences",
    )
    aer.add_argument("--seed", type=int, default=1, help="of the resampling (default: %(default)s)")


def _add_symmetrise(commands: argparse._SubParsersAction) -> None:
    join = commands.add_parser(
        "symmetrise",
        help="join the links of two directions",
        description=(
            "Join the links of two directions and write them to standard output in Pharaoh "
            "format: source-target, from 0, in the order of the target words."
        ),
        epilog=_FORMATS_ELSEWHERE,
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
    _add_reading(join, ("forward", "inverse"))


def _add_reading(parser: argparse.ArgumentParser, files: tuple[str, ...]) -> None:
    parser.add_argument(
        "--reverse",
        nargs="+",
        choices=files,
        default=[],
        help="files whose links have the target word first; a model of the other direction "
        "writes its own source first, which is our target: --reverse inverse",
    )
    for number, word in enumerate(("zero", "one")):
        parser.add_argument(
            f"--{word}-based",
            nargs="+",
            choices=files,
            default=[],
            help=f"files whose words count from {number}, whatever their format says",
        )
    parser.add_argument(
        "--source",
        type=Path,
        metavar="FILE",
        help="the tokenised source sentences: every link is checked against their words",
    )
    parser.add_argument(
        "--target", type=Path, metavar="FILE", help="the tokenised target sentences"
    )


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
    files = _read(options, paths, formats)
    gold = files["gold"]
    count = len(gold.sentences)
    if not any(gold.links):
        raise UserError(f"{gold.path} holds no links; valid is a file of gold links")
    files = {name: links.same_sentences(file, count, gold.path) for name, file in files.items()}

    hypothesis = files["hypothesis"].links
    if "inverse" in files:
        hypothesis = _joined(files["hypothesis"], files["inverse"], options.symmetrise)
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


def _symmetrise(options: argparse.Namespace) -> None:
    paths = {"forward": options.forward, "inverse": options.inverse}
    files = _read(options, paths, dict.fromkeys(paths, options.format))
    # a naacl file does not show how many sentences there are
    longest = max(files.values(), key=lambda file: (len(file.sentences), file.format != "naacl"))
    forward, inverse = (
        links.same_sentences(file, len(longest.sentences), longest.path) for file in files.values()
    )
    for sentence in _joined(forward, inverse, options.method):
        ordered = sorted(sentence, key=lambda link: (link[1], link[0]))
        print(" ".join(f"{source}-{target}" for source, target in ordered))


def _joined(
    forward: links.LinkFile, inverse: links.LinkFile, method: str
) -> list[frozenset[links.Link]]:
    return [
        symmetrise(there, back, method)
        for there, back in zip(forward.links, inverse.links, strict=True)
    ]


def _read(
    options: argparse.Namespace, paths: dict[str, Path], formats: dict[str, str]
) -> dict[str, links.LinkFile]:
    """The files as the options say to read them."""
    for option in ("reverse", "zero_based", "one_based"):
        for name in getattr(options, option):
            if name not in paths:
                raise UserError(
                    f"--{option.replace('_', '-')} {name}: there is no such file; valid:"
                    f" {', '.join(paths)}"
                )
    if both := set(options.zero_based) & set(options.one_based):
        raise UserError(f"--zero-based and --one-based both name {', '.join(sorted(both))}")
    if (options.source is None) != (options.target is None):
        raise UserError("--source and --target belong together: give both or neither")
    pairs = options.source and links.read_sentence_pairs(options.source, options.target)

    files = {}
    for name, path in paths.items():
        first_word = 0 if name in options.zero_based else 1 if name in options.one_based else None
        file = links.read_links(path, formats[name], first_word, name in options.reverse, pairs)
        if first_word is None:
            _warn_if_it_seems_to_count_from_1(name, file)
        files[name] = file
    return files


def _warn_if_it_seems_to_count_from_1(name: str, file: links.LinkFile) -> None:
    """The commonest mistake of all, and one that no number would show."""
    words = [word for sentence in file.links for link in sentence for word in link]
    if file.first_word == 0 and words and min(words) > 0:
        print(
            f"fairseq_rnnsearch: note: {file.path}: no link has a word 0; if its words count from"
            f" 1, say --one-based {name}",
            file=sys.stderr,
        )


def _described(file: links.LinkFile) -> str:
    null_links = f", {file.null_links} null links left out" if file.null_links else ""
    return f"{file.path} ({file.format}, words from {file.first_word}{null_links})"


if __name__ == "__main__":
    install_excepthook()
    main()
