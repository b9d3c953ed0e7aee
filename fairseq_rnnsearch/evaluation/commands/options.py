"""Options that several commands share, and what they name, read."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation import paper
from fairseq_rnnsearch.evaluation.bleu import sentence_counts
from fairseq_rnnsearch.evaluation.lengths import Bin, by_length
from fairseq_rnnsearch.evaluation.results import Bootstrap
from fairseq_rnnsearch.evaluation.texts import (
    System,
    TestSet,
    check_names,
    known_sentences,
    named_paths,
    named_values,
    of_subset,
    read_as_many,
    read_dictionary,
    read_sentences,
)
from fairseq_rnnsearch.evaluation.training_log import Training, read_training

_DETOKENISED = "the same sentences detokenised"


def add_texts(parser: argparse.ArgumentParser) -> None:
    texts = parser.add_argument_group("texts: plain UTF-8, a sentence a line")
    texts.add_argument(
        "--source", type=Path, required=True, metavar="FILE", help="tokenised source sentences"
    )
    texts.add_argument("--source-detokenised", type=Path, metavar="FILE", help=_DETOKENISED)
    texts.add_argument(
        "--reference", type=Path, required=True, metavar="FILE", help="tokenised references"
    )
    texts.add_argument("--reference-detokenised", type=Path, metavar="FILE", help=_DETOKENISED)
    for option, text in (
        (
            "--system",
            "a system's tokenised translations, any number of times, in the order of rows",
        ),
        ("--system-detokenised", "its translations detokenised"),
        (
            "--system-no-unk",
            "its tokenised translations by a search that may not generate UNK, of all sentences or"
            " of those of the No-UNK subset only; without it the subset is taken from --system",
        ),
        ("--system-no-unk-detokenised", "those detokenised"),
    ):
        texts.add_argument(option, action="append", default=[], metavar="NAME=FILE", help=text)


def add_dictionaries(parser: argparse.ArgumentParser, required: bool = False) -> None:
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}-dictionary",
            type=Path,
            required=required,
            metavar="FILE",
            help=f"known {side} words, fairseq's dict.*.txt or a word a line: they decide which"
            " sentences are in the No-UNK subset",
        )


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--baseline", metavar="NAME", help="the system compared with (default: the first)"
    )
    parser.add_argument(
        "--resamples", type=int, default=1000, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=12345,
        help="of the resampling (default: sacreBLEU's %(default)s)",
    )


def add_paper(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--paper",
        action="append",
        default=[],
        metavar="NAME=ROW",
        help="the paper's row to put beside a system, or none (default: the row of the same name;"
        f" rows: {', '.join(paper.BLEU)})",
    )


def add_logs(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument(
        "--log",
        action="append",
        default=[],
        required=required,
        metavar="NAME=FILE",
        help="what fairseq-train printed, --log-format simple or json; a training that was"
        " interrupted may have its runs in one file, or in several given in their order",
    )
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="what a model was trained on, where the log does not say it well (default: the GPUs"
        " that the log names, else CPU)",
    )


def add_bins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bin-width", type=int, default=10, metavar="WORDS", help="default: %(default)s"
    )
    parser.add_argument(
        "--longest",
        type=int,
        default=paper.LONGEST_ON_AXIS,
        metavar="WORDS",
        help="where the last bin ends; longer sentences have one of their own (default:"
        " %(default)s)",
    )
    parser.add_argument(
        "--fewest",
        type=int,
        default=10,
        metavar="N",
        help="smaller bins are in the table and not in the figure (default: %(default)s)",
    )


def read_texts(options: argparse.Namespace) -> tuple[TestSet, list[System]]:
    """The test set and the systems.

    Raises:
        UserError: for every mistake in these files, and for names that are no system's.
    """
    source = read_sentences(options.source)
    count = len(source)

    def read(path: Path | None) -> list[str] | None:
        return None if path is None else read_as_many(path, count, options.source)

    reference = read(options.reference)
    test = TestSet(
        source=source,
        reference=reference,
        detokenised_source=read(options.source_detokenised),
        detokenised_reference=read(options.reference_detokenised),
        known=_known(options, source, reference),
    )
    return test, _systems(options, test, read)


def _known(
    options: argparse.Namespace, source: list[str], reference: list[str]
) -> np.ndarray | None:
    paths = [getattr(options, f"{side}_dictionary", None) for side in ("source", "target")]
    if (paths[0] is None) != (paths[1] is None):
        raise UserError(
            "--source-dictionary and --target-dictionary belong together: give both or neither"
        )
    if paths[0] is None:
        return None
    return known_sentences(source, reference, *map(read_dictionary, paths))


def _systems(
    options: argparse.Namespace, test: TestSet, read: Callable[[Path | None], list[str] | None]
) -> list[System]:
    names = named_paths(options.system, "--system")
    if not names:
        raise UserError("no --system given; at least one NAME=FILE is needed")
    further = {}
    for option in ("--system-detokenised", "--system-no-unk", "--system-no-unk-detokenised"):
        further[option] = named_paths(
            getattr(options, option.removeprefix("--").replace("-", "_")), option
        )
        check_names(further[option], names, option)
        if "no-unk" in option and further[option] and test.known is None:
            raise UserError(f"{option} needs --source-dictionary and --target-dictionary")
    if test.detokenised_reference is None and any(
        further[option] for option in further if "detokenised" in option
    ):
        raise UserError("detokenised systems need --reference-detokenised")

    def subset(path: Path | None) -> list[str] | None:
        return None if path is None else of_subset(read_sentences(path), test.known, path)

    detokenised, no_unk, no_unk_detokenised = further.values()
    return [
        System(
            name,
            tokens=read(path),
            detokenised=read(detokenised.get(name)),
            tokens_without_unk=subset(no_unk.get(name)),
            detokenised_without_unk=subset(no_unk_detokenised.get(name)),
        )
        for name, path in names.items()
    ]


def bootstrap(options: argparse.Namespace, systems: list[System]) -> Bootstrap:
    names = [system.name for system in systems]
    if options.baseline is not None:
        check_names([options.baseline], names, "--baseline")
    return Bootstrap(options.baseline or names[0], options.resamples, options.seed)


def beside(options: argparse.Namespace, names: list[str]) -> dict[str, str | None]:
    """The paper's row beside each name."""
    given = named_values(options.paper, "--paper")
    check_names(given, names, "--paper")
    for name, row in given.items():
        if row not in (*paper.BLEU, "none"):
            raise UserError(
                f"--paper {name}={row}: the paper has no such row; valid:"
                f" {', '.join(paper.BLEU)}, none"
            )
    rows = {name: None if row == "none" else row for name, row in given.items()}
    return {name: rows[name] if name in rows else paper.row_named(name) for name in names}


def read_logs(options: argparse.Namespace) -> dict[str, Training]:
    """Each model's training; the same name again adds a log."""
    paths: dict[str, list[Path]] = {}
    for text in options.log:
        for name, path in named_paths([text], "--log").items():
            paths.setdefault(name, []).append(path)
    devices = named_values(options.device, "--device")
    check_names(devices, paths, "--device")
    return {name: read_training(logs, devices.get(name)) for name, logs in paths.items()}


def read_bins(options: argparse.Namespace, test: TestSet, systems: list[System]) -> list[Bin]:
    counts = {system.name: sentence_counts(system.tokens, test.reference) for system in systems}
    return by_length(
        counts,
        test.lengths(),
        options.bin_width,
        options.longest,
        "tokens",
        options.resamples,
        options.seed,
    )
