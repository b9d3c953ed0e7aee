"""One training at a time in a save folder.

The lock is on an open file in the folder, and not on a path. A folder that is moved keeps it, and a
path that leads elsewhere now is noticed before the next checkpoint is written. Only the owner may
open the file, so that others who may read the folder cannot lock it. The kernel releases the lock
when the process ends, in whatever way. The processes that load data release it, because they may
outlive a killed training by seconds.
"""

import atexit
import contextlib
import fcntl
import functools
import logging
import os
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fairseq_rnnsearch.errors import UserError

logger = logging.getLogger(__name__)

NAME = ".fairseq_rnnsearch.lock"


def lock_and_verify(verify: Callable[[str], None], save_dir: str) -> None:
    """Lock ``--save-dir`` in the first process of a training, before anything is done there.

    Args:
        verify: fairseq's check that the folder can be written.
    """
    if "://" in save_dir:
        raise UserError(f"--save-dir {save_dir}: must be a folder of this machine")
    problem = lock(save_dir)
    try:
        verify(save_dir)
    except OSError as mistake:
        raise UserError(f"--save-dir {save_dir} cannot be written: {mistake.strerror}") from mistake
    if problem:
        logger.warning(
            f"--save-dir {save_dir} cannot be locked ({problem.strerror}): see to it that no "
            "other training uses it"
        )


class _Lock(NamedTuple):
    """A folder and its locked file, both open."""

    folder: int
    file: int


def lock(folder: str) -> OSError | None:
    """Lock a folder, created if missing, until this process ends.

    Returns:
        Why it cannot be locked; None: it is locked now.

    Raises:
        UserError: if another training has locked it, or the file to lock is not ours.
    """
    if any(_leads_to(held, folder) and _is_named(held) for held in _held()):
        return None
    with contextlib.ExitStack() as without_lock:
        try:
            os.makedirs(folder, exist_ok=True)
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            without_lock.callback(os.close, opened)
            taken = _Lock(opened, _locked(opened))
        except BlockingIOError:
            raise UserError(
                f"--save-dir {folder} is in use by another training{_holder(folder)}: wait for "
                "its end, or name another --save-dir"
            ) from None
        except OSError as problem:
            if what := _in_the_way(folder):
                raise UserError(
                    f"--save-dir {folder}: {NAME} in it, which trainings lock, is {what}: remove "
                    "it if no training needs it, or name another --save-dir"
                ) from problem
            return problem
        without_lock.pop_all()
    _held().append(taken)
    _let_go_in_forked_processes()
    atexit.register(_remove, taken)
    with contextlib.suppress(OSError):  # a full disk; the file only says who holds the lock
        os.ftruncate(taken.file, 0)
        os.write(taken.file, f"process {os.getpid()} on {socket.gethostname()}".encode())
    return None


def locked_elsewhere(save_dir: str) -> str | None:
    """Return a path to the folder that this training locked, if ``--save-dir`` now differs.

    The path names an open descriptor, so it leads to the folder wherever that was moved. If only
    the locked file was removed, the folder is locked anew.

    Raises:
        UserError: if the folder was removed, or another training has locked it since.
    """
    if not _held():
        return None
    if any(_leads_to(held, save_dir) for held in _held()):
        lock(save_dir)
        return None
    if not os.fstat(_held()[-1].folder).st_nlink:
        raise UserError(
            f"--save-dir {save_dir} was removed while this training ran, with its checkpoints"
        )
    return f"/proc/self/fd/{_held()[-1].folder}"


@functools.cache
def _held() -> list[_Lock]:
    """Return this process's locks, a list to modify."""
    return []


def _locked(folder: int) -> int:
    """Lock the file in an open folder, and return its descriptor."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        file = os.open(NAME, flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(_Lock(folder, file)):
                return file
        except OSError:
            os.close(file)
            raise
        os.close(file)  # its training has just ended and removed it


def _is_named(lock: _Lock) -> bool:
    """Tell whether a locked file is still the one of this name in its folder."""
    try:
        there = os.stat(NAME, dir_fd=lock.folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(lock.file), there)


def _leads_to(lock: _Lock, folder: str) -> bool:
    """Tell whether a path leads to a locked folder."""
    try:
        return os.path.samestat(os.fstat(lock.folder), os.stat(folder))
    except OSError:
        return False


def _holder(folder: str) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = Path(folder, NAME).read_text("utf-8")
        if re.fullmatch(r"process \d+ on [\w.-]+", text):
            return f" ({text})"
    return ""


def _in_the_way(folder: str) -> str:
    """Describe what has the lock file's name and cannot be opened, if anything."""
    path = os.path.join(folder, NAME)
    try:
        there = os.lstat(path)
    except OSError:
        return ""
    if not stat.S_ISREG(there.st_mode):
        return "a link" if stat.S_ISLNK(there.st_mode) else "a folder or a device"
    return "" if os.access(path, os.R_OK | os.W_OK) else f"a file of user {there.st_uid}"


@functools.cache
def _let_go_in_forked_processes() -> None:
    os.register_at_fork(after_in_child=_let_go)


def _let_go() -> None:
    """In a forked process, leave the lock to the parent."""
    while _held():
        for descriptor in _held().pop():
            os.close(descriptor)


def _remove(lock: _Lock) -> None:
    """Remove the file; a killed process leaves it to the next one."""
    if lock in _held() and _is_named(lock):
        with contextlib.suppress(OSError):
            os.unlink(NAME, dir_fd=lock.folder)
