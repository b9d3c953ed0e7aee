"""One soft alignment as a picture, in the manner of the paper's Figure 3.

"The x-axis and y-axis of each plot correspond to the words in the source sentence and the generated
translation, respectively. Each pixel shows the weight alpha_ij of the annotation of the j-th source
word for the i-th target word, in grayscale (0: black, 1: white)."

matplotlib is imported when the first picture is drawn, and only its object interface is used:
neither pyplot nor a display, and the user's backend and style stay as they are.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures.saving import (
    DOTS_PER_INCH,
    drawable,
    installed_fonts,
    picture_format,
    save_figure,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Lengths in points (1/72 inch). The font follows the cell, so that labels of neighbouring cells
# never touch; both shrink with the number of words, and then the figure grows.
_LARGEST_FONT, _SMALLEST_FONT = 10.0, 6.0
_CELL_PER_FONT = 1.4
_LARGEST_CELL = 20.0
_COMFORTABLE_SIDE = 640.0
_MARGIN = 6.0
_LABEL_GAP = 3.0
# Longer words (addresses, broken tokenisation) are shortened in the middle.
_LONGEST_LABEL = 32
# At most 64 million dots, 256 MB while a PNG is drawn, and half of what the renderer takes along
# one side: beyond some 400 words the resolution falls.
_MOST_DOTS = 1 << 26
_MOST_DOTS_ALONG = 1 << 15


def draw_heatmap(source: Sequence[str], target: Sequence[str], weights: np.ndarray) -> Figure:
    """Draw an alignment: source words on top, target words on the left, 0 black and 1 white.

    Args:
        source, target: the words of both sentences, end symbol included if it has a weight.
        weights: (target, source), in 0..1; values outside are drawn as the nearer limit, and
            NaN in red, so that it is not mistaken for a weight.

    Returns:
        A figure whose size follows the number and length of the words; `figure.savefig` or
        `save_heatmap` writes it.

    Raises:
        UserError: weights of another shape, or no words on a side.
    """
    weights = np.asarray(weights)
    if weights.shape != (len(target), len(source)):
        raise UserError(
            f"alignment weights have shape {weights.shape}, but {len(target)} target and"
            f" {len(source)} source words need {(len(target), len(source))}"
        )
    if not weights.size:
        raise UserError("an alignment needs at least one word on each side to be drawn")

    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    cell = min(_COMFORTABLE_SIDE / max(weights.shape), _LARGEST_CELL)
    font_size = min(max(cell / _CELL_PER_FONT, _SMALLEST_FONT), _LARGEST_FONT)
    cell = max(cell, font_size * _CELL_PER_FONT)

    figure = Figure(dpi=DOTS_PER_INCH, facecolor="white", layout="none")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(
        weights,
        cmap=matplotlib.colormaps["gray"].with_extremes(bad="red"),
        vmin=0,
        vmax=1,
        interpolation="nearest",
        origin="upper",
        aspect="equal",
    )
    axes.grid(False)
    # A hairline, because a white cell at the border would melt into the page.
    axes.spines[:].set(linewidth=0.4, color="black", visible=True)

    text = {
        "fontsize": font_size,
        "fontfamily": installed_fonts(),
        "color": "black",
        "parse_math": False,
        "usetex": False,
    }
    axes.set_xticks(range(len(source)), [_label(word) for word in source], rotation=90, **text)
    axes.set_yticks(range(len(target)), [_label(word) for word in target], **text)
    axes.tick_params(axis="x", top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.tick_params(axis="y", left=False, right=False, labelleft=True, labelright=False)
    axes.tick_params(axis="both", which="both", length=0, pad=_LABEL_GAP)

    _fit(figure, axes, canvas.get_renderer(), cell)
    return figure


def save_heatmap(
    path: str | os.PathLike[str],
    source: Sequence[str],
    target: Sequence[str],
    weights: np.ndarray,
) -> None:
    """Draw an alignment into a file; the suffix (.png, .pdf, .svg) chooses the format.

    The file appears whole or not at all: it is written beside its place and then renamed, and
    replaces a file that is there already. The same arguments give the same bytes.

    Args:
        path: the file; its folder must exist.
        source, target, weights: as for `draw_heatmap`.

    Raises:
        UserError: another suffix, a file that cannot be written, and as `draw_heatmap`.
    """
    picture_format(path, "heatmap")
    figure = draw_heatmap(source, target, weights)
    inches = figure.get_size_inches()
    dots_per_inch = min(
        DOTS_PER_INCH, (_MOST_DOTS / inches.prod()) ** 0.5, _MOST_DOTS_ALONG / inches.max()
    )
    save_figure(path, figure, dots_per_inch)


def _fit(figure: Figure, axes: Any, renderer: Any, cell: float) -> None:
    """Make the figure as large as cells of `cell` points, the labels and a margin need."""
    across = [label.get_window_extent(renderer).height for label in axes.get_xticklabels()]
    aside = [label.get_window_extent(renderer).width for label in axes.get_yticklabels()]
    rows, columns = axes.images[0].get_array().shape

    # Everything in whole dots, or neighbouring cells would differ by one.
    def dots(points: float) -> int:
        return math.ceil(points / 72 * figure.dpi)

    side, margin = dots(cell), dots(_MARGIN)
    left = math.ceil(max(aside)) + dots(_LABEL_GAP) + margin
    top = math.ceil(max(across)) + dots(_LABEL_GAP) + margin
    width = left + columns * side + margin
    height = top + rows * side + margin
    figure.set_size_inches(width / figure.dpi, height / figure.dpi)
    axes.set_position((left / width, margin / height, columns * side / width, rows * side / height))


def _label(word: str) -> str:
    word = drawable(word)  # a line break would make a label of two lines
    if len(word) <= _LONGEST_LABEL:
        return word
    half = (_LONGEST_LABEL - 1) // 2
    return f"{word[:half]}…{word[-half:]}"
