"""Elementwise operations (gates, alignment model, cost of words) in C, compiled on first use.

Each function reads memory only once. Operands of matrix products are in the operands' type;
everything else, states and sums above all, is in float32 or wider ("exact" below). Rows may be
strided; each row, and every other tensor, is contiguous. The equations come from ``gated_unit`` and
``alignment_model`` of ``paper.equations``, the gradients from ``recurrence`` and ``decoder_loop``.

C trusts its pointers, and would read or write a tensor of the wrong type or shape as if it were
right. So every call checks each tensor, which costs half a microsecond.
"""

from pathlib import Path

import torch
from torch import Tensor

from fairseq_rnnsearch.engine.c_library import INTEGER, POINTER, REAL
from fairseq_rnnsearch.kernels.c_functions import TYPES, Functions
from fairseq_rnnsearch.kernels.derived import accurate_type, smoothing

SOURCE = Path(__file__).with_name("operations.c")
_MATRIX = (POINTER, INTEGER)  # first number, row stride
ARGUMENTS = {
    "unit_gates": (*3 * (INTEGER,), *3 * _MATRIX, *4 * (POINTER,)),
    "unit_state": (*3 * (INTEGER,), *3 * _MATRIX, *3 * (POINTER,)),
    "unit_backward": (*3 * (INTEGER,), POINTER, *2 * _MATRIX, *2 * (POINTER,), *_MATRIX),
    "unit_backward_reset": (*3 * (INTEGER,), *4 * (POINTER,), *_MATRIX),
    "align": (*4 * (INTEGER,), POINTER, *_MATRIX, *3 * (POINTER,)),
    "align_backward": (*4 * (INTEGER,), POINTER, *_MATRIX, *5 * (POINTER,), *_MATRIX, POINTER),
    "cost_of_words": (*3 * (INTEGER,), *2 * (POINTER,), *2 * (REAL,), *5 * (POINTER,)),
}
FUNCTIONS = Functions(SOURCE, ARGUMENTS, TYPES)


