"""Files that appear whole or not at all, even after a power failure."""

import contextlib
import fcntl
import functools
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from fairseq_rnnsearch.errors import UserError

_UNFINISHED = re.compile(r"\.[0-9a-f]{32}\.unfinished")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[Path]:
    """Give a file to write, which becomes ``path`` when the block ends without an error.

    Its content is flushed before it gets its name, so that a power failure leaves the old file or
    the new one. While the block runs, this process holds a lock on it, by which `remove_unfinished`
    knows that its writer lives. The block opens the file that is there (as often as it likes) and
    does not put another in its place; if it removes it, ``path`` stays as it is.

    Args:
        durable: also flush the new name before going on.

    Raises:
        UserError: when the file cannot be written or put in its place.
    """
    path = Path(path)
    if path.is_dir():  # before the work, not after it
        raise UserError(f"{path} cannot be written: Is a directory")
    unfinished = path.parent / f".{uuid.uuid4().hex}.unfinished"
    try:
        if path.parent == Path("/dev"):  # such as /dev/stdout
            yield path
            return
        with _begun(unfinished):
            yield unfinished
            if unfinished.exists():
                bring_to_disk(unfinished)
                os.replace(unfinished, path)
        if durable:
            _bring_names_to_disk(path.parent)
    except OSError as problem:
        if problem.filename not in (None, str(path), str(unfinished)):  # one of another file
            raise
        raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem
    finally:
        with contextlib.suppress(OSError):  # renamed, or never begun
            unfinished.unlink()


def refuse_overwriting(path: Path, inputs: Iterable[tuple[str, Path]]) -> None:
    """Raise a UserError if a path to write is a file that the command reads.

    Args:
        inputs: the files that it reads, each with the option that names it, for the message.
    """
    for option, file in inputs:
        if file.resolve() == path.resolve():
            named = f"{option} {file}".lstrip()
            raise UserError(f"{named} would be overwritten by the results; write them elsewhere")


@contextlib.contextmanager
def _begun(path: Path) -> Iterator[None]:
    """Make an empty file, locked while this process or a forked one has it open."""
    descriptor = lock(path)
    try:
        yield
    finally:
        os.close(descriptor)


def lock(path: Path) -> int:
    """Lock a folder, or a file that is made if it is missing, where the file system has locks.

    Returns:
        The descriptor that holds the lock, until it is closed or this process ends.

    Raises:
        BlockingIOError: if another process has locked it.
    """
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise
        except OSError:  # it has none
            pass
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # its name was removed before it was locked


def bring_to_disk(path: str | os.PathLike[str]) -> None:
    """Flush a file, whichever process wrote it, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _bring_names_to_disk(folder: Path) -> None:
    """Flush the names in a folder and, because the folder may be new itself, its own name."""
    _bring_way_to_disk(folder.absolute())
    with contextlib.suppress(OSError):  # some file systems cannot flush folders
        bring_to_disk(folder)


@functools.cache
def _bring_way_to_disk(folder: Path) -> None:
    """Flush the names of a folder and of its parents, once; the path may contain links."""
    for around in {*folder.parents, *folder.resolve().parents}:
        with contextlib.suppress(OSError):  # or they may not be read
            bring_to_disk(around)


def remove_unfinished(folder: str | os.PathLike[str]) -> int:
    """Remove what dead processes left unfinished in a folder, but not in its subfolders.

    Files that another process is still writing stay.

    Returns:
        How many files are removed.
    """
    removed = 0
    with contextlib.suppress(OSError):
        for path in Path(folder).iterdir():
            if _UNFINISHED.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(path)
                    removed += 1
    return removed


def _remove_if_abandoned(path: Path) -> None:
    """Remove a file that no process has locked.

    Raises:
        OSError: if it is in use or cannot be removed.
    """
    descriptor = lock(path)
    try:
        path.unlink()
    finally:
        os.close(descriptor)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
