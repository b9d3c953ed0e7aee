"""One step of the decoder as plain code over the equations: any device, any floating type."""

import torch
from torch import Tensor

from fairseq_rnnsearch.equations import (
    alignment_weights,
    context,
    energies,
    gated_unit,
    maxout,
    maxout_input,
)
from fairseq_rnnsearch.kernels.elementwise import accurate_type
from fairseq_rnnsearch.kernels.interface import DecoderWeights, Memory, StepWeights
from fairseq_rnnsearch.kernels.steps import Steps


def attend(s: Tensor, memory: Memory, weights: DecoderWeights) -> tuple[Tensor, Tensor]:
    """c_i, ``(rows, 2n)``, and alpha_i, ``(rows, source)``, for one target position.

    The states, ``(rows, n)``, are those of one hypothesis of each sentence or of several, which
    then stand together.
    """
    hypotheses = s.unflatten(0, (len(memory.keys), -1))
    e = energies(hypotheses, memory.keys, weights.state, weights.energy)
    alpha = alignment_weights(e, memory.padding)
    return context(alpha, memory.annotations).flatten(0, 1), alpha.flatten(0, 1)


class ReferenceSteps(Steps):
    """Equal to the teacher-forced pass, position by position; see ``reference.decoder_steps``."""

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
        self._dtype, dtype = initial.dtype, accurate_type(initial.dtype)
        if memory is not None:
            memory = memory._replace(keys=memory.keys.to(dtype))
        super().__init__(memory or (summary,), (initial.to(dtype),), sentences)

    def step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        """See ``Steps.step``."""
        w, s = self._weights, self._state[0]
        if self.is_first:
            y = w.embedding.new_zeros(len(s), w.embedding.size(1))
        else:
            y = torch.nn.functional.embedding(previous, w.embedding) + w.embedding_bias
            if self._order == "program":
                s = self._update(s, y, self._state[1])
        c, alpha = self._context(s)
        read = s
        if self._order != "program":
            s = self._update(s, y, c)
        if self._order == "section3":
            read = s
        self._state, self.is_first = (s, c), False
        readout = w.readout_state, w.readout_word, w.readout_context, w.readout_bias
        return maxout(maxout_input(read.to(self._dtype), y, c, *readout)), alpha

    def logits(self, t: Tensor) -> Tensor:
        """See ``Steps.logits``."""
        w = self._weights
        return torch.nn.functional.linear(
            t if w.inner is None else t @ w.inner.T, w.output, w.output_bias
        )

    def _context(self, s: Tensor) -> tuple[Tensor, Tensor | None]:
        if self._has_attention:
            c, alpha = attend(s, Memory(*self._memory), self._weights.loop)
            return c, alpha.to(self._dtype)
        return self._memory[0].repeat_interleave(self._width, dim=0), None

    def _update(self, s: Tensor, y: Tensor, c: Tensor) -> Tensor:
        w = self._weights
        bias = torch.nn.functional.pad(w.input_bias, (0, 2 * s.size(1)))
        inputs = torch.nn.functional.linear(y, w.input, bias).to(s.dtype)
        return gated_unit(inputs + c @ w.loop.context.T, s, *w.loop.recurrent)
