"""``elementwise`` in C, compiled for this machine the first time that it is wanted.

The library, which takes a second to make, is kept in ``$XDG_CACHE_HOME/fairseq_rnnsearch``
(``~/.cache``), a folder of the user's own. ``$CC`` names the compiler. Where there is none, or it
fails, torch's operations do the work.
"""

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.elementwise import Elementwise, accurate_type, smoothing

SOURCE = Path(__file__).with_name("elementwise.c")
# for torch's pool of threads and not a second one, OpenMP must be the library that torch has loaded
FLAGS = "-O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -shared -fPIC"
TYPES = {torch.float32: "", torch.float64: "-DDOUBLE", torch.bfloat16: "-DBFLOAT16"}

POINTER, INTEGER, REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
_MATRIX = (POINTER, INTEGER)  # and how far its rows lie apart
ARGUMENTS = {
    "unit_gates": (*3 * (INTEGER,), *3 * _MATRIX, *4 * (POINTER,)),
    "unit_state": (*3 * (INTEGER,), *3 * _MATRIX, *3 * (POINTER,)),
    "unit_backward": (*3 * (INTEGER,), POINTER, *2 * _MATRIX, *2 * (POINTER,), *_MATRIX),
    "unit_backward_reset": (*3 * (INTEGER,), *4 * (POINTER,), *_MATRIX),
    "align": (*5 * (INTEGER,), POINTER, *_MATRIX, *3 * (POINTER,)),
    "align_backward": (*4 * (INTEGER,), POINTER, *_MATRIX, *5 * (POINTER,), *_MATRIX, POINTER),
    "cost_of_words": (*3 * (INTEGER,), *2 * (POINTER,), *2 * (REAL,), *5 * (POINTER,)),
    "log_softmax": (*3 * (INTEGER,), POINTER, REAL, POINTER),
}

logger = logging.getLogger(__name__)


def elementwise(operands: torch.dtype) -> Elementwise:
    """For products in a type, and the number of threads that torch has now."""
    made = library(operands)
    return Elementwise() if made is None else Compiled(made)


@cache
def library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The functions for products in a type; None where they cannot be compiled."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    options = [*FLAGS.split(), *TYPES[dtype].split()]
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = _private_folder() or Path(scratch)
            path = folder / f"{SOURCE.stem}-{_key(compiler, options)}.so"
            if not path.exists():
                made = folder / f".{path.name}.{os.getpid()}"
                _run([*compiler, *options, SOURCE, "-o", made, "-lm"])
                os.replace(made, path)
            functions = ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as problem:
        logger.info("steps are not compiled, which makes them slower: %s", _reason(problem))
        return None
    for name, arguments in ARGUMENTS.items():
        function = getattr(functions, name)
        function.argtypes, function.restype = arguments, None
    return functions


