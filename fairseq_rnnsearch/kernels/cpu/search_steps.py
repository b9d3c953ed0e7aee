"""One step of the decoder on a CPU, for the hypotheses of a beam search.

Matrices that multiply a context multiply the annotations instead, once per sentence:

    C c_i = sum_j alpha_ij (C h_j),   C_o c_i = sum_j alpha_ij (C_o h_j)

so that one step of one hypothesis costs a few thousand multiplications per source word instead of
eight million in all (at the paper's size: thirty words, twelve hypotheses, thirty steps).
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.cached import cached_by_weights
from fairseq_rnnsearch.kernels.cpu.compiled import operations
from fairseq_rnnsearch.kernels.cpu.packed_weights import batch_product, product
from fairseq_rnnsearch.kernels.decoder_steps import DecoderSteps
from fairseq_rnnsearch.kernels.interface import SearchStart


def _exact() -> torch.autocast:
    """Return a context without autocast: what is to be bfloat16 is so already."""
    return torch.autocast("cpu", enabled=False)


class SearchSteps(DecoderSteps):
    """See ``Reference.decoder_steps``; without gradients."""

    def __init__(self, start: SearchStart) -> None:
        self._order, parts, memory, summary, initial, sentences = start
        embedding, unit, alignment_model, readout, output = parts
        self._has_attention = memory is not None
        self._ops = operations(initial.dtype)
        self._output = cached_by_weights(batch_product, output.weight)
        self._output_bias = output.bias
        self._output_type = output.weight.dtype
        self._ops_of_logits = operations(self._output_type)
        with _exact():
            self._gates, self._proposed = (
                product(matrix) for matrix in (unit.recurrent_gates, unit.recurrent_proposed)
            )
            self._readout_state = product(readout.state_weight)
            self._inner = None if output.inner_weight is None else product(output.inner_weight)
            self._embedding = embedding
            self._of_words = product(unit.input_weight), product(readout.word_weight)
            gates = unit.input_bias.new_zeros(2 * unit.hidden_size)
            self._word_bias = torch.cat((unit.input_bias, gates, readout.bias))
            if memory is None:  # a single annotation gets all the weight
                annotations, attention = summary.unsqueeze(1), ()
            else:
                self._query = product(alignment_model.state_weight)
                self._energy = alignment_model.energy_weight.to(initial.dtype).contiguous()
                keys = memory.keys.to(initial.dtype).contiguous()
                annotations, attention = memory.annotations, (keys, memory.padding.contiguous())
            rows = annotations.to(initial.dtype).flatten(0, 1)
            contexts = (
                product(matrix)(rows).unflatten(0, annotations.shape[:2])
                for matrix in (unit.context_weight, readout.context_weight)
            )
            super().__init__((*contexts, *attention), (initial,), sentences)

    def step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        """See ``ReferenceSteps.step``."""
        with _exact():
            return self._step(previous)

    def _step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        s = self._state[0]
        n = s.size(1)
        of_words = self._word_bias.repeat(len(s), 1)  # e(y_0) is zero
        if not self.is_first:
            y = self._embedding(previous)
            of_words += torch.cat([multiply(y) for multiply in self._of_words], dim=1)
        of_unit, of_readout = of_words[:, : 3 * n], of_words[:, 3 * n :]
        if self._order == "program":
            if not self.is_first:
                s = self._update(s, of_unit, self._state[1])
            read, alpha = s, self._align(s)
        else:
            alpha = self._align(s)
            following = self._update(s, of_unit, alpha)
            read, s = s if self._order == "appendix" else following, following
        self._state, self.is_first = (s, alpha), False
        return self._read(read, of_readout, alpha), alpha if self._has_attention else None

    def log_probabilities(self, t: Tensor, temperature: float, out: Tensor) -> None:
        """See ``ReferenceSteps.log_probabilities``."""
        with _exact():
            t = t if self._inner is None else self._inner(t)
            logits = self._output(t.to(self._output_type), self._output_bias)
            self._ops_of_logits.log_softmax(logits, temperature, out)

    def _update(self, s: Tensor, inputs: Tensor, alpha: Tensor) -> Tensor:
        """Return the next state; the context's products are added to ``inputs`` in place."""
        n = s.size(1)
        self._add_context(inputs, alpha, self._memory[0])
        unit, reset_s, following = s.new_empty(len(s), 3 * n), *s.new_empty(2, *s.shape)
        self._ops.unit_gates(inputs[:, n:], self._gates(s), None, s, None, unit, reset_s)
        self._ops.unit_state(inputs[:, :n], self._proposed(reset_s), None, s, unit, following)
        return following

    def _read(self, s: Tensor, inputs: Tensor, alpha: Tensor) -> Tensor:
        """Return t_i; ``inputs`` are what the words add, and may be changed."""
        t = self._readout_state(s).add_(inputs)
        self._add_context(t, alpha, self._memory[1])
        return torch.maximum(t[:, ::2], t[:, 1::2])

    def _add_context(self, rows: Tensor, alpha: Tensor, annotations: Tensor) -> None:
        """Add sum_j alpha_ij x_j to rows in place, x being ``(sentences, source, columns)``."""
        sentences, source, columns = annotations.shape
        rows.view(sentences, self._width, columns).baddbmm_(
            alpha.view(sentences, self._width, source), annotations
        )

    def _align(self, s: Tensor) -> Tensor:
        """Return alpha_i, ``(rows, source)``."""
        if not self._has_attention:
            return s.new_ones(len(s), 1)
        keys, padding = self._memory[2:]
        alpha = s.new_empty(len(s), keys.size(1))
        self._ops.align(keys, self._query(s), self._energy, padding, alpha)
        return alpha
