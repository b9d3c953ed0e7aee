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
from fairseq_rnnsearch.kernels.packed import linear
from fairseq_rnnsearch.kernels.steps import Steps

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
    """See ``reference.decoder_steps``, which makes them where gradients may be asked for."""
    plain = torch.is_grad_enabled() or initial.dtype == torch.bfloat16
    steps = reference.decoder_steps if plain else FastSteps
    return steps(order, weights, memory, summary, initial, sentences)


def output_logits(t: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """See ``reference.output_logits``."""
    if torch.is_grad_enabled():
        return reference.output_logits(t, weight, bias)
    return linear(t.flatten(0, -2), weight, bias).unflatten(0, t.shape[:-1])


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
        self._order, self._weights = order, weights
        self._has_attention = memory is not None
        if memory is None:  # one annotation, which has all the weight
            annotations, attention = summary.unsqueeze(1), ()
        else:
            mask = torch.zeros_like(memory.padding, dtype=summary.dtype)
            mask.masked_fill_(memory.padding, -torch.inf)
            annotations, attention = memory.annotations, (memory.keys * 2, mask)
        flat = annotations.flatten(0, 1)
        of_unit, of_readout = (
            linear(flat, matrix).unflatten(0, annotations.shape[:2])
            for matrix in (weights.loop.context, weights.readout_context)
        )
        super().__init__((of_unit, of_readout, *attention), (initial,), sentences)

    def step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        """See ``Steps.step``."""
        w, s = self._weights, self._state[0]
        y = None
        if not self.is_first:
            y = torch.nn.functional.embedding(previous, w.embedding).add_(w.embedding_bias)
        if self._order == "program":
            if y is not None:
                s = self._update(s, y, self._state[1])
            read, alpha = s, self._align(s)
        else:
            alpha = self._align(s)
            following = self._update(s, y, alpha)
            read, s = s if self._order == "appendix" else following, following
        self._state, self.is_first = (s, alpha), False
        return self._readout(read, y, alpha), alpha if self._has_attention else None

    def _update(self, s: Tensor, y: Tensor | None, alpha: Tensor) -> Tensor:
        """The next state, as ``equations.gated_unit``."""
        w, n = self._weights, s.size(1)
        a = s.new_zeros(len(s), 3 * n) if y is None else linear(y, w.input)
        self._add_context(a, alpha, self._memory[0])
        z, r = linear(s, w.loop.recurrent.gates).add_(a[:, n:]).sigmoid_().split(n, dim=1)
        proposed = linear(r * s, w.loop.recurrent.proposed).add_(a[:, :n]).add_(w.input_bias)
        proposed.mul_(2).sigmoid_().sub_(0.5).mul_(2)
        return torch.lerp(s, proposed, z)

    def _readout(self, s: Tensor, y: Tensor | None, alpha: Tensor) -> Tensor:
        """t_i, as ``equations.deep_output``."""
        w = self._weights
        t = linear(s, w.readout_state, w.readout_bias)
        if y is not None:
            t += linear(y, w.readout_word)
        self._add_context(t, alpha, self._memory[1])
        return torch.maximum(t[:, ::2], t[:, 1::2])

    def _add_context(self, rows: Tensor, alpha: Tensor, annotations: Tensor) -> None:
        """Add sum_j alpha_ij x_j, for ``(sentences, source, columns)`` x, to rows in place."""
        sentences = len(annotations)
        rows.unflatten(0, (sentences, -1)).baddbmm_(
            alpha.unflatten(0, (sentences, -1)), annotations
        )

    def _align(self, s: Tensor) -> Tensor:
        """alpha_i, ``(rows, source)``."""
        if not self._has_attention:
            return s.new_ones(len(s), 1)
        *_, keys, mask = self._memory
        sentences, source, size = keys.shape
        query = linear(s, self._weights.loop.state).mul_(2).view(sentences, -1, 1, size)
        e = s.new_empty(sentences, self._width, source)
        at_once = max(1, UNITS // (self._width * source * size))
        g = s.new_empty(min(at_once, sentences), self._width, source, size)
        for start in range(0, sentences, at_once):
            part = slice(start, start + at_once)
            units = g[: len(keys[part])]
            torch.add(keys[part].unsqueeze(1), query[part], out=units).sigmoid_()
            torch.mv(units.view(-1, size), self._weights.loop.energy, out=e[part].view(-1))
        return torch.softmax(e.mul_(2).add_(mask.unsqueeze(1)), dim=-1).flatten(0, 1)
