"""Translating in few calls of C, with models whose weights of a step fit a cache.

A step of a small model for one sentence spends its time on calls rather than multiplications: some
twenty calls of torch take most of it. Here the encoder takes one call for each direction, and a
step of the search four.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.c_library import INTEGER, POINTER, REAL, Functions
from fairseq_rnnsearch.kernels.cpu.compiled import SOURCE
from fairseq_rnnsearch.kernels.cpu.packed_weights import cached_by_weights, can_keep
from fairseq_rnnsearch.kernels.cpu.search_steps import SearchSteps
from fairseq_rnnsearch.kernels.interface import Direction, SearchStart

LARGEST = 2**22  # bytes of a step's weights
WIDEST = 128  # bytes of a panel's row, at most; see operations.c
FUNCTIONS = Functions(SOURCE, {
    "arrange": (*2 * (INTEGER,), *2 * (POINTER,)),
    "few_rows_recurrence": (*5 * (INTEGER,), *6 * (POINTER,)),
    "search_update": (*5 * (INTEGER,), *6 * (POINTER,), INTEGER, *2 * (POINTER,)),
    "search_align": (*6 * (INTEGER,), *7 * (POINTER,)),
    "search_read": (*6 * (INTEGER,), *5 * (POINTER,), INTEGER, *2 * (POINTER,)),
    "search_log_probabilities": (*4 * (INTEGER,), *3 * (POINTER,), REAL, POINTER),
})  # fmt: skip


def takes_search(start: SearchStart) -> bool:
    """Return whether a search's steps are compiled, and its weights few."""
    _, unit, alignment_model, readout, output = start.parts
    weights = [unit.recurrent_gates, unit.recurrent_proposed, readout.state_weight]
    if alignment_model is not None:
        weights.append(alignment_model.state_weight)
    dtype = start.initial.dtype
    return {output.weight.dtype, output.bias.dtype} == {dtype} and takes(weights, dtype)


def takes(weights: Sequence[Tensor], dtype: torch.dtype) -> bool:
    """Return whether steps with these weights and states of a type can be taken here."""
    return (
        {weight.dtype for weight in weights} == {dtype}
        and can_keep(weights[0])
        and sum(weight.numel() for weight in weights) * dtype.itemsize <= LARGEST
        and FUNCTIONS.of_type(dtype) is not None
    )


def recurrence(
    directions: Sequence[Direction], initial: Tensor | None, present: Tensor | None
) -> Tensor:
    """See ``Reference.recurrence``; without gradients."""
    outputs = []
    for inputs, unit, reverse in directions:
        inputs = inputs.contiguous()
        steps, rows, n = inputs.size(0), inputs.size(1), inputs.size(2) // 3
        states, scratch = inputs.new_empty(steps + 1, rows, n), inputs.new_empty(6 * rows * n)
        states[steps if reverse else 0] = 0 if initial is None else initial
        weights = [
            cached_by_weights(_panels, w) for w in (unit.recurrent_gates, unit.recurrent_proposed)
        ]
        here = None if present is None else present.to(inputs.dtype).contiguous()
        FUNCTIONS.of_type(inputs.dtype).few_rows_recurrence(
            *(torch.get_num_threads(), steps, rows, n, reverse, inputs.data_ptr()),
            None if here is None else here.data_ptr(),
            *(x.data_ptr() for x in (*weights, scratch, states)),
        )
        outputs.append(states[:-1] if reverse else states[1:])
    return torch.cat(outputs, dim=-1)


def _panels(weight: Tensor) -> Tensor:
    """Return W^T as C's products take it, the last panel filled up with zeros."""
    n, k = weight.shape
    weight, panels = weight.contiguous(), weight.new_zeros(n + WIDEST // weight.itemsize, k)
    FUNCTIONS.of_type(weight.dtype).arrange(n, k, weight.data_ptr(), panels.data_ptr())
    return panels


class SmallBatchSteps(SearchSteps):
    """The steps of a search for which ``takes_search`` holds."""

    def __init__(self, start: SearchStart) -> None:
        super().__init__(start)
        self._c = FUNCTIONS.of_type(start.initial.dtype)
        self._output_bias = self._output_bias.contiguous()

    def step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        """See ``ReferenceSteps.step``."""
        rows = len(self._state[0])
        if not self.is_first and previous.shape != (rows,):  # C would read what is beside them
            raise ValueError(f"previous must have {rows} words, not {tuple(previous.shape)}")
        return super().step(previous)

    def log_probabilities(self, t: Tensor, temperature: float, out: Tensor) -> None:
        """See ``ReferenceSteps.log_probabilities``."""
        t, shape = self._before_output(t), (len(t), len(self._output_bias))
        if (out.shape, out.dtype) != (shape, t.dtype) or not out.is_contiguous():
            raise ValueError(
                f"out must be contiguous {t.dtype} {shape}, not {out.dtype} {tuple(out.shape)}"
            )
        given = (t.contiguous(), self._output, self._output_bias)
        self._c.search_log_probabilities(
            *(torch.get_num_threads(), *shape, t.size(1)),
            *(x.data_ptr() for x in given),
            *(temperature, out.data_ptr()),
        )

    @staticmethod
    def _arrange(weight: Tensor) -> Tensor:
        return cached_by_weights(_panels, weight)

    _arrange_output = _arrange

    def _sizes(self, s: Tensor, annotations: Tensor) -> tuple[int, ...]:
        """Return what each function takes first: threads, rows, width, source words, n."""
        return torch.get_num_threads(), len(s), self._width, annotations.size(1), s.size(1)

    def _update(self, s: Tensor, inputs: Tensor, alpha: Tensor) -> Tensor:
        annotations, following = self._memory[0], torch.empty_like(s)
        scratch = s.new_empty(6 * s.numel())
        given = (s, alpha, annotations, self._gates, self._proposed, inputs)
        self._c.search_update(
            *self._sizes(s, annotations),
            *(x.data_ptr() for x in given),
            *(inputs.stride(0), scratch.data_ptr(), following.data_ptr()),
        )
        return following

    def _align_states(self, s: Tensor) -> Tensor:
        _, _, keys, padding = self._memory
        alpha, scratch = s.new_empty(len(s), keys.size(1)), s.new_empty(len(s), keys.size(2))
        given = (s, self._query, keys, self._energy, padding, scratch, alpha)
        self._c.search_align(*self._sizes(s, keys), keys.size(2), *(x.data_ptr() for x in given))
        return alpha

    def _read(self, s: Tensor, inputs: Tensor, alpha: Tensor) -> Tensor:
        annotations = self._memory[1]
        l = annotations.size(2) // 2
        t, scratch = s.new_empty(len(s), l), s.new_empty(len(s), 2 * l)
        given = (s, alpha, annotations, self._readout_state, inputs)
        self._c.search_read(
            *self._sizes(s, annotations),
            l,
            *(x.data_ptr() for x in given),
            *(inputs.stride(0), scratch.data_ptr(), t.data_ptr()),
        )
        return t
