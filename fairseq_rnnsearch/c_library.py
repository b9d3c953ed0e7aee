"""Compile C for this machine on first use, and cache the library.

Without a working compiler, PyTorch's operations do the work.

The cache is ``$XDG_CACHE_HOME/fairseq_rnnsearch`` (default ``~/.cache``). As its libraries are
executed, it is used only if nobody else may write to it or to a folder above it. ``$CC`` names the
compiler.
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
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

# OpenMP must be the library that torch has loaded, or there would be a second pool of threads
FLAGS = "-O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -shared -fPIC"

POINTER, INTEGER, REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double  # types of arguments

# the compiler's options for each type of numbers
_DEFINES = {torch.float32: (), torch.float64: ("-DDOUBLE",), torch.bfloat16: ("-DBFLOAT16",)}
TYPES = tuple(_DEFINES)

logger = logging.getLogger(__name__)

_first_use = threading.Lock()


class Functions(NamedTuple):
    """Functions of a C file, which is compiled for each type of numbers.

    Attributes:
        source: the file.
        arguments: the types of each function's arguments; all functions return nothing.
        types: those that the functions are for.
    """

    source: Path
    arguments: Mapping[str, tuple]
    types: tuple[torch.dtype, ...] = (torch.float32, torch.float64)

    def of_type(self, dtype: torch.dtype) -> ctypes.CDLL | None:
        """Return the functions for a type, or None if they cannot be compiled or loaded."""
        if dtype not in self.types:
            return None
        with _first_use:  # functools.cache would let two threads compile
            return _load(self.source, _DEFINES[dtype], tuple(self.arguments.items()))

    def that_take(self, *tensors: Tensor) -> ctypes.CDLL | None:
        """Return the functions for tensors of one type, or None; C trusts its pointers."""
        types = {x.dtype for x in tensors}
        if len(types) != 1 or not all(
            x.is_cpu and x.layout is torch.strided and x.is_contiguous() for x in tensors
        ):
            return None
        return self.of_type(types.pop())


@cache
def _load(
    source: Path, defines: tuple[str, ...], arguments: tuple[tuple[str, tuple], ...]
) -> ctypes.CDLL | None:
    try:
        functions = _library(source, [*FLAGS.split(), *defines])
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        logger.info("%s is not compiled, which is slower: %s", source.name, _reason(problem))
        return None
    for name, types in arguments:
        function = getattr(functions, name)
        function.argtypes, function.restype = types, None
    return functions


def _library(source: Path, options: list[str]) -> ctypes.CDLL:
    command = [*shlex.split(os.environ.get("CC") or "cc"), *options]
    name = f"{source.stem}-{_key(source, command)}.so"
    try:
        library = _private_folder() / name
        with contextlib.suppress(OSError):  # it is not there, or damaged
            return ctypes.CDLL(str(library))
        _compile(source, command, library)
        return ctypes.CDLL(str(library))
    # no home, a full disk, a file system mounted noexec, or a library from a newer system
    except (OSError, RuntimeError, subprocess.SubprocessError) as problem:
        logger.info("what is compiled is not kept: %s", _reason(problem))
    with tempfile.TemporaryDirectory() as scratch:
        _compile(source, command, Path(scratch) / name)
        return ctypes.CDLL(str(Path(scratch) / name))


def _key(source: Path, command: list[str]) -> str:
    """Return a digest of all that a library depends on, as several machines may share a home.

    That is the source, the options, the compiler and the processor. The compiler's predefined
    macros give its version and, for ``-march=native``, the instruction set.
    """
    parts = (source.read_bytes(), repr(command).encode(), _macros(tuple(command)))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


@cache
def _macros(command: tuple[str, ...]) -> bytes:
    return _run([*command, "-dM", "-E", "-x", "c", os.devnull])


def _private_folder() -> Path:
    """Return the cache folder, created if missing.

    Raises:
        OSError: if others may write to it or to a folder above it, links followed; if nothing in
            it may be run.
        RuntimeError: if the user has no home.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG specification says to ignore a relative path
    home = Path(named) if os.path.isabs(named) else Path.home() / ".cache"
    folder = (home / "fairseq_rnnsearch").resolve()
    for level in (*reversed(folder.parents), folder):
        level.mkdir(mode=0o700, exist_ok=True)
        state = level.stat()
        shared = state.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and (
            level == folder or not state.st_mode & stat.S_ISVTX
        )
        owners = (os.geteuid(),) if level == folder else (os.geteuid(), 0)
        if shared or state.st_uid not in owners:
            raise PermissionError(f"others may write to {level}")
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise PermissionError(f"{folder} is on a file system that is mounted noexec")
    return folder


def _compile(source: Path, command: list[str], library: Path) -> None:
    """Compile, and let the library appear whole or not at all."""
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".") as scratch:
        built = Path(scratch) / library.name
        _run([*command, source, "-o", built, "-lm"])
        built.chmod(0o600)
        with open(built, "rb") as file:
            os.fsync(file.fileno())
        os.replace(built, library)


def _run(command: list[str | Path]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout


def _reason(problem: Exception) -> str:
    """Return in one line why loading failed: the compiler's first line, if it printed any."""
    output = problem.stderr if isinstance(problem, subprocess.CalledProcessError) else b""
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[0] if lines else str(problem)
