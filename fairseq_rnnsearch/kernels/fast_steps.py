"""One step of the decoder on a CPU, for the hypotheses of a beam search.

What multiplies a context is multiplied with the annotations instead, once for a sentence:

    C c_i = sum_j alpha_ij (C h_j),   C_o c_i = sum_j alpha_ij (C_o h_j)

so that a step, of each hypothesis, costs some thousand products for every source word instead of
eight million (at the paper's size, where a sentence has thirty words and its translation twelve
hypotheses at each of thirty steps). The energies are computed for a few sentences at a time, so
that their hidden units stay in the cache; with tanh(x) = 2 sigma(2x) - 1, as in
``fast_attention``.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels import reference
from fairseq_rnnsearch.kernels.interface import Memory, StepWeights
from fairseq_rnnsearch.kernels.packed import kept, product
from fairseq_rnnsearch.kernels.steps import Steps
from fairseq_rnnsearch.kernels.word_inputs import WordInputs

# hidden units of the alignment model at a time: a megabyte in float32
UNITS = 1 << 18


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
        self._gates, self._proposed = (product(matrix) for matrix in w.loop.recurrent)
        self._readout_state = product(w.readout_state)
        self._inner = None if w.inner is None else product(w.inner)
        self._output, self._output_bias = product(w.output), w.output_bias
        self._words = kept(
            WordInputs,
            *(w.embedding, w.embedding_bias, w.input, w.input_bias),
            *(w.readout_word, w.readout_bias),
        )
        if memory is None:  # one annotation, which has all the weight
            annotations, attention = summary.unsqueeze(1), ()
        else:
            self._query, self._energy = product(w.loop.state), w.loop.energy
            mask = torch.zeros_like(memory.padding, dtype=initial.dtype)
            mask.masked_fill_(memory.padding, -torch.inf)
            annotations, attention = (
                memory.annotations,
                (memory.keys.to(initial.dtype) * 2, mask.unsqueeze(1)),
            )
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
            return self._output(t if self._inner is None else self._inner(t), self._output_bias)

    def _update(self, s: Tensor, a: Tensor, alpha: Tensor) -> Tensor:
        """The next state, as ``equations.gated_unit``; ``a`` is written to."""
        n = s.size(1)
        self._add_context(a, alpha, self._memory[0])
        z, r = self._gates(s).add_(a[:, n:]).sigmoid_().split(n, dim=1)
        proposed = self._proposed(r * s).add_(a[:, :n])
        proposed.mul_(2).sigmoid_().sub_(0.5).mul_(2)
        return torch.lerp(s, proposed, z)

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
        keys, mask = self._memory[2:]
        sentences, source, size = keys.shape
        query = self._query(s).mul_(2).view(sentences, self._width, 1, size)
        e = s.new_empty(sentences, self._width, source)
        at_once = min(sentences, max(1, UNITS // (self._width * source * size)))
        g = s.new_empty(at_once, self._width, source, size)
        for start in range(0, sentences, at_once):
            part = slice(start, start + at_once)
            those = keys[part].unsqueeze(1)
            units = g[: len(those)]
            torch.add(those, query[part], out=units).sigmoid_()
            torch.mv(units.view(-1, size), self._energy, out=e[part].view(-1))
        return torch.softmax(e.mul_(2).add_(mask), dim=-1).view(len(s), source)
