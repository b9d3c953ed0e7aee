"""Archives that ``from_pretrained`` unpacks."""

import shutil
import tarfile
import tempfile
from pathlib import PurePosixPath
from types import SimpleNamespace

from fairseq import file_utils

from fairseq_rnnsearch.errors import UserError


def unpack_within_the_folder() -> None:
    """Refuse an archive that would write elsewhere; fairseq unpacks whatever it holds.

    It then moves what the members' names begin with to where the archive was, and would so move
    any folder of the user's.
    """
    file_utils.tarfile = SimpleNamespace(open=open_checked)


def open_checked(path: str, mode: str) -> tarfile.TarFile:
    """An archive of plain files and folders that stay below the place where it is unpacked.

    Raises:
        UserError: when it is none, or larger than the disk.
    """
    try:
        archive = tarfile.open(path, mode)  # noqa: SIM115  (the caller closes it)
        members = archive.getmembers()
    except (tarfile.TarError, EOFError, OSError, ValueError) as problem:
        raise UserError(f"{path} is no whole archive ({problem}): name a folder") from problem
    wrong = next((member.name for member in members if not _stays(member)), None)
    if wrong is not None:
        archive.close()
        raise UserError(
            f"{path} refused: its member {wrong!r} is a link, no plain file, or leaves the folder "
            "in which it is unpacked"
        )
    size, free = sum(m.size for m in members), shutil.disk_usage(tempfile.gettempdir()).free
    if size > free:
        archive.close()
        raise UserError(f"{path} refused: it unpacks to {size:,} bytes, and {free:,} are free")
    return archive


def _stays(member: tarfile.TarInfo) -> bool:
    path = PurePosixPath(member.name)
    return (member.isfile() or member.isdir()) and not path.is_absolute() and ".." not in path.parts
