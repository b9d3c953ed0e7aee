"""``SHA256SUMS`` of a data folder: the digests of the files that fairseq-preprocess wrote.

The list has the format of ``sha256sum``. Damage can turn one word's number into another's, which
only a digest reveals.
"""

import glob
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import write_text

FILE_NAME = "SHA256SUMS"
_KINDS = ("dict.*.txt", "*.bin", "*.idx")

_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\s]+)")


def listed_files(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the names of all dictionaries and binarised files, with the time and size of each."""
    paths = sorted(path for kind in _KINDS for path in folder.glob(kind))
    stats = ((path.name, path.stat()) for path in paths)
    return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in stats}


def write_checksums(folder: Path, before: Mapping[str, tuple[int, int]]) -> None:
    """Write the digests of all dictionaries and binarised files that are there now.

    Args:
        before: what `listed_files` returned before files were added. Unchanged files keep their
            lines, so that damage to them still shows.
    """
    file, now = folder / FILE_NAME, listed_files(folder)
    known = _read(file) if file.exists() else {}
    write_list(folder, now, {one: known[one] for one in known if now.get(one) == before.get(one)})


def write_list(folder: Path, names: Iterable[str], known: Mapping[str, str] | None = None) -> None:
    """Write the digests of these files of a folder, some of which may be known."""
    lines = [f"{(known or {}).get(name) or digest(folder / name)}  {name}\n" for name in names]
    write_text(folder / FILE_NAME, "".join(lines))


def check_checksum(path: str | os.PathLike[str], writer: str = "fairseq-preprocess") -> None:
    """Compare a file with what the list beside it says, if there is a list that names it.

    Args:
        writer: the command that wrote the folder, for the message.

    Raises:
        UserError: the file has changed since the list was written, or the list cannot be read.
    """
    path = Path(path)
    known = path.with_name(FILE_NAME)
    if not known.exists():
        return
    expected = _read(known).get(path.name)
    if expected is not None and digest(path) != expected:
        raise UserError(
            f"{path} is not as {writer} wrote it (its sha256 differs from the one "
            f"in {known.name}): make the folder again, or, if you changed it on purpose, "
            f"remove its line from {known}"
        )


def check_split(folder: Path, split: str, languages: Iterable[str]) -> None:
    """Compare the files of a split and its parts, ``train``, ``train1``, ..., with the list.

    Raises:
        UserError: as from `check_checksum`.
    """
    folder, split = (folder / split).parent, Path(split).name
    for language in languages:
        for index in sorted(folder.glob(f"{glob.escape(split)}*.{language}.idx")):
            part = index.name.partition(".")[0].removeprefix(split)
            if not part or part.isdecimal():
                check_checksum(index)
                check_checksum(index.with_suffix(".bin"))


def _read(known: Path) -> dict[str, str]:
    """Read the digests of a list, by the names of the files."""
    digests: dict[str, str] = {}
    for number, line in enumerate(known.read_bytes().decode(errors="replace").splitlines(), 1):
        entry = _LINE.fullmatch(line)  # such as 3a7b...  dict.en.txt
        if not entry:
            raise UserError(
                f"{known}, line {number}: {line!r:.80} is not a line of sha256sum; remove the list "
                "or make it again"
            )
        digests[entry[2]] = entry[1]
    return digests


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
