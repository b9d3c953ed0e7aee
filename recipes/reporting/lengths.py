"""BLEU against the length of the source sentence: the paper's Figure 2.

The paper does not say how its curves were made. Here a sentence belongs to the bin of its number of
source words, the end symbol not counted: up to 10, 11 to 20, ..., and one bin for all sentences
beyond the last. A bin's BLEU is the corpus BLEU of its sentences, with the brevity penalty of that
bin, and its point stands at the mean length of its sentences. All bins count all sentences, those
with unknown words included, as in the paper.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.figures.pictures import save_figure
from reporting import paper
from reporting.bleu_table import add_resampling
from reporting.length_curves import draw_length_curves
from reporting.options import add_list, add_number
from reporting.scores import Bootstrap, Score, compare
from reporting.tables import Column, Row, Table, fixed, markdown, span
from reporting.texts import System, TestSet, add_texts, read_texts


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_texts(parser)
    add_bins(parser)
    add_resampling(parser)
    add_list(
        parser,
        "--figure",
        "FILE",
        "draw it there: .svg, .png or .pdf, any number of times",
        type=Path,
    )


def run(options: argparse.Namespace) -> None:
    """Print BLEU against sentence length as a table; with --figure, draw it (Figure 2)."""
    test, systems = read_texts(options)
    names = [system.name for system in systems]
    bins = read_bins(options, test, systems)
    for path in options.figure:
        save_figure(path, draw_length_curves(*curves(bins, names, options.fewest)))
    print(markdown(length_table(bins, names)))


def add_bins(parser: argparse.ArgumentParser) -> None:
    """Add the options that `read_bins` and `curves` need."""
    add_number(parser, "--bin-width", 10, "WORDS")
    add_number(
        parser,
        "--longest",
        paper.LONGEST_ON_AXIS,
        "WORDS",
        "where the last bin ends; longer sentences have one of their own",
    )
    add_number(parser, "--fewest", 10, "N", "smaller bins are in the table and not in the figure")


@dataclass(frozen=True)
class Bin:
    """The sentences whose lengths lie between two limits."""

    label: str
    sentences: int
    mean_length: float
    """In source words; NaN without sentences."""
    scores: Mapping[str, Score]
    """BLEU of each system; empty without sentences."""


def read_bins(options: argparse.Namespace, test: TestSet, systems: Sequence[System]) -> list[Bin]:
    """Score the systems' tokens in the bins that the options ask for; the errors of `by_length`."""
    return by_length(
        {system.name: system.translations["tokens"] for system in systems},
        test.references["tokens"],
        test.lengths(),
        options.bin_width,
        options.longest,
        Bootstrap(options.resamples),
    )


def by_length(
    translations: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    lengths: np.ndarray,
    width: int,
    longest: int,
    bootstrap: Bootstrap,
) -> list[Bin]:
    """Score each bin.

    Args:
        translations: of each system, tokens.
        references: one text or several, tokens.
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
            f"bins of {pluralize(width, 'word')} up to {longest}: the width must be at least 1, and"
            " the longest sentence a multiple of it"
        )
    last = min(longest, width * math.ceil(max(lengths.max(), 1) / width))  # the text may end before
    ends = range(width, last + 1, width)
    labels = [f"{end - width + 1} to {end}" for end in ends]
    labels[0] = f"up to {width}"
    if lengths.max() > longest:
        labels.append(f"over {longest}")
    places = np.searchsorted(ends, lengths)
    bins = []
    for place, label in enumerate(labels):
        inside = places == place
        if not inside.any():
            bins.append(Bin(label, 0, math.nan, {}))
            continue
        own = {name: list(compress(text, inside)) for name, text in translations.items()}
        references_inside = [list(compress(text, inside)) for text in references]
        scores = compare(own, references_inside, bootstrap).scores
        bins.append(Bin(label, int(inside.sum()), float(lengths[inside].mean()), scores))
    return bins


def curves(
    bins: Sequence[Bin], names: Sequence[str], fewest: int
) -> tuple[list[float], dict[str, list[float]], list[int]]:
    """Return what `draw_length_curves` draws: the bins with at least ``fewest`` sentences.

    Raises:
        UserError: no bin has as many.
    """
    drawn = [bin for bin in bins if bin.sentences >= max(fewest, 1)]
    if not drawn:
        raise UserError(
            f"no figure of the lengths: no bin has {pluralize(fewest, 'sentence')} or more; "
            "--fewest takes smaller ones"
        )
    return (
        [bin.mean_length for bin in drawn],
        {name: [bin.scores[name].value for bin in drawn] for name in names},
        [bin.sentences for bin in drawn],
    )


def length_table(bins: Sequence[Bin], names: Sequence[str]) -> Table:
    """Return the paper's Figure 2 in numbers."""
    rows = []
    for bin in bins:
        row: Row = {
            Column("Source words", numeric=False): bin.label,
            Column("Sentences"): f"{bin.sentences:,}",
        }
        for name in names:
            score = bin.scores.get(name)
            row[Column("BLEU", name)] = score and fixed(score.value, 1)
            row[Column("95%", name)] = score and span(score.interval, 1)
        rows.append(row)
    return Table(rows)
