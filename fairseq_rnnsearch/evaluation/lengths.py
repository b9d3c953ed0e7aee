"""BLEU against the length of the source sentence: the paper's Figure 2.

The paper does not say how its curves were made. Here a sentence belongs to the bin of its number of
source words, the end symbol not counted: up to 10, 11 to 20, ..., and one bin for all sentences
beyond the last. A bin's BLEU is the corpus BLEU of its sentences, with the brevity penalty of that
bin, and its point stands at the mean length of its sentences. All bins count all sentences, those
with unknown words included, as in the paper.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation import paper
from fairseq_rnnsearch.evaluation.bleu import Bootstrap, Comparison, compare, sentence_counts
from fairseq_rnnsearch.evaluation.bleu_table import add_bootstrap
from fairseq_rnnsearch.evaluation.command_line import add_command, add_list
from fairseq_rnnsearch.evaluation.tables import Column, Row, Table, fixed, markdown, span
from fairseq_rnnsearch.evaluation.texts import System, TestSet, add_texts, read_texts
from fairseq_rnnsearch.figures import save_length_curves
from fairseq_rnnsearch.wording import counted


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to those of the program."""
    parser = add_command(
        commands,
        "lengths",
        _run,
        "BLEU against sentence length, as a table and as a picture (Figure 2)",
        __doc__,
    )
    add_texts(parser)
    add_bins(parser)
    add_bootstrap(parser)
    add_list(
        parser,
        "--figure",
        "FILE",
        "draw it there: .svg, .png or .pdf, any number of times",
        type=Path,
    )


def _run(options: argparse.Namespace) -> None:
    test, systems = read_texts(options)
    names = [system.name for system in systems]
    bins = read_bins(options, test, systems)
    for path in options.figure:
        save_length_curves(path, *curves(bins, names, options.fewest))
    print(markdown(length_table(bins, names)))


def add_bins(parser: argparse.ArgumentParser) -> None:
    """Add the options that `read_bins` and `curves` need."""
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


@dataclass(frozen=True)
class Bin:
    """The sentences whose lengths lie between two limits."""

    label: str
    sentences: int
    mean_length: float
    """In source words; NaN without sentences."""
    comparison: Comparison | None
    """The scores of all systems; None without sentences."""


def read_bins(options: argparse.Namespace, test: TestSet, systems: Sequence[System]) -> list[Bin]:
    """Score the systems' tokens in the bins that the options ask for; the errors of `by_length`."""
    counts = {
        system.name: sentence_counts(system.translations["tokens"], test.references["tokens"])
        for system in systems
    }
    bootstrap = Bootstrap(options.resamples, options.seed)
    return by_length(counts, test.lengths(), options.bin_width, options.longest, bootstrap)


def by_length(
    counts: dict[str, np.ndarray],
    lengths: np.ndarray,
    width: int,
    longest: int,
    bootstrap: Bootstrap,
) -> list[Bin]:
    """Score each bin.

    Args:
        counts: of each system's tokens, from `bleu.sentence_counts`.
        lengths: the source words of each sentence, ``(sentences,)``.
        width: the width of a bin, in words.
        longest: the words of the last bin's longest sentence; longer ones go to a bin of their
            own, if there are any.
        bootstrap: how the intervals are made.

    Raises:
        UserError: the width is below 1, or the longest sentence is no multiple of it.
    """
    if width < 1 or longest < width or longest % width:
        raise UserError(
            f"bins of {counted(width, 'word')} up to {longest}: the width must be at least 1, and"
            " the longest sentence a multiple of it"
        )
    upper = np.arange(width, longest + 1, width)
    places = np.searchsorted(upper, lengths)
    labels = [f"up to {width}"]
    labels += [f"{end - width + 1} to {end}" for end in upper[1:]]
    if lengths.max() > longest:
        labels.append(f"over {longest}")
    bins = []
    for place, label in enumerate(labels):
        inside = places == place
        chosen = {name: table[inside] for name, table in counts.items()}
        comparison = compare(chosen, "tokens", bootstrap) if inside.any() else None
        mean = float(lengths[inside].mean()) if inside.any() else float("nan")
        bins.append(Bin(label, int(inside.sum()), mean, comparison))
    return bins


def curves(
    bins: Sequence[Bin], names: Sequence[str], fewest: int
) -> tuple[list[float], dict[str, list[float]], list[int]]:
    """Return what `draw_length_curves` draws: the bins with at least ``fewest`` sentences.

    Raises:
        UserError: no bin has as many.
    """
    drawn = [bin for bin in bins if bin.comparison is not None and bin.sentences >= fewest]
    if not drawn:
        raise UserError(
            f"no figure of the lengths: no bin has {counted(fewest, 'sentence')} or more"
        )
    return (
        [bin.mean_length for bin in drawn],
        {name: [bin.comparison.scores[name].bleu for bin in drawn] for name in names},
        [bin.sentences for bin in drawn],
    )


def length_table(bins: Sequence[Bin], names: Sequence[str]) -> Table:
    """Return the paper's Figure 2 in numbers."""
    columns = [Column("Source words", numeric=False), Column("Sentences")]
    for name in names:
        columns += [Column("BLEU", name), Column("95%", name, kind="minor")]
    rows = []
    for bin in bins:
        cells: list[str | None] = [bin.label, f"{bin.sentences:,}"]
        for name in names:
            found = bin.comparison and bin.comparison.scores[name]
            cells += [fixed(found.bleu, 1), span(found.interval, 1)] if found else [None, None]
        rows.append(Row(tuple(cells)))
    return Table(tuple(columns), tuple(rows))
