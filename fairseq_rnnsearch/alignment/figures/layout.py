"""The layout of a heatmap: the same numbers for a figure, a PNG and an SVG.

Lengths are whole numbers of dots, or neighbouring cells would differ by one.
"""

from __future__ import annotations

import functools
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairseq_rnnsearch.alignment.figures import fonts
from fairseq_rnnsearch.alignment.figures.styles import PAPER, Style

DOTS_PER_INCH = 150

CELL_PER_FONT = 1.4
# Lengths in points (1/72 inch); those that differ between styles are in `styles`.
MARGIN = 6.0
# The middle of the letters lies this far above the baseline, in parts of the font size.
MIDDLE = 0.34
# A cell grows for tall letters, but not for one word with a tower of accents.
TALLEST = 2.5
# Longer words (addresses, broken tokenisation) are shortened in the middle.
LONGEST_LABEL = 32


@dataclass(frozen=True)
class Layout:
    """A heatmap of cells ``cell`` dots wide whose upper left corner is ``(left, top)``.

    Attributes:
        source, target: labels of the columns and of the rows.
        style: what the lengths follow.
        font_size: in points.
        dots_per_inch: the resolution.
        cell, gap, left, top, width, height: in dots; ``gap`` lies between labels and cells, and
            the last two are those of the whole picture.
    """

    source: tuple[fonts.Label, ...]
    target: tuple[fonts.Label, ...]
    style: Style
    font_size: float
    dots_per_inch: float
    cell: int
    gap: int
    left: int
    top: int
    width: int
    height: int

    @property
    def dots_per_point(self) -> float:
        return self.dots_per_inch / 72

    def baseline(self, index: int) -> float:
        """Return where the label of a row or column stands, from the cells' upper left corner."""
        return (index + 0.5) * self.cell + MIDDLE * self.font_size * self.dots_per_point


class Ink(NamedTuple):
    """A label drawn from left to right.

    Attributes:
        dots: (height, width), 0 where there is paper and 255 where there is ink.
        above: the number of rows above the baseline; the others are below.
    """

    dots: np.ndarray
    above: int


def lay_out(
    source: Sequence[str],
    target: Sequence[str],
    dots_per_inch: float = DOTS_PER_INCH,
    style: Style = PAPER,
) -> Layout:
    """Place the words of an alignment; each label is shortened, and measured once."""

    def dots(points: float) -> int:
        return math.ceil(points / 72 * dots_per_inch)

    columns, rows = tuple(map(label_of, source)), tuple(map(label_of, target))
    cell = min(style.comfortable_side / max(len(rows), len(columns)), style.largest_cell)
    font_size = min(max(cell / CELL_PER_FONT, style.smallest_font), style.largest_font)
    across, aside = (
        [ink(label, font_size, dots_per_inch) for label in labels] for labels in (columns, rows)
    )
    tallest = max(_tallest(across), _tallest(aside))
    side = max(dots(max(cell, font_size * CELL_PER_FONT)), min(tallest, dots(TALLEST * font_size)))
    margin, gap = dots(MARGIN), dots(style.gap)
    left = margin + max(drawn.dots.shape[1] for drawn in aside) + gap
    top = margin + max(drawn.dots.shape[1] for drawn in across) + gap
    return Layout(
        source=columns,
        target=rows,
        style=style,
        font_size=font_size,
        dots_per_inch=dots_per_inch,
        cell=side,
        gap=gap,
        left=left,
        top=top,
        width=left + len(columns) * side + margin,
        height=top + len(rows) * side + margin,
    )


@functools.lru_cache(1 << 13)
def ink(label: fonts.Label, size: float, dots_per_inch: float) -> Ink:
    """Draw a label; most words of a text are drawn once for many sentences."""
    from matplotlib.ft2font import LoadFlags

    if not label.text:
        return Ink(np.zeros((0, 0), np.uint8), 0)
    drawing = fonts.font(label.families, size, dots_per_inch)
    drawing.set_text(label.text, 0.0, flags=LoadFlags.FORCE_AUTOHINT)
    drawing.draw_glyphs_to_bitmap(antialiased=True)
    dots = np.array(drawing.get_image())
    below = math.ceil(drawing.get_descent() / 64)
    return Ink(dots, len(dots) - below)


def _tallest(drawn: Iterable[Ink]) -> int:
    """Return the smallest distance of baselines at which no labels touch."""
    drawn = list(drawn)
    above = max(label.above for label in drawn)
    below = max(len(label.dots) - label.above for label in drawn)
    return above + below + 1


@functools.lru_cache(1 << 16)
def label_of(word: str) -> fonts.Label:
    """Return what is drawn for a word: one line, not too long, of letters that have a font."""
    word = " ".join(word.split())  # a line break would make a label of two lines
    label = fonts.label(_shortened(word))
    if len(label.text) <= LONGEST_LABEL:
        return label
    # Code points are longer than the letters that they stand for; none is cut in two.
    parts = label.text.split(" ")
    fitting = LONGEST_LABEL // 2 // (max(map(len, parts)) + 1) or 1
    return fonts.label(" ".join([*parts[:fitting], "…", *parts[-fitting:]]))


def _shortened(word: str) -> str:
    """Keep the beginning and the end of a long word; an accent stays with its letter."""
    if len(word) <= LONGEST_LABEL:
        return word
    half = (LONGEST_LABEL - 1) // 2
    end = word[-half:]
    while end and unicodedata.category(end[0]) in ("Mn", "Mc", "Me", "Cf", "Sk"):
        end = end[1:]
    return f"{word[:half]}…{end}"
