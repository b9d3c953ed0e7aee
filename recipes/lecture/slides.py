"""Figures for slides, legible from the last row of a lecture hall."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# for matplotlib.rcParams; a slide of 16 to 9 is 13.3 inches wide
STYLE = {
    "figure.figsize": (11.0, 5.6),
    "figure.dpi": 80,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "font.size": 17,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d9dde3",
    "lines.linewidth": 3,
    "lines.markersize": 10,
    "legend.frameon": False,
    "legend.handlelength": 3,
    "pdf.fonttype": 42,  # letters that a slide program can edit
}
WORDS = 13  # size of the words of an alignment, in points
COLOURS = {"RNNsearch": "#2f6db5", "RNNencdec": "#c8602a", "patient": "#8f5aa8"}


def draw_alignment(
    axes: Axes, source: Sequence[str], target: Sequence[str], weights: object, title: str = ""
) -> None:
    """Draw alignment weights, ``(target, source)``: black is 0 and white is 1, as in the paper."""
    axes.imshow(weights, cmap="gray", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(source)), source, rotation=90, fontsize=WORDS)
    axes.set_yticks(range(len(target)), target, fontsize=WORDS)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.grid(False)
    axes.spines[:].set(visible=True, linewidth=0.5)
    axes.set_title(title, pad=8)


class Slides:
    """A folder of figures, each a PNG and a PDF."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, figure: Figure, name: str) -> None:
        """Write a figure under a name without a suffix."""
        for suffix in ("png", "pdf"):
            figure.savefig(self.folder / f"{name}.{suffix}", bbox_inches="tight")
