"""How pictures look: styles, greys, labels and their fonts, the layout, and matplotlib's files.

A PNG and a figure of matplotlib, which becomes PDF, SVG or part of a notebook, have the same
layout. Lengths are whole numbers of dots, or neighbouring cells would differ by one.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import math
import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fairseq_rnnsearch.errors import as_text
from fairseq_rnnsearch.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# --- styles and greys ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Style:
    """Shades and lengths of a heatmap; lengths are in points, 1/72 inch.

    The font follows the cell, so that labels of neighbouring cells never touch; both shrink with
    the number of words until the font is at its smallest, and then the picture grows.

    Attributes:
        inverted: whether weight 1 is black on white, instead of the paper's white on black.
        largest_font, smallest_font, largest_cell: limits, however many words there are.
        comfortable_side: the cells shrink so that the longer side of the matrix is no longer.
        gap: between labels and cells.
        line: the width of the frame around the cells.
    """

    inverted: bool = False
    largest_font: float = 10.0
    smallest_font: float = 6.0
    largest_cell: float = 20.0
    comfortable_side: float = 640.0
    gap: float = 3.0
    line: float = 0.4


StyleName = Literal["paper", "inverted", "slides"]
STYLES: dict[StyleName, Style] = {
    "paper": Style(),
    "inverted": Style(inverted=True),
    # A slide is 13.3 by 7.5 inches, and is read from the last row.
    "slides": Style(
        inverted=True,
        largest_font=22.0,
        smallest_font=10.0,
        largest_cell=36.0,
        comfortable_side=400.0,
        gap=6.0,
        line=1.2,
    ),
}


@dataclass(frozen=True)
class Look:
    """The choices that apply to all alignments in a folder.

    Attributes:
        style: one of ``STYLES``.
        title: the heading of the page.
        model: what the page says the weights come from, such as a checkpoint.
    """

    style: str = "paper"
    title: str = "Alignments"
    model: str = ""


PLAIN = Look()


def title_of(languages: Sequence[str | None], texts: Sequence[str]) -> str:
    """Return the title of a page if the user has given none.

    Args:
        languages: the source's and the target's, where they are known.
        texts: names of what was translated or aligned, such as "test".
    """
    named = [" → ".join(languages)] if all(languages) else []
    return ", ".join([f"Alignments of {' and '.join(texts)}" if texts else "Alignments", *named])


GREYS = 256


def grey(weights: np.ndarray, inverted: bool = False) -> np.ndarray:
    """Map weights to greys, 0 black and 255 white.

    The range from 0 to 1 is cut into ``GREYS`` equal parts; a weight outside gets the nearer end.
    matplotlib follows the same rule with a map of as many colours, and so does heatmap.js.

    Args:
        weights: of any shape. NaN is drawn as 0. Callers that can mark missing weights do so
            themselves.
        inverted: draw 0 white and 1 black.

    Returns:
        Bytes of the same shape.
    """
    weights = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0)
    greys = np.minimum(np.floor(np.clip(weights, 0, 1) * GREYS), GREYS - 1).astype(np.uint8)
    return GREYS - 1 - greys if inverted else greys


# --- labels and fonts ---------------------------------------------------------------------------

# It comes with matplotlib and has Latin, Greek, Cyrillic, Hebrew and Arabic letters.
MAIN_FONT = "DejaVu Sans"
# The package of the optional dependencies ``fonts`` holds font files, and is not imported.
_FONT_PACKAGE = "noto_cjk_sans_otc"
_NO_TEXT = ("cm", "STIX", "Last Resort")  # matplotlib's own fonts for formulas, and for boxes
_REGULAR = (400, "normal", "regular")
# Longer words (addresses, broken tokenisation) are shortened in the middle.
LONGEST_LABEL = 32


@functools.lru_cache(1 << 16)
def label_of(word: str) -> str:
    """Return what is drawn for a word: one line of printable letters, not too long.

    It keeps the beginning and the end of a long word, and an accent stays with its letter.
    """
    word = as_text(" ".join(word.split()))
    if len(word) <= LONGEST_LABEL:
        return word
    half = (LONGEST_LABEL - 1) // 2
    end = word[-half:]
    while end and unicodedata.category(end[0]) in ("Mn", "Mc", "Me", "Cf", "Sk"):
        end = end[1:]
    return f"{word[:half]}…{end}"


@functools.lru_cache(1 << 16)
def families_of(text: str) -> tuple[str, ...]:
    """Return the main font, and the installed ones with letters that it lacks.

    They are for matplotlib to fall back on. It warns of a letter that no font has.
    """
    chosen, missing = [MAIN_FONT], set(map(ord, text)) - _characters(MAIN_FONT)
    for family in _installed() if missing else ():
        if found := missing & _characters(family):
            chosen.append(family)
            missing -= found
    return tuple(chosen)


@functools.cache
def _installed() -> tuple[str, ...]:
    """Return the families that may draw text: those of the font package come first."""
    from matplotlib.font_manager import fontManager, list_fonts

    package = importlib.util.find_spec(_FONT_PACKAGE)
    known = len(fontManager.ttflist)
    for folder in package.submodule_search_locations if package else ():
        for path in sorted(list_fonts(folder, ["ttf", "otf", "ttc"])):
            fontManager.addfont(path)
    entries = [*fontManager.ttflist[known:], *fontManager.ttflist[:known]]
    # matplotlib logs a warning when a family lacks this face.
    regular = [one for one in entries if one.style == "normal" and one.weight in _REGULAR]
    # A colour bitmap font would draw nothing in black.
    names = (entry.name for entry in regular if "Color" not in entry.name)
    return tuple(dict.fromkeys(name for name in names if not name.startswith(_NO_TEXT)))


@functools.cache
def _characters(family: str) -> frozenset[int]:
    """Return the code points in a family."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    path = findfont(FontProperties(family=[family]))
    return frozenset(FT2Font(str(path), face_index=path.face_index).get_charmap())


