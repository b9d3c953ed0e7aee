"""Files that appear whole or not at all, even after a power failure; and plain files to read."""

import contextlib
import errno
import fcntl
import functools
import json
import os
import re
import stat
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from fairseq_rnnsearch.errors import UserError

_LONGEST_LINE = 2**28  # bytes; of alignments, a sentence of thousands of words
_UNFINISHED = re.compile(r"\.[0-9a-f]{32}\.unfinished")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[Path]:
    """Give a file to write, which becomes ``path`` when the block ends without an error.

    Its content is flushed before it gets its name, so that a power failure leaves the old file or
    the new one. While the block runs, this process holds a lock on it, by which `remove_unfinished`
    knows that its writer lives. The block opens the file that is there (as often as it likes) and
    does not put another in its place.

    A device, a pipe or another path that is not a plain file is written to as it is. A link stays,
    and the file that it leads to is replaced, but a link of another user, who could let it lead
    anywhere, is replaced itself. A link that leads nowhere is refused, because the disk that it
    leads to may be missing.

    Args:
        durable: also flush the new name before going on, and replace every link: even one that
            leads nowhere must not end a training that has begun.

    Raises:
        UserError: when the file cannot be written or put in its place.
    """
    path = Path(path)
    if not durable:
        refuse_link_to_nothing(path)
    if _is_written_as_it_is(path):
        with _naming(path, path), _being_read(path):
            yield path
        return
    if not durable and path.is_symlink() and path.lstat().st_uid == os.geteuid():
        path = path.resolve()
    unfinished = path.parent / f".{uuid.uuid4().hex}.unfinished"
    try:
        with _naming(path, unfinished):
            if path.is_dir() and not path.is_symlink():  # before the work, not after it
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with _begun(unfinished):
                yield unfinished
                if unfinished.exists():
                    bring_to_disk(unfinished)
                    os.replace(unfinished, path)
            if durable:
                _bring_names_to_disk(path.parent)
    finally:
        with contextlib.suppress(OSError):  # renamed, or never begun
            unfinished.unlink()


def give_up(unfinished: Path) -> None:
    """Keep the file at the path of a `replacing` block, from inside that block."""
    if _UNFINISHED.fullmatch(unfinished.name):  # a device has what was written already
        unfinished.unlink(missing_ok=True)


def _is_written_as_it_is(path: Path) -> bool:
    """Tell whether a path must not be replaced: /dev/stdout may be a link to a file."""
    is_special = path.exists() and not path.is_file() and not path.is_dir()
    return is_special or path.parent == Path("/dev")


@contextlib.contextmanager
def _being_read(path: Path) -> Iterator[None]:
    """Keep a pipe open for writing, or opening it could wait endlessly for its first reader."""
    if not path.is_fifo():
        yield
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as problem:
        if problem.errno != errno.ENXIO:
            raise
        raise UserError(f"{path} is a pipe that no program reads") from problem
    try:
        yield
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless it is there.

    Raises:
        UserError: it cannot be made or written, is a file, or is a link that leads nowhere.
    """
    refuse_link_to_nothing(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; expected a folder, or the name of a new one")
    with _naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def refuse_overwriting(path: Path, inputs: Iterable[tuple[str, Path]]) -> None:
    """Raise a UserError if a path to write is a file that the command reads.

    Args:
        inputs: the files that it reads, each with the option that names it, for the message.
    """
    for option, file in inputs:
        if file.resolve() == path.resolve():
            named = f"{option} {file}".lstrip()
            raise UserError(f"{named} would be overwritten by the results; write them elsewhere")


def refuse_link_to_nothing(path: Path) -> None:
    """Raise a UserError for a link that leads nowhere."""
    if path.is_symlink() and not path.exists():
        raise UserError(f"{path} is a link to {path.readlink()}, which does not exist")


@contextlib.contextmanager
def _naming(path: Path, written: Path | None = None) -> Iterator[None]:
    """Name a path in the error if it cannot be written.

    Args:
        written: the file that the block writes; problems with other files are theirs.
    """
    try:
        yield
    except OSError as problem:
        if written and problem.filename not in (None, str(path), str(written)):
            raise
        raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem


@contextlib.contextmanager
def _begun(path: Path) -> Iterator[None]:
    """Make an empty file, locked while this process or a forked one has it open."""
    descriptor = _open_locked(path)
    while not path.exists():  # removed before it was locked
        os.close(descriptor)
        descriptor = _open_locked(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _open_locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with contextlib.suppress(OSError):  # some file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


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

    Files that another process may still be writing stay, and so do all if the file system has no
    locks.

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
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


def text_lines(path: str | os.PathLike[str], option: str = "") -> Iterator[str]:
    """Yield the lines of a text that a user names, without a byte order mark.

    It is a file or a pipe, but not a device, which may have no end.

    Args:
        option: the option that named it, for messages.

    Raises:
        UserError: if it cannot be read, is a device, is not UTF-8, or has an endless line.
    """
    name = f"{option} {path}".lstrip()
    try:
        with open(path, "rb", opener=_open_with_an_end) as file:
            lines = iter(lambda: file.readline(_LONGEST_LINE + 1), b"")
            for number, line in enumerate(lines, start=1):
                if len(line) > _LONGEST_LINE:
                    most = f"{_LONGEST_LINE >> 20} MiB"
                    raise UserError(f"{name}, line {number}: is longer than {most}")
                encoding = "utf-8-sig" if number == 1 else "utf-8"
                yield line.removesuffix(b"\n").decode(encoding)
    except UnicodeDecodeError as problem:
        raise UserError(f"{name}, line {number}: is not UTF-8; expected a text file") from problem
    except OSError as problem:
        raise UserError(f"{name} cannot be read: {problem.strerror}") from problem


def _open_with_an_end(path: str, flags: int) -> int:
    descriptor = os.open(path, flags)
    if stat.S_ISCHR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "a device, not a file", path)
    return descriptor


@contextlib.contextmanager
def open_plain(path: str | os.PathLike[str], most: int | None = None) -> Iterator[BinaryIO]:
    """Open a file of a folder that may be a stranger's.

    Reading a pipe there could wait forever, and a device may have no end.

    Args:
        most: the most bytes that such a file may have; None: any number.

    Raises:
        OSError: if it cannot be opened, is not a plain file, or is larger.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        if most is not None and state.st_size > most:
            said = f"{state.st_size:,} bytes, which is more than {most:,}"
            raise OSError(errno.EFBIG, said, str(path))
        yield file


def read_plain_text(path: str | os.PathLike[str], most: int) -> str:
    """Read UTF-8 text with ``open_plain``.

    Raises:
        OSError: as from ``open_plain``.
        UnicodeDecodeError: if it is not UTF-8.
    """
    with open_plain(path, most) as file:
        return file.read().decode("utf-8")


def read_json(path: str | os.PathLike[str], most: int) -> Any:
    """Read JSON with ``open_plain``.

    Raises:
        OSError: as from ``open_plain``.
        ValueError: if it is not JSON in UTF-8, or an object has a name twice, of which readers
            would take one or the other.
        RecursionError: if it is too deep.
    """
    return json.loads(read_plain_text(path, most), object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    [(name, times)] = Counter(name for name, _ in pairs).most_common(1) or [("", 0)]
    if times > 1:
        raise ValueError(f"an object has the name {name!r:.60} more than once")
    return dict(pairs)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
