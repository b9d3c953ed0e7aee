"""Draw scores against sentence length, like the paper's Figure 2, with the counts below.

BLEU's axis is the paper's, 0 to 30, and grows if the points need it. The axis of lengths ends with
the points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairseq_rnnsearch.errors import as_text
from fairseq_rnnsearch.figures.pictures import DOTS_PER_INCH, MAIN_FONT, families_of
from reporting.paper import BLEU_ON_AXIS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of everything but the curves.
INK, FAINT, LINE, BAR, PAGE = "#1b1e24", "#5a6270", "#c9ced6", "#aab2be", "#ffffff"

# Curves are told apart without colour, too, by dashes and markers; the eighth begins anew.
_COLOURS = ("#2f6db5", "#c8602a", "#3c8f63", "#8f5aa8", "#a8861b", "#b8475f", "#5f6b78")
_DASHES = ("-", (0, (6, 2)), (0, (6, 2, 1.5, 2)), (0, (1.5, 1.5)), (0, (9, 3)))
_MARKERS = "osD^vPX"
_INCHES = (6.4, 4.6)
_FONT = 9.0


def draw_length_curves(
    lengths: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    counts: Sequence[int],
) -> Figure:
    """Draw a curve for each system over the mean length of each bin of sentences.

    Args:
        lengths: where the points stand, in source words, one for each bin, ascending.
        curves: a score for each bin, by the names of the systems; NaN interrupts a curve.
        counts: the number of sentences in each bin.
    """
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.style.context("default"):
        figure = Figure(figsize=_INCHES, dpi=DOTS_PER_INCH, facecolor=PAGE, layout="constrained")
        FigureCanvasAgg(figure)
        upper, lower = figure.subplots(2, sharex=True, height_ratios=(4.5, 1))
        for place, (name, points) in enumerate(curves.items()):
            upper.plot(
                lengths,
                points,
                label=name,
                color=_COLOURS[place % len(_COLOURS)],
                linestyle=_DASHES[place % len(_DASHES)],
                marker=_MARKERS[place % len(_MARKERS)],
                markersize=4.5,
                markeredgecolor=PAGE,
                markeredgewidth=0.6,
                linewidth=1.8,
                clip_on=False,
                zorder=3,
            )
        top = np.nanmax([BLEU_ON_AXIS, *(value for points in curves.values() for value in points)])
        upper.set_ylim(0, math.ceil(top / 5) * 5)
        upper.set_xlim(0, math.ceil(max(lengths) / 10) * 10)
        upper.xaxis.get_major_locator().set_params(integer=True)  # no half words
        lower.vlines(lengths, 0, counts, color=BAR, linewidth=9)
        for length, count in zip(lengths, counts, strict=True):
            lower.annotate(
                f"{count:,}",
                (length, count),
                (0, 2.5),
                textcoords="offset points",
                ha="center",
                **_text(FAINT, _FONT - 1.5),
            )
        lower.set_ylim(0, max(counts) * 1.5)
        lower.set_yticks([])
        _style(upper, "BLEU score")
        _style(lower, "Sentences", _FONT - 1.5)
        lower.set_xlabel("Sentence length (source words)", **_text(INK))
        _legend(figure, upper)
        return figure


def _text(colour: str, size: float = _FONT) -> dict:
    return {
        "color": colour,
        "fontsize": size,
        "fontfamily": MAIN_FONT,
        "parse_math": False,
        "usetex": False,
    }


def _style(axes: Axes, label: str, size: float = _FONT) -> None:
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=LINE, linewidth=0.8)
    axes.grid(axis="y", color=LINE, linewidth=0.6, alpha=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(color=LINE, labelcolor=FAINT, labelsize=_FONT, length=3)
    axes.set_ylabel(label, **_text(INK, size))
    for tick in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        tick.set_fontfamily(MAIN_FONT)


def _legend(figure: Figure, axes: Axes) -> None:
    """Put the legend above the curves, where nothing can lie under it."""
    handles, names = axes.get_legend_handles_labels()
    shown = [as_text(" ".join(name.split())) for name in names]
    legend = figure.legend(
        handles,
        shown,
        loc="outside upper left",
        ncols=max(1, min(len(shown), 80 // (max(map(len, shown)) + 8))),
        frameon=False,
        handlelength=3.2,
        columnspacing=1.6,
        fontsize=_FONT,
    )
    for text in legend.get_texts():
        families = families_of(text.get_text())
        text.set(color=INK, fontfamily=families, parse_math=False, usetex=False)
