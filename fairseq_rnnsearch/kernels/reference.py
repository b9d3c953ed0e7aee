"""Time loops and cost as plain Python over the equations: any device, any floating type.

This is the implementation that others are measured against. States, energies and whatever is summed
over steps are in float32 or wider, also where the operands of products are in a narrower type, by
``torch.autocast`` or because the parameters are.
"""

import torch
from torch import Tensor

from fairseq_rnnsearch.equations import gated_unit
from fairseq_rnnsearch.kernels.elementwise import accurate_type
from fairseq_rnnsearch.kernels.interface import (
    DecoderWeights,
    Memory,
    RecurrentWeights,
    StepWeights,
)
from fairseq_rnnsearch.kernels.reference_steps import ReferenceSteps, attend


def gated_recurrence(
    inputs: Tensor,
    initial: Tensor,
    weights: RecurrentWeights,
    *,
    present: Tensor | None = None,
    reverse: bool = False,
) -> Tensor:
    """All states of one gated recurrence.

    Args:
        inputs: ``(time, batch, 3n)``: [proposed, update, reset], see ``gated_unit``.
        initial: state before the first step, ``(batch, n)``.
        weights: recurrent matrices.
        present: ``(time, batch)``, false where a position is padding; there the state is
            carried on unchanged. None: no padding.
        reverse: run from the last position to the first.

    Returns:
        ``(time, batch, n)``, position t's state at index t also when reversed.
    """
    h = initial.to(accurate_type(initial.dtype))
    states: list[Tensor] = []
    step = -1 if reverse else 1
    # unbind, because the backward pass of indexing fills a whole tensor with zeros at each step
    inputs_of = inputs.unbind()[::step]
    present_at = [None] * len(inputs_of) if present is None else present.unbind()[::step]
    for inputs_t, present_t in zip(inputs_of, present_at, strict=True):
        new = gated_unit(inputs_t, h, weights.gates, weights.proposed)
        h = new if present_t is None else torch.where(present_t.unsqueeze(-1), new, h)
        states.append(h)
    if states:
        return torch.stack(states[::step]).to(initial.dtype)
    # the unit over no rows: its gradients are then zero, as sums of nothing are, and not missing
    return gated_unit(inputs.flatten(0, 1), initial[:0], *weights).view(0, *initial.shape)


def bidirectional_recurrence(
    forward_inputs: Tensor,
    backward_inputs: Tensor,
    present: Tensor,
    forward_weights: RecurrentWeights,
    backward_weights: RecurrentWeights,
) -> Tensor:
    """The BiRNN of section 3.2, both directions from zero states.

    Returns:
        ``(time, batch, 2n)``: forward states, then backward states.
    """
    n = forward_weights.proposed.size(0)
    # of the parameters' type: under autocast the inputs, which come from products, are narrower
    dtype = torch.promote_types(forward_inputs.dtype, forward_weights.proposed.dtype)
    zero = forward_inputs.new_zeros(forward_inputs.size(1), n, dtype=dtype)
    return torch.cat(
        (
            gated_recurrence(forward_inputs, zero, forward_weights, present=present),
            gated_recurrence(
                backward_inputs, zero, backward_weights, present=present, reverse=True
            ),
        ),
        dim=-1,
    )


def decoder_recurrence(
    word_inputs: Tensor, initial: Tensor, steps: int, memory: Memory, weights: DecoderWeights
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend, update, attend, update ... for teacher-forced words.

    Step i attends with s_{i-1}, giving c_i, and then, as long as there are word inputs, forms
    s_i = f(s_{i-1}, word_inputs[i-1], c_i). The three orders of the decoder's step differ only
    in which word's input is handed in at i and in which state is read out.

    Args:
        word_inputs: ``(updates, batch, 3n)``, with updates either ``steps`` or one fewer.
        initial: s_0, ``(batch, n)``.
        steps: number of target positions.

    Returns:
        states s_0, s_1 ..., ``(updates + 1, batch, n)``; contexts, ``(steps, batch, 2n)``;
        alignment weights, ``(batch, steps, source)``.
    """
    dtype = accurate_type(initial.dtype)
    memory = memory._replace(keys=memory.keys.to(dtype))
    s, states, contexts, alignment = initial.to(dtype), [], [], []
    inputs_of = word_inputs.unbind()
    for i in range(steps):
        c, alpha = attend(s, memory, weights)
        contexts.append(c)
        alignment.append(alpha)
        if i < len(inputs_of):
            inputs = inputs_of[i].to(dtype) + c @ weights.context.T
            s = gated_unit(inputs, s, *weights.recurrent)
            states.append(s)
    if states:
        following = torch.stack(states).to(initial.dtype)
    else:
        inputs = word_inputs + c @ weights.context.T
        following = gated_recurrence(inputs, initial, weights.recurrent)
    states = torch.cat((initial.unsqueeze(0), following))
    return states, torch.stack(contexts), torch.stack(alignment, dim=1).to(initial.dtype)


def output_cost(
    t: Tensor, weight: Tensor, bias: Tensor, words: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The output layer's logits x = W t + b, and what the right words cost.

    Args:
        t: ``(positions, l)``, without padding.
        weight: ``(symbols, l)``.
        bias: ``(symbols,)``.
        words: ``(positions,)``.
        label_smoothing: probability spread evenly over all symbols but the right one.

    Returns:
        the cost and, without gradient, -log p of the words; both summed, in float32 or wider, and
        equal without label smoothing.
    """
    logits = torch.nn.functional.linear(t, weight, bias)
    accurate = torch.promote_types(logits.dtype, torch.float32)
    lprobs = torch.log_softmax(logits, dim=-1, dtype=accurate)
    nll = torch.nn.functional.nll_loss(lprobs, words, reduction="sum")
    if not label_smoothing:
        return nll, nll.detach()
    spread = label_smoothing / (len(bias) - 1)
    return (1 - label_smoothing - spread) * nll - spread * lprobs.sum(), nll.detach()


def decoder_steps(
    order: str,
    weights: StepWeights,
    memory: Memory | None,
    summary: Tensor,
    initial: Tensor,
    sentences: Tensor,
) -> ReferenceSteps:
    """A search's decoder, for as many rows as there are hypotheses; see ``steps.Steps``.

    Args:
        order: one of ``network.DECODER_ORDERS``.
        weights: all matrices and vectors up to t_i.
        memory: what is attended to, one row per sentence, or None for RNNencdec.
        summary: RNNencdec's context, ``(sentences, n)``.
        initial: s_0, ``(sentences, n)``.
        sentences: ``(rows,)``, the sentence of each hypothesis.
    """
    return ReferenceSteps(order, weights, memory, summary, initial, sentences)


def output_logits(t: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """All logits: ``(..., l)`` to ``(..., symbols)``."""
    return torch.nn.functional.linear(t, weight, bias)