class Operations:
    """The operations for a type, with torch's current number of threads.

    The buffer ``unit``, ``(batch, 3n)``, holds one step's [h~, z, r], and ``d_inputs`` the
    gradients of their arguments, [d_a, d_a_z, d_a_r]. Sums over a batch are collected in ``parts``
    rows.

    Args:
        operands: the type.

    Raises:
        ValueError: by each function, before it writes anything, if a tensor is not as described.
    """

    def __init__(self, operands: torch.dtype) -> None:
        self.parts = torch.get_num_threads()
        self._c = FUNCTIONS.of_type(operands)
        self._operands, self._exact = operands, accurate_type(operands)

    def unit_gates(
        self,
        inputs: Tensor,
        recurrent: Tensor,
        context: Tensor | None,
        state: Tensor,
        present: Tensor | None,
        unit: Tensor,
        reset_state: Tensor,
    ) -> None:
        """Compute z and r into the last two parts of ``unit``, and r o h into ``reset_state``.

        Args:
            inputs: [x_z, x_r], exact, ``(batch, 2n)``.
            recurrent: [U_z h, U_r h], in the operands' type, ``(batch, 2n)``.
            context: [C_z c, C_r c], likewise, or None.
            state: h, exact, ``(batch, n)``.
            present: exact, ``(batch,)``, 1 for a word, 0 for padding, which keeps the state.
            unit: exact, ``(batch, 3n)``.
            reset_state: in the operands' type, ``(batch, n)``.
        """
        B, n = state.shape
        self._c.unit_gates(
            self.parts, B, n,
            *_rows("unit_gates: inputs", inputs, self._exact, B, 2 * n),
            *_rows("unit_gates: recurrent", recurrent, self._operands, B, 2 * n),
            *_rows_or_none("unit_gates: context", context, self._operands, B, 2 * n),
            _whole("unit_gates: state", state, self._exact, (B, n)),
            None if present is None else _whole("unit_gates: present", present, self._exact, (B,)),
            _whole("unit_gates: unit", unit, self._exact, (B, 3 * n)),
            _whole("unit_gates: reset_state", reset_state, self._operands, (B, n)),
        )  # fmt: skip

    def unit_state(
        self,
        inputs: Tensor,
        recurrent: Tensor,
        context: Tensor | None,
        state: Tensor,
        unit: Tensor,
        new_state: Tensor,
    ) -> None:
        """Compute h~ into the first part of ``unit`` and h' into ``new_state``, ``(batch, n)``.

        Args:
            inputs, recurrent, context: x, U (r o h) and C c, as for ``unit_gates``, ``(batch, n)``.
            state: h.
        """
        B, n = state.shape
        self._c.unit_state(
            self.parts, B, n,
            *_rows("unit_state: inputs", inputs, self._exact, B, n),
            *_rows("unit_state: recurrent", recurrent, self._operands, B, n),
            *_rows_or_none("unit_state: context", context, self._operands, B, n),
            _whole("unit_state: state", state, self._exact, (B, n)),
            _whole("unit_state: unit", unit, self._exact, (B, 3 * n)),
            _whole("unit_state: new_state", new_state, self._exact, (B, n)),
        )  # fmt: skip

    def unit_backward(
        self,
        d_state: Tensor,
        d_output: Tensor | None,
        d_from_product: Tensor | None,
        unit: Tensor,
        state: Tensor,
        d_inputs: Tensor,
    ) -> None:
        """Compute d_a and d_a_z into the first two parts of ``d_inputs``, from d_h'.

        Args:
            d_state: exact, ``(batch, n)``. With ``d_output`` and ``d_from_product``, which are in
                the operands' type or None, it adds up to d_h'. It becomes d_h' o (1 - z), the part
                of d_h that no product contributes to.
            unit, state: h~, z, r and h, as after ``unit_state``.
            d_inputs: in the operands' type, ``(batch, 3n)``.
        """
        B, n = state.shape
        self._c.unit_backward(
            self.parts, B, n,
            _whole("unit_backward: d_state", d_state, self._exact, (B, n)),
            *_rows_or_none("unit_backward: d_output", d_output, self._operands, B, n),
            *_rows_or_none("unit_backward: d_from_product", d_from_product, self._operands, B, n),
            _whole("unit_backward: unit", unit, self._exact, (B, 3 * n)),
            _whole("unit_backward: state", state, self._exact, (B, n)),
            *_rows("unit_backward: d_inputs", d_inputs, self._operands, B, 3 * n),
        )  # fmt: skip

    def unit_backward_reset(
        self, d_state: Tensor, d_reset_state: Tensor, unit: Tensor, state: Tensor, d_inputs: Tensor
    ) -> None:
        """Compute d_a_r into the last part of ``d_inputs``, and add d_q o r to ``d_state``.

        Args:
            d_reset_state: d_q, the gradient of r o h, in the operands' type, ``(batch, n)``.
        """
        B, n = state.shape
        self._c.unit_backward_reset(
            self.parts, B, n,
            _whole("unit_backward_reset: d_state", d_state, self._exact, (B, n)),
            _whole("unit_backward_reset: d_reset_state", d_reset_state, self._operands, (B, n)),
            _whole("unit_backward_reset: unit", unit, self._exact, (B, 3 * n)),
            _whole("unit_backward_reset: state", state, self._exact, (B, n)),
            *_rows("unit_backward_reset: d_inputs", d_inputs, self._operands, B, 3 * n),
        )  # fmt: skip

    def align(self, keys: Tensor, query: Tensor, v: Tensor, padding: Tensor, alpha: Tensor) -> None:
        """Compute the alignment weights, the softmax of v . tanh(key + query), into ``alpha``.

        There is one row per sentence.

        Args:
            keys: exact, ``(sentences, source, n')``.
            query: in the operands' type, ``(sentences, n')``.
            v: exact, ``(n',)``.
            padding: ``(sentences, source)``, true for padding, whose weight is 0.
            alpha: exact, ``(sentences, source)``.
        """
        B, source, n = keys.shape
        self._c.align(
            self.parts, B, source, n,
            _whole("align: keys", keys, self._exact, (B, source, n)),
            *_rows("align: query", query, self._operands, B, n),
            _whole("align: v", v, self._exact, (n,)),
            _whole("align: padding", padding, torch.bool, (B, source)),
            _whole("align: alpha", alpha, self._exact, (B, source)),
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
        """Compute the query's gradient into ``d_query``; add to ``d_keys`` and ``d_v``.

        Hidden units are recomputed, see ``decoder_loop``.

        Args:
            keys, query, v, alpha: as for ``align``.
            d_alpha: exact, ``(sentences, source)``.
            d_keys: exact, ``(sentences, source, n')``.
            d_v: exact, ``(parts, n')``.
            d_query: in the operands' type, ``(sentences, n')``.
        """
        B, source, n = keys.shape
        scratch = torch.empty(self.parts, n, dtype=self._exact, device="cpu")
        self._c.align_backward(
            self.parts, B, source, n,
            _whole("align_backward: keys", keys, self._exact, (B, source, n)),
            *_rows("align_backward: query", query, self._operands, B, n),
            _whole("align_backward: v", v, self._exact, (n,)),
            _whole("align_backward: alpha", alpha, self._exact, (B, source)),
            _whole("align_backward: d_alpha", d_alpha, self._exact, (B, source)),
            _whole("align_backward: d_keys", d_keys, self._exact, (B, source, n)),
            _whole("align_backward: d_v", d_v, self._exact, (self.parts, n)),
            *_rows("align_backward: d_query", d_query, self._operands, B, n),
            scratch.data_ptr(),
        )  # fmt: skip

    def cost_of_words(
        self,
        logits: Tensor,
        words: Tensor,
        label_smoothing: float,
        d_logits: Tensor | None,
        d_bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the cost and negative log-likelihood, each summed over the rows.

        Args:
            logits: in the operands' type, ``(rows, symbols)``.
            words: ``(rows,)``, each below ``symbols``.
            d_logits: receives the logits' gradients, in the operands' type; None: not wanted.
            d_bias: the sums of these are added to it, exact, ``(parts, symbols)``.

        Raises:
            IndexError: if a word is out of range.
        """
        B, symbols = shape = logits.shape
        kept, spread = smoothing(label_smoothing, symbols)
        nll, all_symbols = torch.empty(2, B, dtype=self._exact, device="cpu")
        scratch = torch.empty(self.parts, symbols, dtype=self._exact, device="cpu")
        arguments = (
            self.parts, B, symbols,
            _whole("cost_of_words: logits", logits, self._operands, shape),
            _whole("cost_of_words: words", words, torch.int64, (B,)),
            kept, spread, nll.data_ptr(), all_symbols.data_ptr(),
            None if d_logits is None
            else _whole("cost_of_words: d_logits", d_logits, self._operands, shape),
            _whole("cost_of_words: d_bias", d_bias, self._exact, (self.parts, symbols)),
            scratch.data_ptr(),
        )  # fmt: skip
        check_words(words, symbols)
        self._c.cost_of_words(*arguments)
        nll = nll.sum()
        cost = kept * nll
        return (cost + spread * all_symbols.sum() if label_smoothing else cost), nll


def check_words(words: Tensor, symbols: int) -> None:
    """Check that all words are below ``symbols``.

    Raises:
        IndexError: if not; it names the smallest and the largest word.
    """
    if len(words):
        least, most = words.aminmax()
        if not 0 <= least <= most < symbols:
            raise IndexError(f"words {least} to {most} of {symbols}")


def _whole(name: str, x: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    """Return the address of a contiguous tensor."""
    if x.dtype is dtype and x.is_cpu and x.shape == shape and x.is_contiguous():
        return x.data_ptr()
    raise _refusal(name, x, f"contiguous, {dtype} {tuple(shape)} on cpu")


def _rows_or_none(
    name: str, x: Tensor | None, dtype: torch.dtype, rows: int, columns: int
) -> tuple[int | None, int]:
    """Like ``_rows``; a missing matrix gives None, C's null pointer."""
    return (None, 0) if x is None else _rows(name, x, dtype, rows, columns)


def _rows(name: str, x: Tensor, dtype: torch.dtype, rows: int, columns: int) -> tuple[int, int]:
    """Return a matrix's address and row stride; each row must be contiguous."""
    if x.dtype is dtype and x.is_cpu and x.shape == (rows, columns):
        apart, together = x.stride()
        if (together == 1 or columns == 1) and (apart >= columns or rows <= 1):
            return x.data_ptr(), apart
    raise _refusal(name, x, f"contiguous in each row, {dtype} {(rows, columns)} on cpu")


def _refusal(name: str, x: Tensor, expected: str) -> ValueError:
    actual = f"{x.dtype} {tuple(x.shape)} on {x.device}, strides {x.stride()}"
    return ValueError(f"{name} must be {expected}, not {actual}")
