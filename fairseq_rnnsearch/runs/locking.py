"""One training at a time in a save folder.

The kernel releases the lock when the process ends, in whatever way. It is no record lock, which is
lost as soon as the process reads and closes the file. The processes that load data let go of it,
because those of a killed training may outlive it by seconds.
"""

import atexit
import contextlib
import fcntl
import functools
import logging
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

from fairseq_rnnsearch.errors import UserError

logger = logging.getLogger(__name__)

NAME = ".fairseq_rnnsearch.lock"


def lock_and_verify(verify: Callable[[str], None], save_dir: str) -> None:
    """Lock ``--save-dir`` in the first process of a training, before anything is done there.

    Args:
        verify: fairseq's check that the folder can be written.
    """
    problem = None if "://" in save_dir else lock(save_dir)  # object stores have no locks
    try:
        verify(save_dir)
    except OSError as mistake:
        raise UserError(f"--save-dir {save_dir} cannot be written: {mistake.strerror}") from mistake
    if problem:
        logger.warning(
            f"--save-dir {save_dir} cannot be locked ({problem.strerror}): see to it that no "
            "other training uses it"
        )


def lock(folder: str) -> OSError | None:
    """Lock a folder, which is made where there is none, until this process ends.

    Returns:
        Why it cannot be locked; None: it is locked now.

    Raises:
        UserError: when another training has locked it.
    """
    path = os.path.join(folder, NAME)
    if any(_is_at(descriptor, path) for descriptor in _held()):
        return None
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor = _locked(path)
    except BlockingIOError:
        raise UserError(
            f"--save-dir {folder} is in use by another training{_holder(path)}: wait for its end, "
            "or name another --save-dir"
        ) from None
    except OSError as problem:
        return problem
    _held().append(descriptor)
    _let_go_in_forked_processes()
    atexit.register(_remove, path, descriptor)
    with contextlib.suppress(OSError):  # of a full disk; the file says only who holds the lock
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
    return None


@functools.cache
def _held() -> list[int]:
    """Return the descriptors of this process's locks, to add to and take from."""
    return []


def _locked(path: str) -> int:
    """Return the descriptor of a file, with a lock on it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its training has just ended and removed it


def _is_at(descriptor: int, path: str) -> bool:
    """Tell whether an open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(path: str) -> str:
    with contextlib.suppress(OSError):
        text = Path(path).read_text(errors="replace")
        if re.fullmatch(r"process \d+ on [\w.-]+", text):
            return f" ({text})"
    return ""


@functools.cache
def _let_go_in_forked_processes() -> None:
    os.register_at_fork(after_in_child=_let_go)


def _let_go() -> None:
    """Leave the lock to the process that has taken it, in one that was forked from it."""
    while _held():
        os.close(_held().pop())


def _remove(path: str, descriptor: int) -> None:
    """Leave no file behind; a killed process does, which the next one takes."""
    if descriptor in _held():
        with contextlib.suppress(OSError):
            os.unlink(path)
