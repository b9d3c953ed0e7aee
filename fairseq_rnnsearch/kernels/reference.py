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
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels.derived import accurate_type, smoothing
from fairseq_rnnsearch.paper.equations import (
    Attention,
    BiasedEmbedding,
    DeepOutput,
    Memory,
    OutputLayer,
    Unit,
    attend,
    first_state,
)


class Direction(NamedTuple):
    """One pass over a sentence, from the first position to the last or in reverse."""

    inputs: Tensor  # (time, batch, 3n): what the unit adds at each position
    unit: Unit
    reverse: bool = False


class DecoderParts(NamedTuple):
    """All parts of a decoder except its initial state."""

    embedding: BiasedEmbedding
    unit: Unit
    alignment_model: Attention | None  # None: RNNencdec
    readout: DeepOutput
    output: OutputLayer


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
        logits = nn.functional.linear(t, weight, bias)
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
