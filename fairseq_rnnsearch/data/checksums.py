"""``SHA256SUMS`` of a data folder: what fairseq-preprocess wrote, in the form of ``sha256sum``.

A damaged number can be that of another word; nothing else would show it.
"""

import hashlib
import os
from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import write_text

FILE_NAME = "SHA256SUMS"
_KINDS = ("dict.*.txt", "*.bin", "*.idx")


def write_checksums(folder: Path) -> None:
    """Of all dictionaries and binarised files that are there now."""
    files = sorted(path for kind in _KINDS for path in Path(folder).glob(kind))
    lines = [f"{_digest(path)}  {path.name}\n" for path in files]
    if lines:
        write_text(Path(folder) / FILE_NAME, "".join(lines))


def check_checksum(path: str | os.PathLike[str]) -> None:
    """Compare a file with what the list beside it says, if there is one that knows it.

    Raises:
        UserError: when the file has changed since, or the list cannot be read.
    """
    path = Path(path)
    known = path.with_name(FILE_NAME)
    try:
        entries = dict(_entry(line) for line in known.read_text(encoding="ascii").splitlines())
        if path.name in entries and _digest(path) != entries[path.name]:
            raise UserError(
                f"{path} is not as fairseq-preprocess wrote it (its sha256 differs from the one "
                f"in {known.name}): make the data again, or, if you changed it on purpose, remove "
                f"its line from {known}"
            )
    except FileNotFoundError:
        return
    except OSError as problem:
        raise UserError(f"{problem.filename} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise UserError(f"{known} is no list of sha256sum; remove it or make it again") from problem


def _entry(line: str) -> tuple[str, str]:
    """Name and digest of a line such as ``3a7b...  dict.en.txt``."""
    digest, _, name = line.partition("  ")
    return name, digest


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
