"""Forced scoring: posterior weights, and attribution by leaving positions out."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels.accuracy import accurate_type
from fairseq_rnnsearch.network.encoder import EncodedSource
from fairseq_rnnsearch.paper.equations import context

if TYPE_CHECKING:
    from fairseq_rnnsearch.network.decoder import Decoder

_LOGITS = 2**20  # per block: a processor's cache keeps most of them, and a GPU needs more
_LOGITS_ON_A_GPU = 2**26


def posterior(
    decoder: "Decoder", previous: Tensor, source: EncodedSource, words: Tensor
) -> tuple[Tensor, Tensor]:
    """Score given words as ``Decoder.teacher_forced`` does, but with weights that know the words.

    Attention decides where to look before it knows the word. Read as the prior probability
    that y_i translates source position j, it becomes by Bayes' rule (Shankar and Sarawagi,
    2019)

        p(j | y_1 .. y_i, x)  is proportional to  alpha_ij p(y_i | s, y_{i-1}, c_i = h_j)

    States and t_i are those of ``Decoder.teacher_forced``.

    Args:
        previous, source: as for ``Decoder.teacher_forced``.
        words: ``(batch, target)``, the word at each position.

    Returns:
        t_i, ``(batch, target, l)``; the weights, ``(batch, target, source)``.
    """
    positions = decoder.positions(previous, source)
    log_probabilities = []
    for i, (s, of_word) in enumerate(zip(positions.states, positions.word_inputs, strict=True)):
        t_ij = decoder.readout.given_word_inputs(
            s.unsqueeze(1), of_word.unsqueeze(1), source.annotations
        )
        log_probabilities.append(_log_probabilities(decoder, t_ij, words[:, i]))
    scores = positions.alignment.log() + torch.stack(log_probabilities, dim=1)
    return decoder.read_out(positions), torch.softmax(scores, dim=-1)


def leave_one_out(
    decoder: "Decoder",
    previous: Tensor,
    source: EncodedSource,
    words: Tensor,
) -> Tensor | None:
    """Score given words as ``Decoder.teacher_forced`` does, and again without each source position.

    The weights say where the model looked; this says whether it mattered. For each i and j,
    alpha_ij becomes zero, the other weights of the row are scaled to sum to one, and step i
    is computed again: c_i, with ``section3`` the state that has read it, t_i and p(y_i).
    Everything before step i stays as it was.

    Each remaining weight counts as at least the smallest normal number, so that a row whose
    weight is all on position j becomes an even one. If j is the only position, c_i becomes
    the zero vector.

    Args:
        previous, source: as for ``Decoder.teacher_forced``.
        words: ``(batch, target)``, the word at each position.

    Returns:
        ``(batch, target, 1 + source)``: log p(y_i), then log p(y_i) without position j, where
        padding is as if nothing was taken away; None for RNNencdec.
    """
    positions, h = decoder.positions(previous, source), source.annotations
    if positions.alignment is None:
        return None
    log_probabilities = []
    if decoder.order == "section3":  # whose states have read c_i, and are computed again
        word_inputs = decoder.embed(previous.T).through(decoder.unit.word_inputs)
        s_0 = decoder.initial_state(source)
        state = decoder.unit.begin(s_0.to(accurate_type(s_0.dtype)))
    for i, of_word in enumerate(positions.word_inputs):
        c = context(weights_without_each(positions.alignment[:, i], source.padding), h)
        s = positions.states[i].unsqueeze(1)
        if decoder.order == "section3":
            inputs = word_inputs[i].unsqueeze(1) + decoder.unit.context_inputs(c)
            before = state.repeat_interleave(c.size(1), dim=0)
            after = decoder.unit.step(inputs.flatten(0, 1).to(state.dtype), before)
            state = after[:: c.size(1)]  # with all positions
            s = decoder.unit.hidden(after).to(s.dtype).view(*c.shape[:2], -1)
        t = decoder.readout.given_word_inputs(s, of_word.unsqueeze(1), c)
        log_probabilities.append(_log_probabilities(decoder, t, words[:, i]))
    return torch.stack(log_probabilities, dim=1)


def _log_probabilities(decoder: "Decoder", t: Tensor, words: Tensor) -> Tensor:
    """Return log p of each sentence's word, ``(batch, rows)``, storing few logits at once.

    Args:
        t: ``(batch, rows, l)``.
        words: ``(batch,)``.
    """
    shape, words = t.shape[:2], words.repeat_interleave(t.size(1))
    numbers = _LOGITS if words.device.type == "cpu" else _LOGITS_ON_A_GPU
    rows, log_p = max(1, numbers // len(decoder.output.bias)), []
    for part, wanted in zip(t.flatten(0, 1).split(rows), words.split(rows), strict=True):
        logits = decoder.output_layer(part)
        logits = logits.to(accurate_type(logits.dtype))
        of_word = logits.gather(1, wanted.unsqueeze(1)).squeeze(1)
        log_p.append(of_word - logits.logsumexp(dim=1))
    return torch.cat(log_p).view(shape)


def weights_without_each(alpha: Tensor, padding: Tensor) -> Tensor:
    """Return a row of weights as it is, then without each position in turn; see `leave_one_out`.

    Args:
        alpha, padding: ``(batch, source)``.

    Returns:
        ``(batch, 1 + source, source)``; rows sum to one, or are zero where no position is left.
    """
    tiny = torch.finfo(alpha.dtype).tiny
    taken = torch.eye(alpha.size(1), dtype=torch.bool, device=alpha.device)
    taken = nn.functional.pad(taken, (0, 0, 1, 0))
    left = alpha.clamp(min=tiny).masked_fill(padding, 0).unsqueeze(1).masked_fill(taken, 0)
    return nn.functional.normalize(left, p=1, dim=-1, eps=tiny)
