"""Text files that may be compressed by gzip, with ``.gz`` added to their names."""

import gzip
import io
import zlib
from pathlib import Path

from fairseq_rnnsearch.errors import UserError

MOST = 2**30  # bytes of a text; a packed file of a megabyte may hold a thousand times as much


def unpack(packed: bytes, where: str, most: int = MOST) -> bytes:
    """Unpack gzip-compressed bytes.

    Args:
        where: its name in messages.
        most: the maximum size of the text in bytes.

    Raises:
        UserError: if it is broken, or the text is larger.
    """
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            text = file.read(most)
            if file.read(1):
                raise UserError(f"{where} unpacks to more than {most:,} bytes")
            return text
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise UserError(f"{where} is a broken gzip file: {problem}") from problem


def read_bytes(path: Path, most: int = MOST) -> bytes:
    """Return the text of a file, or else of the packed one beside it.

    Raises:
        UserError: as `unpack`; there is neither, or it cannot be read.
    """
    packed = path.with_name(f"{path.name}.gz")
    try:
        if path.exists():
            return path.read_bytes()
        if packed.exists():
            return unpack(packed.read_bytes(), str(packed), most)
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror}") from problem
    raise UserError(f"{path.parent} has neither {path.name} nor {packed.name}")


def read_lines(path: Path, most: int = MOST) -> list[str]:
    """Return the lines of such a text, without their ends.

    Raises:
        UserError: as `read_bytes`; the text is not UTF-8.
    """
    try:
        return read_bytes(path, most).decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as problem:
        raise UserError(f"{path} or its .gz is not UTF-8 text: {problem}") from problem
