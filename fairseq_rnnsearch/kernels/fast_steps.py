"""One step of the decoder on a CPU, for the hypotheses of a beam search.

What multiplies a context is multiplied with the annotations instead, once for a sentence:

    C c_i = sum_j alpha_ij (C h_j),   C_o c_i = sum_j alpha_ij (C_o h_j)

so that a step, of each hypothesis, costs some thousand products for every source word instead of
eight million (at the paper's size, where a sentence has thirty words and its translation twelve
hypotheses at each of thirty steps).
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels import reference
from fairseq_rnnsearch.kernels.compiled import elementwise
from fairseq_rnnsearch.kernels.interface import Memory, StepWeights
from fairseq_rnnsearch.kernels.packed import batch_product, kept, product
from fairseq_rnnsearch.kernels.steps import Steps
from fairseq_rnnsearch.kernels.word_inputs import WordInputs


def decoder_steps(
    order: str,
    weights: StepWeights,
    memory: Memory | None,
    summary: Tensor,
    initial: Tensor,
    sentences: Tensor,
) -> Steps:
    """See ``reference.decoder_steps``, which makes them where weights cannot be arranged."""
    if not arranges(weights.output) or initial.dtype == torch.bfloat16:
        return reference.decoder_steps(order, weights, memory, summary, initial, sentences)
    with _exact():
        return FastSteps(order, weights, memory, summary, initial, sentences)


def output_logits(t: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """See ``reference.output_logits``."""
    if not arranges(weight):
        return reference.output_logits(t, weight, bias)
    with _exact():
        return product(weight)(t.flatten(0, -2), bias).unflatten(0, t.shape[:-1])


def arranges(weight: Tensor) -> bool:
    """Whether products with a weight can be arranged: not for gradients, nor in a type that it is
    yet to be rounded to."""
    lowered = torch.is_autocast_enabled("cpu") and weight.dtype != torch.bfloat16
    return not (torch.is_grad_enabled() or lowered)


def _exact() -> torch.autocast:
    """Everything in its own type: what is to be bfloat16 is so already."""
    return torch.autocast("cpu", enabled=False)


class FastSteps(Steps):
    """See ``reference.decoder_steps``; without gradients."""

    def __init__(
        self,
        order: str,
        weights: StepWeights,
        memory: Memory | None,
        summary: Tensor,
        initial: Tensor,
        sentences: Tensor,
    ) -> None:
        w = weights
        self._order, self._has_attention = order, memory is not None
        self._ops = elementwise(initial.dtype)
        self._gates, self._proposed = (product(matrix) for matrix in w.loop.recurrent)
        self._readout_state = product(w.readout_state)
        self._inner = None if w.inner is None else product(w.inner)
        self._output, self._output_bias = kept(batch_product, w.output), w.output_bias
        self._output_type, self._of_logits = w.output.dtype, elementwise(w.output.dtype)
        self._words = kept(
            WordInputs,
            *(w.embedding, w.embedding_bias, w.input, w.input_bias),
            *(w.readout_word, w.readout_bias),
        )
        if memory is None:  # one annotation, which has all the weight
            annotations, attention = summary.unsqueeze(1), ()
        else:
            self._query = product(w.loop.state)
            self._energy = w.loop.energy.to(initial.dtype).contiguous()
            keys = memory.keys.to(initial.dtype).contiguous()
            annotations, attention = memory.annotations, (keys, memory.padding.contiguous())
        flat = annotations.flatten(0, 1).to(initial.dtype)
        contexts = (
            product(matrix)(flat).view(*annotations.shape[:2], -1)
            for matrix in (w.loop.context, w.readout_context)
        )
        super().__init__((*contexts, *attention), (initial,), sentences)

    def step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        """See ``Steps.step``."""
        with _exact():
            return self._step(previous)

    def _step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        s = self._state[0]
        n = s.size(1)
        # e(y_0) is zero
        of_words = self._words.bias.repeat(len(s), 1) if self.is_first else self._words(previous)
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
        t = self._readout_state(read).add_(of_readout)
        self._add_context(t, alpha, self._memory[1])
        t = torch.maximum(t[:, ::2], t[:, 1::2])
        return t, alpha if self._has_attention else None

    def logits(self, t: Tensor) -> Tensor:
        """See ``Steps.logits``."""
        with _exact():
            t = t if self._inner is None else self._inner(t)
            return self._output(t.to(self._output_type), self._output_bias)

    def _update(self, s: Tensor, a: Tensor, alpha: Tensor) -> Tensor:
        """The next state, as ``equations.gated_unit``; ``a`` is written to."""
        n = s.size(1)
        self._add_context(a, alpha, self._memory[0])
        unit, reset_s, following = s.new_empty(len(s), 3 * n), *s.new_empty(2, *s.shape)
        self._ops.unit_gates(a[:, n:], self._gates(s), None, s, None, unit, reset_s)
        self._ops.unit_state(a[:, :n], self._proposed(reset_s), None, s, unit, following)
        return following

    def _add_context(self, rows: Tensor, alpha: Tensor, annotations: Tensor) -> None:
        """Add sum_j alpha_ij x_j, for ``(sentences, source, columns)`` x, to rows in place."""
        sentences, source, columns = annotations.shape
        rows.view(sentences, self._width, columns).baddbmm_(
            alpha.view(sentences, self._width, source), annotations
        )

    def _align(self, s: Tensor) -> Tensor:
        """alpha_i, ``(rows, source)``."""
        if not self._has_attention:
            return s.new_ones(len(s), 1)
        keys, padding = self._memory[2:]
        alpha = s.new_empty(len(s), keys.size(1))
        self._ops.align(keys, self._query(s), self._energy, padding, alpha)
        return alpha
