"""An entry of the catalogue in words, and how far it moves the authors' numbers."""

from pathlib import Path

import numpy as np

from fairseq_rnnsearch.conformance.authors_numbers import Arrays, numbers, parameters
from fairseq_rnnsearch.conformance.catalogue import BY_NAME, CATALOGUE, PlacedDeviation, merged
from fairseq_rnnsearch.conformance.given_code import Layout, run_in_layout
from fairseq_rnnsearch.conformance.variant_model import VariantModel
from fairseq_rnnsearch.errors import UserError, neighbours
from fairseq_rnnsearch.files import replacing

SENTENCE = 3  # of the authors' four, with 5 words in a batch of 8 columns, and 7 target words
SHADES = ((1e-1, "█"), (1e-2, "▓"), (1e-3, "▒"), (SMALL := 1e-4, "░"))
ROWS = {"annotations": "mask", "weights": "y_mask", "states": "y_mask", "probabilities": "y_mask"}


def moved(deviation: PlacedDeviation) -> Arrays:
    """Return how far a deviation moves the numbers of one sentence.

    Returns:
        the largest difference at each position, source positions for annotations and target
        positions for the others; without what can no longer be computed.
    """
    authors, model = numbers("sentence"), VariantModel(parameters(), merged((deviation,)))
    output = run_in_layout(model.sentence, "sentence", Layout(), authors).quantities
    return {
        name: np.abs(output[name] - authors[name])[SENTENCE, authors[mask][SENTENCE]].max(-1)
        for name, mask in ROWS.items()
        if name in output
    }


def explained(name: str) -> str:
    """Return an entry of the catalogue as text, with a picture of what its first place moves.

    Raises:
        UserError: if the catalogue has no such entry.
    """
    entry = BY_NAME[_known(name)]
    lines = [
        name,
        f"  the paper    {entry.paper}",
        f"  here         {entry.instead}",
        f"  in training  {entry.effect}",
    ]
    it = "it"
    if len(entry.places) > 1:
        lines += [f"  {'variants' * (i == 0):<11}  {place}" for i, place in enumerate(entry.places)]
        it = "the first variant"
    lines += ["", f"How far {it} moves the numbers, by position (source words for annotations,"]
    lines += ["target words for the others):"]
    differences = moved(PlacedDeviation(name, next(iter(entry.places))))
    for row in ROWS:
        cells = "cannot be computed"
        if row in differences:
            cells = " ".join(_shade(difference) for difference in differences[row])
        lines.append(f"  {row:<13} {cells}")
    return "\n".join(
        [*lines, "  at least " + ", ".join(f"{s} {f:g}" for f, s in SHADES) + "; · less"]
    )


def draw(name: str, path: Path) -> None:
    """Draw the same picture as PNG, a row of cells for every place of the entry.

    Raises:
        UserError: if the catalogue has no such entry, or the file is no .png.
    """
    from matplotlib.figure import Figure

    if path.suffix != ".png":
        raise UserError(f"--out {path}: must end in .png")
    entry = BY_NAME[_known(name)]
    figure = Figure((9, 1.4 + 0.4 * len(entry.places)), layout="constrained")
    rows = figure.subplots(len(entry.places), len(ROWS), squeeze=False)
    for axes, place in zip(rows, entry.places, strict=True):
        differences = moved(PlacedDeviation(name, place))
        if len(rows) > 1:
            axes[0].set_ylabel(place, fontsize=7, rotation=0, ha="right", va="center")
        for ax, row in zip(axes, ROWS, strict=True):
            ax.set(xticks=[], yticks=[])
            if row in differences:
                cells = np.log10(differences[row] + SMALL / 10)[None]
                image = ax.imshow(cells, vmin=-5, vmax=0, cmap="magma", aspect="auto")
    for first, last, row in zip(rows[0], rows[-1], ROWS, strict=True):
        first.set_title(row)
        side = "source" if row == "annotations" else "target"
        last.set_xlabel(f"{side} position", fontsize=7)
    figure.suptitle(f"{name}: {entry.instead}", fontsize=9)
    figure.colorbar(image, ax=rows, label="difference", ticks=[-4, -2, 0]).set_ticklabels(
        ["0.0001", "0.01", "1"]
    )
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=150)


def listed() -> str:
    """Return the catalogue, a line for each entry."""
    return "\n".join(f"{entry.name:<22} {entry.instead}" for entry in CATALOGUE)


def _known(name: str) -> str:
    if name not in BY_NAME:
        raise UserError(f"{name!r} is not in the catalogue{neighbours(name, BY_NAME)} (see --list)")
    return name


def _shade(difference: float) -> str:
    return next((shade for least, shade in SHADES if difference >= least), "·")