def _private_folder() -> Path | None:
    """Where libraries are kept: nobody else may write there, for their code is run."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache_home) / "fairseq_rnnsearch"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
    except OSError:
        return None
    private = state.st_uid == os.getuid() and not state.st_mode & 0o022
    return folder if private and os.access(folder, os.W_OK) else None


def _key(compiler: list[str], options: list[str]) -> str:
    """Of the source, how it is compiled, the compiler and the processor: a home may be shared."""
    try:
        cpu = Path("/proc/cpuinfo").read_bytes()
        processor = b"".join(sorted({x for x in cpu.splitlines() if x.startswith(b"flags")}))
    except OSError:
        processor = platform.processor().encode()
    command, version = repr((compiler, options)).encode(), _run([*compiler, "--version"])
    parts = (SOURCE.read_bytes(), command, version, processor)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _run(command: list[str | Path]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True).stdout


def _reason(problem: Exception) -> str:
    output = getattr(problem, "stderr", None)
    lines = output.decode(errors="replace").strip().splitlines() if output else []
    return lines[0] if lines else str(problem)


class Compiled(Elementwise):
    """See ``Elementwise``."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self.parts = torch.get_num_threads()
        self._c = functions

    def unit_gates(
        self,
        x: Tensor,
        y: Tensor,
        more: Tensor | None,
        h: Tensor,
        present: Tensor | None,
        a: Tensor,
        reset_h: Tensor,
    ) -> None:
        self._c.unit_gates(
            self.parts, *h.shape, *_rows(x), *_rows(y), *_rows(more), h.data_ptr(),
            None if present is None else present.data_ptr(), a.data_ptr(), reset_h.data_ptr(),
        )  # fmt: skip

    def unit_state(
        self, x: Tensor, y: Tensor, more: Tensor | None, h: Tensor, a: Tensor, out: Tensor
    ) -> None:
        self._c.unit_state(
            self.parts, *h.shape, *_rows(x), *_rows(y), *_rows(more), h.data_ptr(), a.data_ptr(),
            out.data_ptr(),
        )  # fmt: skip

    def unit_backward(
        self,
        dh: Tensor,
        d_out: Tensor | None,
        more: Tensor | None,
        a: Tensor,
        h: Tensor,
        da: Tensor,
    ) -> None:
        self._c.unit_backward(
            self.parts, *h.shape, dh.data_ptr(), *_rows(d_out), *_rows(more), a.data_ptr(),
            h.data_ptr(), *_rows(da),
        )  # fmt: skip

    def unit_backward_reset(
        self, dh: Tensor, d_reset_h: Tensor, a: Tensor, h: Tensor, da: Tensor
    ) -> None:
        self._c.unit_backward_reset(
            self.parts, *h.shape, dh.data_ptr(), d_reset_h.data_ptr(), a.data_ptr(), h.data_ptr(),
            *_rows(da),
        )  # fmt: skip

    def align(self, keys: Tensor, query: Tensor, v: Tensor, padding: Tensor, out: Tensor) -> None:
        width = len(out) // max(1, len(keys))
        self._c.align(
            self.parts, len(keys), width, *keys.shape[1:], keys.data_ptr(), *_rows(query),
            v.data_ptr(), padding.data_ptr(), out.data_ptr(),
        )  # fmt: skip

    def align_backward(
        self,
        keys: Tensor,
        query: Tensor,
        v: Tensor,
        alpha: Tensor,
        d_alpha: Tensor,
        d_keys: Tensor,
        d_v: Tensor,
        d_query: Tensor,
    ) -> None:
        scratch = torch.empty_like(d_v)
        self._c.align_backward(
            self.parts, *keys.shape, keys.data_ptr(), *_rows(query), v.data_ptr(),
            alpha.data_ptr(), d_alpha.data_ptr(), d_keys.data_ptr(), d_v.data_ptr(),
            *_rows(d_query), scratch.data_ptr(),
        )  # fmt: skip

    def cost_of_words(
        self, x: Tensor, words: Tensor, label_smoothing: float, d_x: Tensor | None, d_bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        kept, spread = smoothing(label_smoothing, x.size(1))
        nll, all_symbols = torch.empty(2, len(x), dtype=accurate_type(x.dtype))
        scratch = torch.empty_like(d_bias)
        self._c.cost_of_words(
            self.parts, *x.shape, x.data_ptr(), words.data_ptr(), kept, spread, nll.data_ptr(),
            all_symbols.data_ptr(), None if d_x is None else d_x.data_ptr(), d_bias.data_ptr(),
            scratch.data_ptr(),
        )  # fmt: skip
        nll = nll.sum()
        cost = kept * nll
        return (cost + spread * all_symbols.sum() if label_smoothing else cost), nll

    def log_softmax(self, x: Tensor, temperature: float, out: Tensor) -> None:
        self._c.log_softmax(self.parts, *x.shape, x.data_ptr(), temperature, out.data_ptr())


def _rows(x: Tensor | None) -> tuple[int | None, int]:
    return (None, 0) if x is None else (x.data_ptr(), x.stride(0))
