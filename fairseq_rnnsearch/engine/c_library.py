"""Compile C for this machine on first use, and cache the library below ``~/.cache``.

Without a working compiler, NumPy translates and PyTorch trains. ``$CC`` names the compiler.
"""

import ctypes
import hashlib
import logging
import os
import shlex
import subprocess
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fairseq_rnnsearch.files import replacing

_NUMBERS = Path(__file__).with_name("numbers.h")  # which any source may include
# OpenMP must be the library that torch has loaded, or there would be a second pool of threads
FLAGS = "-O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -shared -fPIC"

POINTER, INTEGER, REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double  # types of arguments

logger = logging.getLogger(__name__)

_first_use = threading.Lock()


def compiled(
    source: Path, arguments: Mapping[str, tuple], defines: tuple[str, ...] = ()
) -> ctypes.CDLL | None:
    """Return the functions of a C file, or None if they cannot be compiled or loaded.

    Args:
        source: the file.
        arguments: the types of each function's arguments; functions return a whole number or
            nothing.
        defines: options of the compiler.
    """
    with _first_use:  # functools.cache would let two threads compile
        return _load(source, defines, tuple(arguments.items()))


@cache
def _load(
    source: Path, defines: tuple[str, ...], arguments: tuple[tuple[str, tuple], ...]
) -> ctypes.CDLL | None:
    try:
        command = [*shlex.split(os.environ.get("CC") or "cc"), *FLAGS.split(), *defines]
        functions = ctypes.CDLL(str(_library(source, command)))
    except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as problem:
        output = getattr(problem, "stderr", b"").decode(errors="replace").strip()
        said = (output or str(problem)).splitlines()[0]
        logger.info("%s is not compiled, which is slower: %s", source.name, said)
        return None
    for name, types in arguments:
        function = getattr(functions, name)
        function.argtypes, function.restype = types, INTEGER
    return functions


def _library(source: Path, command: list[str]) -> Path:
    """Return the library, which is compiled unless it is there; it appears whole or not at all.

    Its name is a digest of the source, the options and the compiler with what it knows of the
    processor, as several machines may share a home.
    """
    texts = source.read_bytes(), _NUMBERS.read_bytes()
    parts = *texts, repr(command).encode(), _macros(tuple(command))
    name = f"{source.stem}-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}.so"
    library = Path.home() / ".cache" / "fairseq_rnnsearch" / name
    if not library.exists():
        library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(library) as unfinished:
            _run([*command, f"-I{_NUMBERS.parent}", source, "-o", unfinished, "-lm"])
    return library


@cache
def _macros(command: tuple[str, ...]) -> bytes:
    """Return the compiler's predefined macros: its version and the processor's instructions."""
    return _run([*command, "-dM", "-E", "-x", "c", os.devnull])


def _run(command: list[str | Path]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout
