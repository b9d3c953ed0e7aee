"""Files that appear whole or not at all."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from fairseq_rnnsearch.errors import UserError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file to write instead of ``path``, which it becomes when the block ends without error.

    Raises:
        UserError: when the file cannot be written or put in its place.
    """
    path = Path(path)
    unfinished = path.with_name(f".{uuid.uuid4().hex}.unfinished")
    try:
        yield unfinished
        os.replace(unfinished, path)
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem
    finally:
        with contextlib.suppress(OSError):  # renamed, or never begun
            unfinished.unlink()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
