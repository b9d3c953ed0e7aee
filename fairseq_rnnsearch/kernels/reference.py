"""The plain backend: loops in Python over the equations, on any device, in any floating type.

A backend runs the expensive parts: the loops over time, reduced to what must wait for the previous
step, and the cost of words over the whole dictionary. Callers hand in all products that do not
depend on a state and get all states back, so that a backend is free to choose its own loop,
backward pass and memory layout.

Other backends derive from this one and are compared with it. States, energies and sums over steps
are in float32 or wider, even if ``torch.autocast`` or narrow parameters put the operands of
products in a narrower type.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels.accuracy import accurate_type, log_softmax
from fairseq_rnnsearch.kernels.decoder_steps import DecoderSteps
from fairseq_rnnsearch.kernels.derived import smoothing
from fairseq_rnnsearch.kernels.interface import Direction, SearchStart
from fairseq_rnnsearch.paper.equations import (
    Attention,
    BiasedEmbedding,
    Memory,
    Unit,
    attend,
    first_state,
)
from fairseq_rnnsearch.paper.equations.linear import autocast_type


class Reference:
    """The backend that runs everywhere, and what each backend does.

    Attributes:
        name: its name for ``--kernels`` and in the log.
        place: the device it runs on, for the log.
        needs: the devices and types it needs, for error messages.
    """

    name, place, needs = "reference", "any device", "any device, in any floating type"

    def why_not(self, parts: Iterable[nn.Module]) -> str | None:
        """Return why this backend cannot run these parts of a network, or None if it can."""

    def vectors(self, words: Tensor, embedding: BiasedEmbedding) -> Tensor:
        """Return the vectors of words: ``(...)`` to ``(..., m)``."""
        return embedding(words)

    def recurrence(
        self,
        directions: Sequence[Direction],
        initial: Tensor | None = None,
        present: Tensor | None = None,
    ) -> Tensor:
        """Return all hidden states of recurrences that do not depend on attention.

        Args:
            directions: one, or the two of the BiRNN of section 3.2.
            initial: hidden state before the first step, ``(batch, n)``; None: zeros.
            present: ``(time, batch)``, false for padding, which leaves the state unchanged.
                None: no padding.

        Returns:
            ``(time, batch, directions * n)``; index t has position t's states, also in reverse.
        """
        if initial is None:
            inputs, unit, _ = directions[0]
            # the parameters' type: under autocast the inputs, being products, are narrower
            dtype = torch.promote_types(inputs.dtype, unit.input_weight.dtype)
            initial = inputs.new_zeros(inputs.size(1), unit.hidden_size, dtype=dtype)
        states = [_one_direction(*direction, initial, present) for direction in directions]
        return torch.cat(states, dim=-1)

    def decoder_recurrence(
        self,
        word_inputs: Tensor,
        initial: Tensor,
        steps: int,
        memory: Memory,
        unit: Unit,
        alignment_model: Attention,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attend, update, attend, update ... for teacher-forced words.

        Step i attends with s_{i-1}, giving c_i, and then, while there are word inputs, computes
        s_i = f(s_{i-1}, word_inputs[i-1], c_i). The three decoder orders differ only in the word
        whose input they pass at i and in the state that they read out.

        Args:
            word_inputs: ``(updates, batch, 3n)``, with updates either ``steps`` or one fewer.
            initial: s_0, ``(batch, n)``.
            steps: number of target positions.

        Returns:
            hidden states s_0, s_1 ..., ``(updates + 1, batch, n)``; contexts,
            ``(steps, batch, 2n)``; alignment weights, ``(batch, steps, source)``.
        """
        dtype = accurate_type(initial.dtype)
        memory = memory._replace(keys=memory.keys.to(dtype))
        state, states, contexts, alignment = unit.begin(initial.to(dtype)), [], [], []
        inputs_of = word_inputs.unbind()
        remembered = first_state(alignment_model, memory)
        for i in range(steps):
            s = unit.hidden(state)
            c, alpha, remembered = attend(s, memory, alignment_model, remembered)
            contexts.append(c)
            alignment.append(alpha)
            if i < len(inputs_of):
                inputs = inputs_of[i].to(dtype) + unit.context_inputs(c)
                state = unit.step(inputs, state)
                states.append(unit.hidden(state))
        if states:
            following = torch.stack(states).to(initial.dtype)
        else:
            following = _no_states(word_inputs + unit.context_inputs(c), unit, initial)
        states = torch.cat((initial.unsqueeze(0), following))
        return states, torch.stack(contexts), torch.stack(alignment, dim=1).to(initial.dtype)

    def output_cost(
        self,
        t: Tensor,
        weight: Tensor,
        bias: Tensor,
        words: Tensor,
        label_smoothing: float = 0.0,
        present: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the cost of the correct words under the output layer's logits x = W t + b.

        Args:
            t: ``(positions, l)``.
            weight: ``(symbols, l)``.
            bias: ``(symbols,)``.
            words: ``(positions,)``.
            label_smoothing: probability spread evenly over all symbols but the correct one.
            present: ``(positions,)``, false for padding, which costs nothing. None: no padding.

        Returns:
            the cost and, without a gradient, -log p of the words; both summed, in float32 or
            wider, and equal without label smoothing.
        """
        logits = self.output_logits(t, weight, bias)
        lprobs = torch.log_softmax(logits, dim=-1, dtype=accurate_type(logits.dtype))
        if present is not None:
            lprobs = torch.where(present.unsqueeze(1), lprobs, 0.0)
        nll = nn.functional.nll_loss(lprobs, words, reduction="sum")
        if not label_smoothing:
            return nll, nll.detach()
        kept, spread = smoothing(label_smoothing, len(bias))
        return kept * nll - spread * lprobs.sum(), nll.detach()

    def training_cost(
        self,
        function: Callable[..., tuple[Tensor, Tensor, Tensor | None]],
        model: nn.Module,
        words: Sequence[Tensor],
        pads: Sequence[int],
        label_smoothing: float,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the cost of a batch to train on, -log p, and alignment weights.

        Only the cost may be differentiated, once, with respect to the model's parameters, and
        before the next batch's cost is computed. Until then the gradients are valid; those that are
        in the parameters' ``grad`` stay valid.

        Args:
            function: computes them from the words and ``label_smoothing``.
            model: all that it depends on besides.
            words: source words, previous words and correct words, each ``(batch, time)``.
            pads: the padding symbol of each.
        """
        return function(*words, label_smoothing)

    def output_logits(self, t: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return all logits: ``(..., l)`` to ``(..., symbols)``."""
        return nn.functional.linear(t, weight, bias)

    def decoder_steps(self, start: SearchStart) -> DecoderSteps:
        """Return a search's decoder, with one row per hypothesis."""
        return ReferenceSteps(start)


def _one_direction(
    inputs: Tensor, unit: Unit, reverse: bool, initial: Tensor, present: Tensor | None
) -> Tensor:
    """Return the hidden states of one direction, ``(time, batch, n)``."""
    state = unit.begin(initial.to(accurate_type(initial.dtype)))
    states: list[Tensor] = []
    step = -1 if reverse else 1
    # unbind: the backward pass of indexing would fill a whole tensor with zeros at each step
    inputs_of = inputs.unbind()[::step]
    present_at = [None] * len(inputs_of) if present is None else present.unbind()[::step]
    for inputs_t, present_t in zip(inputs_of, present_at, strict=True):
        new = unit.step(inputs_t, state)
        state = new if present_t is None else torch.where(present_t.unsqueeze(-1), new, state)
        states.append(unit.hidden(state))
    if not states:
        return _no_states(inputs, unit, initial)
    return torch.stack(states[::step]).to(initial.dtype)


def _no_states(inputs: Tensor, unit: Unit, initial: Tensor) -> Tensor:
    """Return the states of zero steps, ``(0, batch, n)``.

    The unit runs over no rows, so that its gradients are zero, like an empty sum, not missing.
    """
    state = unit.step(inputs.flatten(0, 1), unit.begin(initial[:0]))
    return unit.hidden(state).view(0, *initial.shape)


class ReferenceSteps(DecoderSteps):
    """Steps that equal the teacher-forced pass at each position."""

    def __init__(self, start: SearchStart) -> None:
        self._order, self._parts, memory, summary, initial, sentences = start
        self._dtype, dtype = initial.dtype, accurate_type(initial.dtype)
        kind = initial.device.type
        lower = autocast_type(kind)
        # a search steps outside of the model's functions, which enable autocast
        self._in_its_type = partial(torch.autocast, kind, lower, enabled=lower is not None)
        if memory is not None:
            memory = memory._replace(keys=memory.keys.to(dtype))
        state = self._parts.unit.begin(initial.to(dtype))
        remembered = memory and first_state(self._parts.alignment_model, memory)
        super().__init__(memory or (summary,), (state, remembered, None), sentences)

    def step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        """Take one step, to the next target position.

        Args:
            previous: ``(rows,)``, the last word of each hypothesis; ignored at the first step.

        Returns:
            t_i, ``(rows, l)``; alignment weights, ``(rows, source)``, or None.
        """
        with self._in_its_type():
            return self._step(previous)

    def _step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        embedding, unit, _, readout, _ = self._parts
        state, remembered, c = self._state
        if self.is_first:
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
        self._state, self.is_first = (state, remembered, c), False
        return readout(unit.hidden(read).to(self._dtype), y, c), alpha

    def log_probabilities(self, t: Tensor, temperature: float, out: Tensor) -> None:
        """Write log p of the next words, the log-softmax of logits / temperature, to ``out``.

        Args:
            t: t_i, ``(rows, l)``.
            out: ``(rows, words)``, in float32 or wider.
        """
        output = self._parts.output
        with self._in_its_type():
            logits = nn.functional.linear(output.inner(t), output.weight, output.bias)
        log_softmax(logits, temperature, out)

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
