"""C that is compiled for this machine the first time that it is wanted, and kept.

Libraries are kept in ``$XDG_CACHE_HOME/fairseq_rnnsearch`` (``~/.cache``), each with a checksum at
its end. Their code is run: a file is taken only if it is what was written, and nobody else may
write to it or to its folder; in doubt it is compiled anew. ``$CC`` names the compiler.
"""

import contextlib
import ctypes
import hashlib
import logging
import os
import shlex
import stat
import subprocess
import tempfile
from pathlib import Path

CHECKSUM = hashlib.sha256

logger = logging.getLogger(__name__)


def load(source: Path, options: list[str]) -> ctypes.CDLL:
    """Return the functions of a C file.

    Raises:
        OSError, ValueError, subprocess.SubprocessError: where it cannot be compiled or loaded.
    """
    command = [*shlex.split(os.environ.get("CC") or "cc"), *options]
    name, folder = f"{source.stem}-{_key(source, command)}.so", _private_folder()
    cached = None if folder is None else _read(folder / name)
    if cached is not None:
        try:
            return _functions(cached, folder)
        except OSError as problem:  # such as one from a newer system that shares the home
            logger.info("%s: compiled anew", problem)
    library = _compiled(source, command)
    functions = _functions(library, folder)
    if folder is not None:
        _keep(library, folder / name)
    return functions


def _key(source: Path, command: list[str]) -> str:
    """Return what a library depends on, in short, as a home may be shared.

    That is the source, how it is compiled, the compiler and the processor.

    What a compiler defines beforehand names its version and, for ``-march=native``, the
    instructions that it will use, whatever the processor and the system.
    """
    defined = _run([*command, "-dM", "-E", "-x", "c", os.devnull])
    parts = (source.read_bytes(), repr(command).encode(), defined)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _private_folder() -> Path | None:
    """Return the folder of libraries, made if need be; None where others may write there."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # a relative one is to be ignored, by the specification
        home = Path(named) if os.path.isabs(named) else Path.home() / ".cache"
        if not home.is_absolute():
            raise OSError(f"the home, {home}, is not named from the root")
        folder = home / "fairseq_rnnsearch"
        for level in (*reversed(folder.parents), folder):
            level.mkdir(mode=0o700, exist_ok=True)
        private = _is_ours(folder.stat())
    except (OSError, RuntimeError) as problem:  # RuntimeError: the user has no home
        logger.info("compiled steps are not kept: %s", problem)
        return None
    if not private:
        logger.info("compiled steps are not kept: others may write to %s", folder)
    return folder if private else None


def _is_ours(state: os.stat_result) -> bool:
    """Return whether nobody but us may write to a file or folder, as its permissions are now."""
    return state.st_uid == os.geteuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: Path) -> bytes | None:
    """Return a library that was kept; None where there is none, or one that is to be doubted."""
    try:
        with open(path, "rb", opener=_no_link) as file:
            state = os.fstat(file.fileno())
            trusted = stat.S_ISREG(state.st_mode) and _is_ours(state)
            content = file.read() if trusted else b""
    except FileNotFoundError:
        return None
    except OSError:
        content = b""
    size = len(content) - CHECKSUM().digest_size
    if size > 0 and content[size:] == _checksum(content[:size], path):
        return content[:size]
    logger.warning("%s is not as it was written, or others may write to it: compiled anew", path)
    return None


def _no_link(path: str, flags: int) -> int:
    """Open a file that is no link, without waiting for a writer should it be a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _checksum(library: bytes, path: Path) -> bytes:
    """Return the checksum of a library and its name.

    One under another's name would be called with other types.
    """
    return CHECKSUM(path.name.encode() + b"\0" + library).digest()


def _compiled(source: Path, command: list[str]) -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(scratch) / "made.so"
        _run([*command, source, "-o", library, "-lm"])
        return library.read_bytes()


def _functions(library: bytes, folder: Path | None) -> ctypes.CDLL:
    """Load these very bytes, from a copy that nobody else knows of.

    The file that they were read from may be exchanged or cut at any time, as by another machine
    that shares the home, and the process would end with SIGBUS.
    """
    # programs may not be run from either place
    for place in (None, folder):
        try:
            with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as scratch:
                copy = Path(scratch) / "copy.so"
                copy.write_bytes(library)
                return ctypes.CDLL(str(copy))
        except OSError as problem:
            failure = problem
    raise failure


def _keep(library: bytes, path: Path) -> None:
    """Put a library under its name, whole or not at all; a failure costs only time."""
    try:
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with open(descriptor, "wb") as file:
                file.write(library + _checksum(library, path))
                file.flush()
                os.fsync(descriptor)
            os.replace(unfinished, path)
        finally:
            with contextlib.suppress(OSError):  # renamed
                os.unlink(unfinished)
    except OSError as problem:
        logger.info("compiled steps are not kept: %s", problem)


def _run(command: list[str | Path]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout


def reason(problem: Exception) -> str:
    """Return why ``load`` failed, in a line: the compiler's first, where it said something."""
    output = problem.stderr if isinstance(problem, subprocess.CalledProcessError) else b""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[0] if lines else str(problem)
