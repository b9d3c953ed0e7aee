"""A heatmap as an SVG, with text as text.

The program that shows an SVG shapes and orders the letters itself, so words stand in it as they
are typed. The file states the direction of each, or the full stop after an Arabic word would be on
the wrong side. matplotlib's own SVG knows no directions, which is why this one is written here. The
file names its fonts but does not contain them.
"""

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from fairseq_rnnsearch.alignment.figures.fonts import MAIN, Label
from fairseq_rnnsearch.alignment.figures.layout import Layout
from fairseq_rnnsearch.alignment.figures.shades import grey

# These are as wide as DejaVu Sans, for computers that do not have it.
SAME_WIDTH = ("Bitstream Vera Sans", "Verdana")


def vector_picture(layout: Layout, weights: np.ndarray) -> str:
    """Return the picture in points: a path of squares for each grey, and a text for each word.

    Everything around the cells has its colour as a style, not an attribute, so that a page that
    shows the picture can tell it from weights and replace it.
    """

    def points(dots: float) -> str:
        return _number(dots / layout.dots_per_point)

    weights = np.asarray(weights)
    rows, columns = weights.shape
    width, height = points(layout.width), points(layout.height)
    ground = ' fill="white"' if layout.style.inverted else ""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}pt" height="{height}pt"'
        f' viewBox="0 0 {width} {height}">',
        '<rect width="100%" height="100%" style="fill:#ffffff"/>',
        f'<g transform="translate({points(layout.left)} {points(layout.top)})">',
        f'<g transform="scale({points(layout.cell)})" shape-rendering="crispEdges">',
        f'<rect width="{columns}" height="{rows}"{ground}/>',
        *_squares(weights, layout.style.inverted),
        "</g>",
        f'<rect width="{points(columns * layout.cell)}" height="{points(rows * layout.cell)}"'
        f' style="fill:none;stroke:#000000" stroke-width="{_number(layout.style.line)}"/>',
        f'<g font-family="{_families([MAIN])}" font-size="{_number(layout.font_size)}"'
        ' style="fill:#000000">',
        *_words(layout.target, layout, ends=True),
        '<g transform="rotate(-90)">',
        *_words(layout.source, layout, ends=False),
        "</g></g></g></svg>",
    ]
    return "\n".join(lines) + "\n"


def _squares(weights: np.ndarray, inverted: bool) -> list[str]:
    """Draw one path for each grey, of squares of side 1; the ground, weight 0, is there already."""
    greys = grey(weights, inverted)
    (ground,) = grey([0], inverted).tolist()
    missing = np.isnan(weights)
    paths = [
        (f"#{shade:02x}{shade:02x}{shade:02x}", (greys == shade) & ~missing)
        for shade in np.unique(greys[~missing]).tolist()
        if shade != ground
    ]
    paths += [("red", missing)] * bool(missing.any())
    return [
        f'<path fill="{colour}" d="'
        + "".join(f"M{x} {y}h1v1h-1z" for y, x in np.argwhere(where).tolist())
        + '"/>'
        for colour, where in paths
    ]


def _words(labels: tuple[Label, ...], layout: Layout, ends: bool) -> list[str]:
    """Write texts that end at the cells (of the rows) or begin there (of the columns).

    "start" and "end" of an SVG's text follow its direction, so that the end of a row's label is the
    beginning of a word that is read from right to left.
    """
    gap = _number(layout.gap / layout.dots_per_point)
    lines = []
    for index, label in enumerate(labels):
        baseline = _number(layout.baseline(index) / layout.dots_per_point)
        attributes = f'x="{"-" if ends else ""}{gap}" y="{baseline}"'
        if ends != label.from_right:
            attributes += ' text-anchor="end"'
        if label.from_right:
            attributes += ' direction="rtl"'
        if len(label.families) > 1:
            attributes += f' font-family="{_families(label.families)}"'
        lines.append(f"<text {attributes}>{escape(label.text)}</text>")
    return lines


def _families(names: Iterable[str]) -> str:
    quoted = ", ".join(f"'{name}'" for name in (*names, *SAME_WIDTH))
    return quoteattr(f"{quoted}, sans-serif")[1:-1]


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