class Ink(NamedTuple):
    """A label drawn from left to right.

    Attributes:
        dots: (height, width), 0 where there is paper and 255 where there is ink.
        above: the number of rows above the baseline; the others are below.
    """

    dots: np.ndarray
    above: int


@functools.lru_cache(1 << 13)
def ink(label: str, size: float, dots_per_inch: float) -> Ink:
    """Draw a label; most words of a text are drawn once for many sentences."""
    from matplotlib.font_manager import FontProperties, findfont, get_font
    from matplotlib.ft2font import LoadFlags

    if not label:
        return Ink(np.zeros((0, 0), np.uint8), 0)
    fonts = [findfont(FontProperties(family=[family])) for family in families_of(label)]
    drawing = get_font(fonts)  # the later ones draw what the first lacks
    drawing.clear()
    drawing.set_size(size, dots_per_inch)
    drawing.set_text(label, 0.0, flags=LoadFlags.FORCE_AUTOHINT)
    drawing.draw_glyphs_to_bitmap(antialiased=True)
    dots = np.array(drawing.get_image())
    below = math.ceil(drawing.get_descent() / 64)
    return Ink(dots, len(dots) - below)


# --- the layout ---------------------------------------------------------------------------------

DOTS_PER_INCH = 150
CELL_PER_FONT = 1.4
# Lengths in points (1/72 inch); those that differ between styles are in `Style`.
MARGIN = 6.0
# The middle of the letters lies this far above the baseline, in parts of the font size.
MIDDLE = 0.34
# A cell grows for tall letters, but not for one word with a tower of accents.
TALLEST = 2.5


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

    source: tuple[str, ...]
    target: tuple[str, ...]
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


def lay_out(
    source: Sequence[str],
    target: Sequence[str],
    dots_per_inch: float = DOTS_PER_INCH,
    style: Style = STYLES["paper"],
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


def _tallest(drawn: Sequence[Ink]) -> int:
    """Return the smallest distance of baselines at which no labels touch."""
    above = max(label.above for label in drawn)
    below = max(len(label.dots) - label.above for label in drawn)
    return above + below + 1


# --- files --------------------------------------------------------------------------------------

FORMATS = ("png", "pdf", "svg")

# Text stays text in vector files, equal pictures are equal files, and the user's settings for
# other figures leave this one as it was laid out.
_FILE_SETTINGS = {
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "rnnsearch",
    "savefig.bbox": None,
    "savefig.transparent": False,
    "savefig.facecolor": "auto",
}
_NO_DATE = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


def save_figure(path: str | os.PathLike[str], figure: Figure) -> None:
    """Write a figure, whole or not at all; the suffix chooses the format."""
    import matplotlib.style

    # Otherwise it logs every glyph that goes into a PDF.
    logging.getLogger("fontTools").setLevel(logging.WARNING)
    kind = Path(path).suffix.lower().removeprefix(".")
    with replacing(path) as unfinished, matplotlib.style.context(["default", _FILE_SETTINGS]):
        figure.savefig(unfinished, format=kind, dpi="figure", metadata=_NO_DATE.get(kind))
