"""A heatmap as a PNG, dot by dot.

A matplotlib figure spends most of its time on the parts of an axis that this picture does not
show. Here the cells are repeated weights and the labels are matplotlib's own glyphs, put in their
places; the layout is the figure's.
"""

import math
import zlib
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.figures.layout import Layout, ink

WHITE = 255
RED = (255, 0, 0)


def shades(weights: np.ndarray) -> np.ndarray:
    """Weights to grey, 0 black and 255 white; NaN is black here and red in the picture."""
    weights = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0)
    return np.minimum(np.clip(weights, 0, 1) * 256, 255).astype(np.uint8)


def write_png(path: Path, layout: Layout, weights: np.ndarray) -> None:
    """Write the picture; greys only, unless there is a NaN to be shown in red."""
    from PIL import Image

    picture = np.full((layout.height, layout.width), WHITE, np.uint8)
    rows, columns = _cells(layout)
    # A hairline, because a white cell at the border would melt into the page.
    picture[rows.start - 1 : rows.stop + 1, columns.start - 1 : columns.stop + 1] = 0
    picture[rows, columns] = _enlarged(shades(weights), layout.cell)
    _draw_labels(picture, layout)
    missing = np.isnan(weights)
    if missing.any():
        picture = np.repeat(picture[..., None], 3, axis=2)
        picture[rows, columns][_enlarged(missing, layout.cell)] = RED
    resolution = (layout.dots_per_inch, layout.dots_per_inch)
    # Runs of equal dots are all that there is to compress.
    image = Image.fromarray(picture)
    image.save(path, format="png", dpi=resolution, compress_type=zlib.Z_RLE)


def _cells(layout: Layout) -> tuple[slice, slice]:
    return (
        slice(layout.top, layout.top + len(layout.target) * layout.cell),
        slice(layout.left, layout.left + len(layout.source) * layout.cell),
    )


def _enlarged(cells: np.ndarray, side: int) -> np.ndarray:
    return cells.repeat(side, axis=0).repeat(side, axis=1)


def _draw_labels(picture: np.ndarray, layout: Layout) -> None:
    """Target words end left of their rows; source words stand on their columns, read upwards."""
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
