"""How figures become files: text remains text, and equal figures are equal bytes."""

from __future__ import annotations

import io
import logging
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    """Return the format that a file's suffix names.

    Args:
        path: the file.
        what: names what is drawn, for the message.

    Raises:
        UserError: another suffix than those of `FORMATS`.
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        valid = ", ".join(f".{name}" for name in FORMATS)
        raise UserError(f"{what} {path}: its name must end in one of {valid}")
    return suffix


def save_figure(path: str | os.PathLike[str], figure: Figure) -> None:
    """Write a figure, whole or not at all; the suffix chooses the format.

    Raises:
        UserError: another suffix than those of `FORMATS`, or a file that cannot be written.
    """
    suffix = picture_format(path, "figure")
    with replacing(path) as unfinished:
        _write(figure, unfinished, suffix)


def svg_text(figure: Figure) -> str:
    """Return a figure as the text of an SVG file."""
    buffer = io.BytesIO()
    _write(figure, buffer, "svg")
    return buffer.getvalue().decode("utf-8")


def _write(figure: Figure, file: Path | IO[bytes], suffix: str) -> None:
    import matplotlib.style

    # Otherwise it logs every glyph that goes into a PDF.
    logging.getLogger("fontTools").setLevel(logging.WARNING)
    with matplotlib.style.context(["default", _FILE_SETTINGS]):
        figure.savefig(file, format=suffix, dpi="figure", metadata=_NO_DATE[suffix])
