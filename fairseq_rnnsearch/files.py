"""Files and folders that appear whole or not at all, even after a power failure."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from fairseq_rnnsearch.errors import UserError

_UNFINISHED = f".{'[0-9a-f]' * 32}.unfinished"


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str], *, may_be_folder: bool = False, durable: bool = False
) -> Iterator[Path]:
    """Give a path to write, which becomes ``path`` when the block ends without an error.

    All of it is flushed before it gets its name, so that a power failure leaves the old or the new.
    It stands in a folder of its own, which this process locks while the block runs, so that
    `remove_unfinished` knows that its writer lives. If the block leaves nothing there, ``path``
    stays as it is.

    Args:
        may_be_folder: whether the block may make a folder, and replace one.
        durable: also flush the new name before going on.

    Raises:
        UserError: when it cannot be written or put in its place.
    """
    path = Path(path)
    if path.is_dir() and not may_be_folder:  # before the work, not after it
        raise UserError(f"{path} cannot be written: Is a directory")
    around = path.parent / f".{os.urandom(16).hex()}.unfinished"
    new, old = around / "new", around / "old"
    try:
        if path.parent == Path("/dev"):  # such as /dev/stdout
            yield path
            return
        around.mkdir()
        with locked(around):
            yield new
            if new.exists():
                for one in (new, *new.rglob("*")):
                    bring_to_disk(one)
                if path.is_dir():
                    os.replace(path, old)
                os.replace(new, path)
        if durable:
            _bring_names_to_disk(path.parent)
    except OSError as problem:
        is_of_another = problem.filename not in (None, *map(str, (path, around, new, old)))
        if is_of_another or isinstance(problem, BrokenPipeError):
            raise
        raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem
    finally:
        shutil.rmtree(around, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on a file or folder in the block; see `lock`."""
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
    import fcntl  # Windows has none, and reads models without

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
    """Flush the names in a folder and, because it may be new itself, those around it."""
    for around in (folder := folder.resolve(), *folder.parents):
        with contextlib.suppress(OSError):  # it may not be read, or not be flushed
            bring_to_disk(around)


def remove_unfinished(folder: str | os.PathLike[str]) -> None:
    """Remove what dead processes left unfinished in a folder, but not in its subfolders.

    What another process is still writing stays.
    """
    for path in Path(folder).glob(_UNFINISHED):
        with contextlib.suppress(OSError), locked(path):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")
