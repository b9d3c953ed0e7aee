"""Given words, scored again with other alignment weights."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from numpy.typing import NDArray
from torch import Tensor

from fairseq_rnnsearch.kernels.derived import accurate_type
from fairseq_rnnsearch.network.encoder import EncodedSource
from fairseq_rnnsearch.paper.equations import context

if TYPE_CHECKING:
    from fairseq_rnnsearch.network.decoder import Decoder

Alternatives = Callable[[NDArray, NDArray], NDArray]

_LOGITS = 2**20  # per block: a processor's cache keeps most of them, and a GPU needs more
_LOGITS_ON_A_GPU = 2**26


def reread(
    decoder: "Decoder",
    previous: Tensor,
    source: EncodedSource,
    words: Tensor,
    alternatives: Alternatives | None,
) -> Tensor:
    """Return log p of given words, had each step alone read other contexts.

    Everything before the step stays as it is in ``Decoder.teacher_forced``.

    Args:
        previous, source: as for ``Decoder.teacher_forced``.
        words: ``(batch, target)``, the word at each position.
        alternatives: returns other weights, ``(batch, k, source)``, given those of a step,
            ``(batch, source)``, and what is no padding. The first are those given. None: each
            annotation alone is a context, and states stay as they are with ``section3`` too.

    Returns:
        ``(batch, target, k)``.
    """
    positions = decoder.positions(previous, source)
    alpha = positions.alignment.to(accurate_type(positions.alignment.dtype)).cpu().numpy()
    is_word, log_probabilities = (~source.padding).cpu().numpy(), []
    makes_states = alternatives is not None and decoder.order == "section3"
    if makes_states:
        word_inputs = decoder.embed(previous.T).through(decoder.unit.word_inputs)
        s_0 = decoder.initial_state(source)
        state = decoder.unit.begin(s_0.to(accurate_type(s_0.dtype)))
    for i, of_word in enumerate(positions.word_inputs):
        c = source.annotations
        if alternatives is not None:
            weights = torch.from_numpy(alternatives(alpha[:, i], is_word))
            c = context(weights.to(previous.device), c)
        s = positions.states[i].unsqueeze(1)
        if makes_states:
            inputs = word_inputs[i].unsqueeze(1) + decoder.unit.context_inputs(c)
            before = state.repeat_interleave(c.size(1), dim=0)
            after = decoder.unit.step(inputs.flatten(0, 1).to(state.dtype), before)
            state = after[:: c.size(1)]
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
