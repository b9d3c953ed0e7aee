"""How figures become files: text as text, equal figures as equal bytes."""

from __future__ import annotations

import io
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150
FORMATS = ("png", "pdf", "svg")

# Text stays text in vector files, equal pictures are equal files, and the user's settings for
# other figures leave this one as it was laid out.
_FILE_SETTINGS = {
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "rnnsearch",
    "savefig.bbox": None,
    "savefig.transparent": False,
    "savefig.facecolor": "auto",
}
_NO_DATE = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


def picture_format(path: str | os.PathLike[str], what: str) -> str:
    """The format that a file's suffix names.

    Args:
        path: the file.
        what: is drawn, for the message.

    Raises:
        UserError: another suffix.
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        valid = ", ".join(f".{name}" for name in FORMATS)
        raise UserError(f"{what} {path}: its name must end in one of {valid}")
    return suffix


def save_figure(
    path: str | os.PathLike[str], figure: Figure, dots_per_inch: float = DOTS_PER_INCH
) -> None:
    """Write a figure, whole or not at all; the suffix chooses the format.

    Raises:
        UserError: another suffix than `FORMATS`, or a file that cannot be written.
    """
    import matplotlib.style

    suffix = picture_format(path, "figure")
    # or it tells of every glyph that goes into a PDF, where a program shows what is logged
    logging.getLogger("fontTools").setLevel(logging.WARNING)
    settings = matplotlib.style.context(["default", _FILE_SETTINGS])
    with settings, replacing(path) as unfinished:
        figure.savefig(unfinished, format=suffix, dpi=dots_per_inch, metadata=_NO_DATE[suffix])


def svg_text(figure: Figure) -> str:
    """A figure as the text of an SVG file."""
    import matplotlib.style

    buffer = io.BytesIO()
    with matplotlib.style.context(["default", _FILE_SETTINGS]):
        figure.savefig(buffer, format="svg", metadata=_NO_DATE["svg"])
    return buffer.getvalue().decode("utf-8")
