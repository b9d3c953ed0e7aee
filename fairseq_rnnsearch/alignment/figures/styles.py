"""How a heatmap looks: the paper's white on black, black on white, or large for a slide.

Python and ``--heatmap-style`` choose a style by its name. It applies to pictures, the page and
notebooks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fairseq_rnnsearch.errors import UserError


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


PAPER = Style()
StyleName = Literal["paper", "inverted", "slides"]
STYLES: dict[StyleName, Style] = {
    "paper": PAPER,
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


def style_named(name: str) -> Style:
    """Return a style.

    Raises:
        UserError: there is none of this name.
    """
    if not isinstance(name, str) or name not in STYLES:
        raise UserError(f"heatmap style {name!r} is unknown: choose from {', '.join(STYLES)}")
    return STYLES[name]


def title_of(languages: Sequence[str | None], texts: Sequence[str]) -> str:
    """Return the title of a page if the user has given none.

    Args:
        languages: the source's and the target's, where they are known.
        texts: names of what was translated or aligned, such as "test".
    """
    named = [" → ".join(languages)] if all(languages) else []
    return ", ".join([f"Alignments of {' and '.join(texts)}" if texts else "Alignments", *named])
