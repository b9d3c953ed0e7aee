"""One soft alignment as a picture, in the manner of the paper's Figure 3.

"The x-axis and y-axis of each plot correspond to the words in the source sentence and the generated
translation, respectively. Each pixel shows the weight alpha_ij of the annotation of the j-th source
word for the i-th target word, in grayscale (0: black, 1: white)."

The figure is matplotlib's, for programs, notebooks and PDF. PNG and SVG are written without it,
from the same layout: a PNG of 20 words takes 8 ms instead of 160, and an SVG holds the letters and
the directions of its words.

matplotlib is imported when the first picture is drawn, and only its object interface is used:
neither pyplot nor a display, and the user's backend and style stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.layout import LABEL_GAP, Layout, lay_out
from fairseq_rnnsearch.figures.picture_files import picture_format, save_figure
from fairseq_rnnsearch.figures.raster import write_png
from fairseq_rnnsearch.figures.shades import GREYS
from fairseq_rnnsearch.figures.vector import write_svg
from fairseq_rnnsearch.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A PNG has at most 64 million dots, and 32,768 along one side: beyond some 400 words its resolution
# falls.
MOST_DOTS = 1 << 26
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
    weights = _checked(source, target, weights)
    layout = lay_out(source, target)

    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = layout.width / layout.dots_per_inch, layout.height / layout.dots_per_inch
    figure = Figure(size, dpi=layout.dots_per_inch, facecolor="white", layout="none")
    FigureCanvasAgg(figure)
    axes = figure.add_axes(_place(layout))
    axes.imshow(
        weights,
        cmap=matplotlib.colormaps["gray"].resampled(GREYS).with_extremes(bad="red"),
        vmin=0,
        vmax=1,
        interpolation="nearest",
        origin="upper",
        aspect="equal",
    )
    axes.grid(False)
    # A hairline surrounds the cells, because a white one at the border would melt into the page.
    axes.spines[:].set(linewidth=0.4, color="black", visible=True)

    text = {"fontsize": layout.font_size, "color": "black", "parse_math": False, "usetex": False}
    axes.set_xticks(range(len(source)), [label.text for label in layout.source], **text)
    axes.set_yticks(range(len(target)), [label.text for label in layout.target], **text)
    axes.tick_params(axis="x", top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.tick_params(axis="x", labelrotation=90)
    axes.tick_params(axis="y", left=False, right=False, labelleft=True, labelright=False)
    axes.tick_params(axis="both", which="both", length=0, pad=LABEL_GAP)
    for axis, labels in ((axes.xaxis, layout.source), (axes.yaxis, layout.target)):
        for drawn, label in zip(axis.get_ticklabels(), labels, strict=True):
            drawn.set_fontfamily(label.families)
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
    suffix = picture_format(path, "heatmap")
    weights = _checked(source, target, weights)
    if suffix == "pdf":
        save_figure(path, draw_heatmap(source, target, weights))
        return
    with replacing(path) as unfinished:
        if suffix == "png":
            write_png(unfinished, _bounded_layout(source, target), weights)
        else:
            write_svg(unfinished, lay_out(source, target), weights)


def _checked(source: Sequence[str], target: Sequence[str], weights: np.ndarray) -> np.ndarray:
    """Return the weights as an array, after a check that they belong to the words.

    Raises:
        UserError: weights of another shape, or no words on a side.
    """
    weights = Alignment(source, target, weights).weights
    if not weights.size:
        raise UserError("an alignment needs at least one word on each side to be drawn")
    return weights


def _place(layout: Layout) -> tuple[float, float, float, float]:
    """Return the cells' left, bottom, width and height in parts of the figure."""
    columns, rows = len(layout.source), len(layout.target)
    below = layout.height - layout.top - rows * layout.cell
    return (
        layout.left / layout.width,
        below / layout.height,
        columns * layout.cell / layout.width,
        rows * layout.cell / layout.height,
    )


def _bounded_layout(source: Sequence[str], target: Sequence[str]) -> Layout:
    """Lay out a PNG at the usual resolution, or at the highest that keeps to the limits."""
    layout = lay_out(source, target)
    while (
        layout.width * layout.height > MOST_DOTS
        or max(layout.width, layout.height) > _MOST_DOTS_ALONG
    ):
        fraction = min(
            (MOST_DOTS / layout.width / layout.height) ** 0.5,
            _MOST_DOTS_ALONG / max(layout.width, layout.height),
        )
        # Lengths are rounded up, so that the fraction alone may not be enough.
        layout = lay_out(source, target, layout.dots_per_inch * min(fraction, 0.99))
    return layout
