"""A heatmap as a PNG, dot by dot.

A matplotlib figure would take 20 times as long, because its labels and axes can move; and
`fairseq-generate` draws a picture for each of some thousand sentences. Here the cells are repeated
greys, the labels are glyphs that matplotlib has drawn once for each word, and the layout is that of
the figure, to which a test compares the picture.
"""

import math
import zlib
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.figures.pictures import Layout, grey, ink

WHITE = 255
RED = (255, 0, 0)


def write_png(path: Path, layout: Layout, weights: np.ndarray) -> None:
    """Write the picture; it has greys only, unless there is a NaN to be shown in red."""
    from PIL import Image

    picture = np.full((layout.height, layout.width), WHITE, np.uint8)
    rows = slice(layout.top, layout.top + len(layout.target) * layout.cell)
    columns = slice(layout.left, layout.left + len(layout.source) * layout.cell)
    # A line surrounds the cells, because a white one at the border would melt into the page.
    frame = max(1, round(layout.style.line * layout.dots_per_point))
    picture[
        rows.start - frame : rows.stop + frame, columns.start - frame : columns.stop + frame
    ] = 0
    picture[rows, columns] = _enlarged(grey(weights, layout.style.inverted), layout.cell)
    _draw_labels(picture, layout)
    missing = np.isnan(weights)
    if missing.any():
        picture = np.repeat(picture[..., None], 3, axis=2)
        picture[rows, columns][_enlarged(missing, layout.cell)] = RED
    # Only runs of equal dots can be compressed.
    Image.fromarray(picture).save(
        path, format="png", dpi=(layout.dots_per_inch,) * 2, compress_type=zlib.Z_RLE
    )


def _enlarged(cells: np.ndarray, side: int) -> np.ndarray:
    return cells.repeat(side, axis=0).repeat(side, axis=1)


def _draw_labels(picture: np.ndarray, layout: Layout) -> None:
    """Write target words left of their rows, and source words upright above their columns."""
    size = layout.font_size, layout.dots_per_inch
    for row, label in enumerate(layout.target):
        drawn = ink(label, *size)
        y = math.floor(layout.top + layout.baseline(row)) - drawn.above
        _put(picture, drawn.dots, y, layout.left - layout.gap - drawn.dots.shape[1])
    for column, label in enumerate(layout.source):
        drawn = ink(label, *size)
        x = math.floor(layout.left + layout.baseline(column)) - drawn.above
        _put(picture, np.rot90(drawn.dots), layout.top - layout.gap - drawn.dots.shape[1], x)


def _put(picture: np.ndarray, dots: np.ndarray, y: int, x: int) -> None:
    """Darken the paper under the ink, as far as it lies on the paper."""
    dots = dots[max(0, -y) :, max(0, -x) :]
    place = picture[max(0, y) :, max(0, x) :][: dots.shape[0], : dots.shape[1]]
    np.minimum(place, WHITE - dots[: place.shape[0], : place.shape[1]], out=place)
