"""One soft alignment as a picture, in the manner of the paper's Figure 3.

"The x-axis and y-axis of each plot correspond to the words in the source sentence and the generated
translation, respectively. Each pixel shows the weight alpha_ij of the annotation of the j-th source
word for the i-th target word, in grayscale (0: black, 1: white)."

The figure is matplotlib's, for programs, notebooks, PDF and SVG. A PNG is written without it, from
the same layout: one of 20 words takes 8 ms instead of 160.

matplotlib is imported when the first picture is drawn, and only its object interface is used:
neither pyplot nor a display, and the user's backend and style stay as they are.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairseq_rnnsearch.errors import as_text
from fairseq_rnnsearch.figures.alignment import Alignment, largest_effect
from fairseq_rnnsearch.figures.pictures import (
    CELL_PER_FONT,
    DOTS_PER_INCH,
    GREYS,
    MAIN_FONT,
    MARGIN,
    STYLES,
    Layout,
    Style,
    families_of,
    ink,
    lay_out,
    save_figure,
)
from fairseq_rnnsearch.figures.raster import write_png
from fairseq_rnnsearch.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.image import AxesImage

# The size of a title relative to the words, and of a weight's digits relative to its cell.
TITLE_PER_FONT = 1.15
VALUE_PER_CELL = 0.42
_PLAIN = {"parse_math": False, "usetex": False}  # a word with dollars is no formula
# A PNG has at most 64 million dots, and 32,768 along one side: beyond some 400 words its resolution
# falls.
MOST_DOTS = 1 << 26
_MOST_DOTS_ALONG = 1 << 15


def draw_heatmap(
    source: Sequence[str],
    target: Sequence[str],
    weights: np.ndarray,
    *,
    style: str = "paper",
    cmap: str | Colormap | None = None,
    title: str | None = None,
    values: bool = False,
    signed: bool = False,
    dpi: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw an alignment: source words on top, target words on the left, 0 black and 1 white.

    Args:
        source, target: the words of both sentences, end symbol included if it has a weight.
        weights: (target, source), in 0..1; values outside are drawn as the nearer limit, and
            NaN in red, so that it is not mistaken for a weight.
        style: one of `STYLES`.
        cmap: a colour map of matplotlib for 0 to 1, or its name, in place of the style's greys.
        title: a line above the picture.
        values: whether weights are written into the cells, from 0.005 on.
        signed: whether these are effects of either sign instead of weights, drawn from red over
            white at zero to blue, the largest in full colour.
        dpi: dots in an inch (default: 150); the size in inches does not depend on it.
        axes: the caller's axes. Letters are as large as the style and the cells allow, and what is
            already drawn stays. Without axes, a new figure is sized to the number and length of the
            words.

    Returns:
        The axes that were drawn into.

    Raises:
        UserError: if the weights have another shape.
    """
    weights, chosen = Alignment(source, target, weights).weights, STYLES[style]
    if axes is None:
        layout = lay_out(source, target, dpi or DOTS_PER_INCH, chosen)
        axes = _new_axes(layout, title)
    else:
        layout = lay_out(source, target, axes.figure.dpi, _within(axes, chosen, weights.shape))
    _fill(axes, layout, weights, cmap, title, values, signed)
    return axes


