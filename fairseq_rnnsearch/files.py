"""Files that appear whole or not at all."""

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

from fairseq_rnnsearch.errors import UserError

_UNFINISHED = re.compile(r"\.[0-9a-f]{32}\.unfinished")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[Path]:
    """A file to write instead of ``path``, which it becomes when the block ends without error.

    Args:
        durable: bring the content, and then the new name, to the disk before going on, so that
            a machine that loses its power has either the old file or the new one.

    Raises:
        UserError: when the file cannot be written or put in its place.
    """
    path = Path(path)
    unfinished = path.with_name(f".{uuid.uuid4().hex}.unfinished")
    try:
        yield unfinished
        if durable:
            _bring_to_disk(unfinished)
        os.replace(unfinished, path)
        if durable:
            with contextlib.suppress(OSError):  # some file systems do it for no folder
                _bring_to_disk(path.parent)
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem
    finally:
        with contextlib.suppress(OSError):  # renamed, or never begun
            unfinished.unlink()


def _bring_to_disk(path: Path) -> None:
    """Flush what any process has written to a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_unfinished(path: str | os.PathLike[str]) -> bool:
    """Whether a file is named like those that `replacing` writes before it renames them."""
    return _UNFINISHED.fullmatch(Path(path).name) is not None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
