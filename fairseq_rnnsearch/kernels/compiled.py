"""``elementwise`` in C, compiled for this machine the first time that it is wanted.

Where there is no compiler, or it fails, torch's operations do the work. C takes the numbers behind
a pointer for what it was promised, so each tensor is checked at each call, which costs half a
microsecond: one of another type or shape would be read, or written, as if it were the right one.
"""

import ctypes
import logging
import subprocess
import threading
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels import c_library
from fairseq_rnnsearch.kernels.elementwise import (
    Elementwise,
    accurate_type,
    check_words,
    smoothing,
)

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

_first_use = threading.Lock()


def elementwise(operands: torch.dtype) -> Elementwise:
    """For products in a type, and the number of threads that torch has now."""
    made = library(operands)
    return Elementwise() if made is None else Compiled(made, operands)


def library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The functions for products in a type; None where they cannot be compiled."""
    with _first_use:  # the cache of functools lets two threads in
        return _library(dtype)


@cache
def _library(dtype: torch.dtype) -> ctypes.CDLL | None:
    try:
        functions = c_library.load(SOURCE, [*FLAGS.split(), *TYPES[dtype].split()])
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        why = c_library.reason(problem)
        logger.info("steps are not compiled, which makes them slower: %s", why)
        return None
    for name, arguments in ARGUMENTS.items():
        function = getattr(functions, name)
        function.argtypes, function.restype = arguments, None
    return functions


class Compiled(Elementwise):
    """See ``Elementwise``.

    Raises:
        ValueError: by each function, for a tensor that is not as ``Elementwise`` describes it;
            nothing has been written then.
    """

    def __init__(self, functions: ctypes.CDLL, operands: torch.dtype) -> None:
        self.parts = torch.get_num_threads()
        self._c = functions
        self._operands, self._exact = operands, accurate_type(operands)

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
        exact, operands = self._exact, self._operands
        B, n = _sizes("unit_gates: h", h, 2)
        self._c.unit_gates(
            self.parts, B, n,
            *_rows("unit_gates: x", x, exact, B, 2 * n),
            *_rows("unit_gates: y", y, operands, B, 2 * n),
            *((None, 0) if more is None else _rows("unit_gates: more", more, operands, B, 2 * n)),
            _whole("unit_gates: h", h, exact, (B, n)),
            None if present is None else _whole("unit_gates: present", present, exact, (B,)),
            _whole("unit_gates: a", a, exact, (B, 3 * n)),
            _whole("unit_gates: reset_h", reset_h, operands, (B, n)),
        )  # fmt: skip

    def unit_state(
        self, x: Tensor, y: Tensor, more: Tensor | None, h: Tensor, a: Tensor, out: Tensor
    ) -> None:
        exact, operands = self._exact, self._operands
        B, n = _sizes("unit_state: h", h, 2)
        self._c.unit_state(
            self.parts, B, n,
            *_rows("unit_state: x", x, exact, B, n),
            *_rows("unit_state: y", y, operands, B, n),
            *((None, 0) if more is None else _rows("unit_state: more", more, operands, B, n)),
            _whole("unit_state: h", h, exact, (B, n)),
            _whole("unit_state: a", a, exact, (B, 3 * n)),
            _whole("unit_state: out", out, exact, (B, n)),
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
        exact, operands = self._exact, self._operands
        B, n = _sizes("unit_backward: h", h, 2)
        self._c.unit_backward(
            self.parts, B, n,
            _whole("unit_backward: dh", dh, exact, (B, n)),
            *((None, 0) if d_out is None else _rows("unit_backward: d_out", d_out, operands, B, n)),
            *((None, 0) if more is None else _rows("unit_backward: more", more, operands, B, n)),
            _whole("unit_backward: a", a, exact, (B, 3 * n)),
            _whole("unit_backward: h", h, exact, (B, n)),
            *_rows("unit_backward: da", da, operands, B, 3 * n),
        )  # fmt: skip

    def unit_backward_reset(
        self, dh: Tensor, d_reset_h: Tensor, a: Tensor, h: Tensor, da: Tensor
    ) -> None:
        exact, operands = self._exact, self._operands
        B, n = _sizes("unit_backward_reset: h", h, 2)
        self._c.unit_backward_reset(
            self.parts, B, n,
            _whole("unit_backward_reset: dh", dh, exact, (B, n)),
            _whole("unit_backward_reset: d_reset_h", d_reset_h, operands, (B, n)),
            _whole("unit_backward_reset: a", a, exact, (B, 3 * n)),
            _whole("unit_backward_reset: h", h, exact, (B, n)),
            *_rows("unit_backward_reset: da", da, operands, B, 3 * n),
        )  # fmt: skip

    def align(self, keys: Tensor, query: Tensor, v: Tensor, padding: Tensor, out: Tensor) -> None:
        exact = self._exact
        B, source, n = _sizes("align: keys", keys, 3)
        width = _sizes("align: out", out, 2)[0] // max(1, B)
        self._c.align(
            self.parts, B, width, source, n,
            _whole("align: keys", keys, exact, (B, source, n)),
            *_rows("align: query", query, self._operands, B * width, n),
            _whole("align: v", v, exact, (n,)),
            _whole("align: padding", padding, torch.bool, (B, source)),
            _whole("align: out", out, exact, (B * width, source)),
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
        exact, operands = self._exact, self._operands
        B, source, n = _sizes("align_backward: keys", keys, 3)
        scratch = torch.empty(self.parts, n, dtype=exact)
        self._c.align_backward(
            self.parts, B, source, n,
            _whole("align_backward: keys", keys, exact, (B, source, n)),
            *_rows("align_backward: query", query, operands, B, n),
            _whole("align_backward: v", v, exact, (n,)),
            _whole("align_backward: alpha", alpha, exact, (B, source)),
            _whole("align_backward: d_alpha", d_alpha, exact, (B, source)),
            _whole("align_backward: d_keys", d_keys, exact, (B, source, n)),
            _whole("align_backward: d_v", d_v, exact, (self.parts, n)),
            *_rows("align_backward: d_query", d_query, operands, B, n),
            scratch.data_ptr(),
        )  # fmt: skip

    def cost_of_words(
        self, x: Tensor, words: Tensor, label_smoothing: float, d_x: Tensor | None, d_bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        exact, operands = self._exact, self._operands
        B, symbols = _sizes("cost_of_words: x", x, 2)
        kept, spread = smoothing(label_smoothing, symbols)
        nll, all_symbols = torch.empty(2, B, dtype=exact)
        scratch = torch.empty(self.parts, symbols, dtype=exact)
        arguments = (
            self.parts, B, symbols,
            _whole("cost_of_words: x", x, operands, (B, symbols)),
            _whole("cost_of_words: words", words, torch.int64, (B,)),
            kept, spread, nll.data_ptr(), all_symbols.data_ptr(),
            None if d_x is None else _whole("cost_of_words: d_x", d_x, operands, (B, symbols)),
            _whole("cost_of_words: d_bias", d_bias, exact, (self.parts, symbols)),
            scratch.data_ptr(),
        )  # fmt: skip
        check_words(words, symbols)
        self._c.cost_of_words(*arguments)
        nll = nll.sum()
        cost = kept * nll
        return (cost + spread * all_symbols.sum() if label_smoothing else cost), nll

    def log_softmax(self, x: Tensor, temperature: float, out: Tensor) -> None:
        B, symbols = _sizes("log_softmax: x", x, 2)
        self._c.log_softmax(
            self.parts, B, symbols,
            _whole("log_softmax: x", x, self._operands, (B, symbols)),
            temperature,
            _whole("log_softmax: out", out, self._exact, (B, symbols)),
        )  # fmt: skip


def _sizes(name: str, x: Tensor, count: int) -> tuple[int, ...]:
    """The shape, of ``count`` dimensions, of the argument that the others must fit."""
    sizes = getattr(x, "shape", ())
    if len(sizes) != count:
        raise _refusal(name, x, f"a tensor of {count} dimensions")
    return sizes


def _whole(name: str, x: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    """Where the numbers of a tensor begin, which all stand together."""
    try:
        if x.dtype is dtype and x.is_cpu and x.shape == shape and x.is_contiguous():
            begin = x.data_ptr()
            if begin or 0 in shape:
                return begin
    except (AttributeError, RuntimeError):  # no tensor, or one without memory of its own
        pass
    raise _refusal(name, x, f"contiguous, {dtype} {tuple(shape)} on cpu")


def _rows(name: str, x: Tensor, dtype: torch.dtype, rows: int, columns: int) -> tuple[int, int]:
    """Where a matrix begins, and how far its rows lie apart; those of a row stand together."""
    try:
        if x.dtype is dtype and x.is_cpu and x.shape == (rows, columns):
            apart, together = x.stride()
            begin = x.data_ptr()
            if (
                (together == 1 or columns == 1)
                and (apart >= columns or rows <= 1)
                and (begin or not rows or not columns)
            ):
                return begin, apart
    except (AttributeError, RuntimeError):
        pass
    raise _refusal(name, x, f"contiguous in each row, {dtype} {(rows, columns)} on cpu")


def _refusal(name: str, x: Tensor, expected: str) -> ValueError:
    if not isinstance(x, Tensor):
        return ValueError(f"{name} must be {expected}, not {type(x).__name__}")
    layout = f"strides {x.stride()}" if x.layout is torch.strided else x.layout
    found = f"{x.dtype} {tuple(x.shape)} on {x.device}, {layout}"
    return ValueError(f"{name} must be {expected}, not {found}")
