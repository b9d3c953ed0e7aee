"""A decoder that takes one step at a time, for a search by torch, on any device.

All hypotheses of a sentence read the same annotations, so these are stored once per sentence. Each
sentence has the same number of hypotheses, and their rows are adjacent.
"""

from functools import partial

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels.derived import accurate_type
from fairseq_rnnsearch.kernels.reference import DecoderParts
from fairseq_rnnsearch.paper.equations import Memory, attend, first_state
from fairseq_rnnsearch.paper.equations.linear import autocast_type


class DecoderSteps:
    """Steps that equal the teacher-forced pass at each position, with one row per hypothesis.

    Args:
        order: one of ``network.DECODER_ORDERS``.
        parts: of the decoder.
        memory: annotations and keys, one row per sentence; None: RNNencdec.
        summary: RNNencdec's context, ``(sentences, n)``.
        initial: s_0, ``(sentences, n)``.
        sentences: ``(rows,)``, the sentence of each row.
    """

    def __init__(
        self,
        order: str,
        parts: DecoderParts,
        memory: Memory | None,
        summary: Tensor,
        initial: Tensor,
        sentences: Tensor,
    ) -> None:
        self._order, self._parts = order, parts
        self._dtype, dtype = initial.dtype, accurate_type(initial.dtype)
        kind = initial.device.type
        lower = autocast_type(kind)
        # a search steps outside of the model's functions, which enable autocast
        self._in_its_type = partial(torch.autocast, kind, lower, enabled=lower is not None)
        if memory is not None:
            memory = memory._replace(keys=memory.keys.to(dtype))
        state = parts.unit.begin(initial.to(dtype))
        remembered = memory and first_state(parts.alignment_model, memory)
        self._memory = memory or (summary,)
        self._state = state, remembered, None  # the last context; before the first step, none
        self._width = 1
        self.select(sentences)

    def select(self, order: Tensor) -> None:
        """Let row i continue hypothesis ``order[i]``, and drop sentences that have no row left."""
        sentences, width = order // self._width, 1
        groups, counts = torch.unique_consecutive(sentences, return_counts=True)
        least, most = counts.aminmax()
        if least == most:  # each sentence has as many rows, all adjacent
            sentences, width = groups, int(most)
        everyone = torch.arange(len(self._memory[0]), device=sentences.device)
        self.follow(order, None if torch.equal(sentences, everyone) else sentences, width)

    def follow(self, order: Tensor, sentences: Tensor | None, width: int) -> None:
        """Like ``select``, for callers that know which sentences the rows belong to.

        Args:
            order: ``(rows,)``.
            sentences: the sentences to keep, or None for all.
            width: the number of adjacent rows per sentence.
        """
        self._width = width
        if sentences is not None:
            self._memory = tuple(part.index_select(0, sentences) for part in self._memory)
        self._state = tuple(
            None if part is None else part.index_select(0, order) for part in self._state
        )

    def step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        """Take one step, to the next target position.

        Args:
            previous: ``(rows,)``, the last word of each hypothesis; ignored at the first step.

        Returns:
            t_i, ``(rows, l)``; alignment weights, ``(rows, source)``, or None.
        """
        with self._in_its_type():
            return self._step(previous)

    def log_probabilities(self, t: Tensor, temperature: float) -> Tensor:
        """Return log p of the next words, ``(rows, words)``, in float32 or wider.

        It is the log-softmax of logits / temperature.

        Args:
            t: t_i, ``(rows, l)``.
        """
        output = self._parts.output
        with self._in_its_type():
            x = nn.functional.linear(output.inner(t), output.weight, output.bias)
        x = x.to(accurate_type(x.dtype))
        if temperature != 1:  # a division rounds, of large numbers more than their differences are
            x = (x - x.amax(dim=-1, keepdim=True)) / temperature
        return torch.log_softmax(x, dim=-1)

    def _step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        embedding, unit, _, readout, _ = self._parts
        state, remembered, c = self._state
        if c is None:
            y = embedding.weight.new_zeros(len(state), embedding.weight.size(1))
        else:
            y = embedding(previous)
            if self._order == "program":
                state = self._update(state, y, c)
        c, alpha, remembered = self._context(unit.hidden(state), remembered)
        read = state
        if self._order != "program":
            state = self._update(state, y, c)
        if self._order == "section3":
            read = state
        self._state = state, remembered, c
        return readout(unit.hidden(read).to(self._dtype), y, c), alpha

    def _context(
        self, s: Tensor, remembered: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return c_i, alpha_i, and the alignment model's next state."""
        alignment_model = self._parts.alignment_model
        if alignment_model is None:
            return self._memory[0].repeat_interleave(self._width, dim=0), None, None
        c, alpha, remembered = attend(s, Memory(*self._memory), alignment_model, remembered)
        return c, alpha.to(self._dtype), remembered

    def _update(self, state: Tensor, y: Tensor, c: Tensor) -> Tensor:
        unit = self._parts.unit
        inputs = unit.word_inputs(y).to(state.dtype) + unit.context_inputs(c)
        return unit.step(inputs, state)