def _new_axes(layout: Layout, title: str | None) -> Axes:
    """Make a figure that the layout and a title fill, and return its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns, rows = (len(words) * layout.cell for words in (layout.source, layout.target))
    before, after, above = _margins_for(title, layout, layout.left + columns / 2)
    width, height = before + layout.width + after, layout.height + above
    size = width / layout.dots_per_inch, height / layout.dots_per_inch
    figure = Figure(size, dpi=layout.dots_per_inch, facecolor="white", layout="none")
    FigureCanvasAgg(figure)
    left, below = before + layout.left, layout.height - layout.top - rows
    return figure.add_axes((left / width, below / height, columns / width, rows / height))


def _within(axes: Axes, style: Style, shape: tuple[int, ...]) -> Style:
    """Return a style with which this many rows and columns of cells fill the axes."""
    box, (rows, columns) = axes.get_window_extent(), shape
    cell = min(box.width / columns, box.height / rows) / axes.figure.dpi * 72
    smallest_font = min(style.smallest_font, cell / CELL_PER_FONT)
    return replace(style, largest_cell=cell, smallest_font=smallest_font, comfortable_side=math.inf)


def _fill(
    axes: Axes,
    layout: Layout,
    weights: np.ndarray,
    cmap: str | Colormap | None,
    title: str | None,
    values: bool,
    signed: bool,
) -> None:
    """Draw cells, words, frame and title into axes."""
    most = largest_effect(weights) if signed else 1.0
    image = axes.imshow(
        weights,
        cmap=_colour_map("RdBu" if signed and cmap is None else cmap, layout.style),
        vmin=-most if signed else 0,
        vmax=most,
        interpolation="nearest",
        origin="upper",
        aspect="equal",
    )
    axes.grid(False)
    # A line surrounds the cells, or those of the page's colour would merge with it.
    axes.spines[:].set(linewidth=layout.style.line, color="black", visible=True)

    text = {"fontsize": layout.font_size, "color": "black", **_PLAIN}
    axes.set_xticks(range(len(layout.source)), layout.source, **text)
    axes.set_yticks(range(len(layout.target)), layout.target, **text)
    axes.tick_params(labeltop=True, labelbottom=False, labelleft=True, labelright=False)
    axes.tick_params(top=False, bottom=False, left=False, right=False)
    axes.tick_params(which="both", length=0, pad=layout.style.gap)
    axes.tick_params(axis="x", labelrotation=90)
    for axis, labels in ((axes.xaxis, layout.source), (axes.yaxis, layout.target)):
        for drawn, label in zip(axis.get_ticklabels(), labels, strict=True):
            drawn.set_fontfamily(families_of(label))
    if title:
        label, size = _title(title, layout)
        axes.set_title(label, **text | {"fontsize": size}, fontfamily=families_of(label))
    if values:
        size = VALUE_PER_CELL * layout.cell / layout.dots_per_point
        _write_values(axes, image, weights, min(size, layout.font_size), signed)


def _write_values(
    axes: Axes, image: AxesImage, weights: np.ndarray, size: float, signed: bool
) -> None:
    """Write each weight that is not nearly 0 into its cell, in black or white for contrast."""
    shown = np.asarray(weights, dtype=float)
    colours = image.cmap(image.norm(shown))
    brightness = colours[..., :3] @ (0.299, 0.587, 0.114)
    is_small = np.abs(shown) < 0.05 if signed else shown < 0.005
    for row, column in np.argwhere(~is_small):
        value = shown[row, column]
        text = f"{value:.1f}" if signed else f"{value:.2f}"
        text = text.replace("0.", ".") if abs(value) < 1 else text
        colour = "black" if brightness[row, column] > 0.5 else "white"
        place = {"ha": "center", "va": "center_baseline", "fontfamily": MAIN_FONT}
        axes.text(column, row, text, fontsize=size, color=colour, **place, **_PLAIN)


def _colour_map(cmap: str | Colormap | None, style: Style) -> Colormap:
    """Return the map from 0..1, with red for NaN."""
    import matplotlib

    if cmap is None:
        cmap = matplotlib.colormaps["gray_r" if style.inverted else "gray"].resampled(GREYS)
    return matplotlib.colormaps.get_cmap(cmap).with_extremes(bad="red")


def _title(title: str, layout: Layout) -> tuple[str, float]:
    """Return the one line drawn for a title, and its font size in points."""
    return as_text(" ".join(title.split())), layout.font_size * TITLE_PER_FONT


def _margins_for(title: str | None, layout: Layout, middle: float) -> tuple[float, float, float]:
    """Return the dots to add left, right and above for a title over the middle of the cells."""
    if not title:
        return 0, 0, 0
    label, size = _title(title, layout)
    margin = MARGIN * layout.dots_per_point
    half = ink(label, size, layout.dots_per_inch).dots.shape[1] / 2 + margin
    above = size * layout.dots_per_point + margin
    return max(0, half - middle), max(0, middle + half - layout.width), above


def save_heatmap(
    path: str | os.PathLike[str],
    source: Sequence[str],
    target: Sequence[str],
    weights: np.ndarray,
    *,
    style: str = "paper",
    dpi: float | None = None,
    **extras: Any,
) -> None:
    """Draw an alignment into a file; the suffix (.png, .pdf, .svg) chooses the format.

    The file appears whole or not at all: it is written beside its place and then renamed, and
    replaces a file that is there already. The same arguments give the same bytes.

    Args:
        path: the file; its folder must exist.
        source, target, weights, style, dpi: as for `draw_heatmap`.
        extras: ``cmap``, ``title``, ``values`` and ``signed`` of `draw_heatmap`.

    Raises:
        UserError: a file that cannot be written, and as `draw_heatmap`.
    """
    if Path(path).suffix.lower() != ".png" or any(extras.values()):
        save_figure(
            path, draw_heatmap(source, target, weights, style=style, dpi=dpi, **extras).figure
        )
        return
    weights = Alignment(source, target, weights).weights
    with replacing(path) as unfinished:
        layout = _bounded_layout(source, target, dpi or DOTS_PER_INCH, STYLES[style])
        write_png(unfinished, layout, weights)


def _bounded_layout(
    source: Sequence[str], target: Sequence[str], dots_per_inch: float, style: Style
) -> Layout:
    """Lay out a PNG at the given resolution, or at the highest that keeps to the limits."""

    def excess(layout: Layout) -> float:
        dots, longer = layout.width * layout.height, max(layout.width, layout.height)
        return max((dots / MOST_DOTS) ** 0.5, longer / _MOST_DOTS_ALONG)

    layout = lay_out(source, target, dots_per_inch, style)
    while (times := excess(layout)) > 1:
        # Lengths are rounded up, so that dividing alone may not be enough.
        layout = lay_out(source, target, layout.dots_per_inch / max(times, 1.01), style)
    return layout
