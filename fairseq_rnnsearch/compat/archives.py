"""Archives that ``from_pretrained`` unpacks."""

import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
import tempfile
from pathlib import PurePosixPath
from typing import IO

from fairseq_rnnsearch.errors import UserError

# What a model's files shrink to is a quarter and no hundredth; bz2 makes 45,000 bytes of one.
MOST_TIMES_LARGER = 100
MOST_OF_LIST = 2**24  # bytes that describe the members
_SMALL = 2**20  # an archive of this size is no bomb, however small its file
_OPEN = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def check_archive(path: str) -> None:
    """Refuse an archive that would write elsewhere; fairseq unpacks whatever it holds.

    It then moves what the members' names begin with to where the archive was, and would so move
    any folder of the user's.

    Args:
        path: where a folder is, nothing is checked.

    Raises:
        UserError: when a file is no archive of plain files and folders that stay below where it is
            unpacked, larger than the disk, or many times larger than its file.
    """
    if not os.path.isfile(path):
        return
    extension = os.path.splitext(path)[1]
    if extension not in _OPEN:
        raise UserError(f"{path} is no folder and no .tar.gz, .tar.bz2 or .tar.xz: name a folder")
    with _Bounded(_OPEN[extension](path), path) as unpacked:
        try:
            archive = tarfile.open(fileobj=unpacked, mode="r:")  # noqa: SIM115  (nothing to close)
            _check_members(archive, path, shutil.disk_usage(tempfile.gettempdir()).free)
        except UserError:
            raise
        except Exception as problem:  # damage can be anywhere, and then raises anything
            raise UserError(f"{path} is no whole archive ({problem}): name a folder") from problem


class _Bounded(io.RawIOBase):
    """What a file unpacks to, as far as it is allowed.

    What is read of it describes its members, and is bounded more tightly: the rest is passed over.
    """

    def __init__(self, file: IO[bytes], path: str) -> None:
        super().__init__()
        self._file, self._path = file, path
        self._most = max(MOST_TIMES_LARGER * os.path.getsize(path), _SMALL)
        self._list = MOST_OF_LIST

    def read(self, size: int = -1) -> bytes:
        self._list -= size
        if size < 0 or self._list < 0:
            raise UserError(
                f"{self._path} refused: its members are described in more than "
                f"{MOST_OF_LIST:,} bytes"
            )
        self._check(self._file.tell() + size)
        return self._file.read(size)

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        self._check(place)
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()

    def _check(self, place: int) -> None:
        if place > self._most + tarfile.RECORDSIZE:  # it may end with so many zeros
            raise UserError(
                f"{self._path} refused: it unpacks to more than {self._most:,} bytes, "
                f"{MOST_TIMES_LARGER} times its own size"
            )


def _check_members(archive: tarfile.TarFile, path: str, free: int) -> None:
    """Check each member before what follows it is unpacked."""
    size = 0
    for member in archive:
        if not _stays(member):
            raise UserError(
                f"{path} refused: its member {member.name!r:.200} is a link, no plain file, or "
                "leaves the folder in which it is unpacked"
            )
        size += member.size
        if size > free:
            raise UserError(f"{path} refused: it unpacks to {size:,} bytes, and {free:,} are free")


def _stays(member: tarfile.TarInfo) -> bool:
    path = PurePosixPath(member.name)
    plain = member.isdir() or (member.isfile() and not member.issparse())
    return plain and not path.is_absolute() and ".." not in path.parts
