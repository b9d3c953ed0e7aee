"""The steps of a search by torch: on a GPU, and with parts of a user's own."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from fairseq_rnnsearch.engine.choice import RUN
from fairseq_rnnsearch.engine.interface import Best, Limits, Rows, Steps


class TorchSteps(Steps):
    """See `engine.interface.Steps`; a GPU is waited for once in each step.

    Args:
        models: of an ensemble; each offers its steps by ``decoder.begin``.
        sources: word numbers, longest first.
        pad: the source's padding.
        symbols: has the target's ``pad``, ``unk`` and ``eos``.
    """

    def __init__(
        self,
        models: Sequence[torch.nn.Module],
        sources: Sequence[Sequence[int]],
        pad: int,
        symbols: Any,
    ) -> None:
        self._device = next(models[0].parameters()).device
        words = pad_sequence([torch.tensor(source) for source in sources], True, pad)
        words = words.to(self._device)
        self._steps = [model.decoder.begin(model.encoder(words)) for model in models]
        self._symbols, self._kept = symbols, None

    def best(self, rows: Rows, k: int, limits: Limits) -> Best:
        """See `engine.interface.Steps`."""
        zeros = [0] * len(rows.scores)
        width, eos = len(zeros) // len(limits.only), self._symbols.eos
        only, no_end = (np.repeat(one, width) for one in (limits.only, limits.no_end))
        # NumPy reads lists in a tenth of torch's time, and all goes to the device in one copy
        numbers = [rows.words or zeros, rows.parents or zeros, rows.scores, only, no_end]
        sent = torch.from_numpy(np.array(numbers, np.float64)).to(self._device, non_blocking=True)
        previous, before = sent[:2].long()
        if rows.words:
            for steps in self._steps:
                steps.follow(before, self._kept, width)
            self._kept = None
        else:
            previous = previous + eos
        features, weights = self._step(previous)
        allowed = sent[3].long() if any(word >= 0 for word in limits.only) else None
        forbids_end = sent[4].bool() if any(limits.no_end) else None
        lprobs = self._log_probabilities(features, limits)
        self._limit(lprobs, limits, allowed, forbids_end)
        lprobs.nan_to_num_(-math.inf, math.inf, -math.inf)
        lprobs = lprobs.view(-1, width, lprobs.size(1))
        found = best_words(lprobs, sent[2].to(lprobs.dtype).view(-1, width), k)
        parts = found if weights is None else (*found, weights)
        # all comes from the device in one copy
        came = torch.cat([part.double().flatten() for part in parts]).cpu().numpy()
        chosen, of_weights = np.split(came, [3 * found[0].numel()])
        scores, *numbers = chosen.reshape(3, *found[0].shape)
        if weights is not None:
            weights = of_weights.reshape(weights.shape).astype(np.float32)
        return Best(scores.tolist(), *(part.astype(int).tolist() for part in numbers), weights)

    def keep(self, sentences: Sequence[int]) -> None:
        """See `engine.interface.Steps`."""
        self._kept = torch.tensor(sentences).to(self._device)

    def _step(self, words: Tensor) -> tuple[list[Tensor], Tensor | None]:
        """Return each model's t_i and the mean of their alignment weights."""
        results = [steps.step(words) for steps in self._steps]
        weights = [alpha for _, alpha in results if alpha is not None]
        mean = sum(weights[1:], weights[0]) / len(results) if weights else None
        return [t for t, _ in results], mean

    def _log_probabilities(self, features: list[Tensor], limits: Limits) -> Tensor:
        """Return log p, ``(rows, words)``; for an ensemble, the log of the mean probability."""
        lprobs = [
            steps.log_probabilities(t, limits.temperature)
            for steps, t in zip(self._steps, features, strict=True)
        ]
        if len(lprobs) == 1:
            return lprobs[0]
        return torch.logsumexp(torch.stack(lprobs), dim=0) - math.log(len(lprobs))

    def _limit(
        self,
        lprobs: Tensor,
        limits: Limits,
        allowed: Tensor | None,
        forbids_end: Tensor | None,
    ) -> None:
        """Forbid words in place, as `engine.choice` does."""
        symbols = self._symbols
        if limits.unk_penalty:
            lprobs[:, symbols.unk] -= limits.unk_penalty
        if allowed is not None:
            given = allowed.clamp(min=0).unsqueeze(1)
            is_given = allowed.ge(0).unsqueeze(1)
            scores = lprobs.gather(1, given)
        lprobs[:, symbols.pad] = -math.inf
        if forbids_end is not None:
            lprobs[:, symbols.eos].masked_fill_(forbids_end, -math.inf)
        if limits.forbidden is not None:
            for row, words in enumerate(limits.forbidden):
                lprobs[row, list(words)] = -math.inf
        if allowed is not None:
            scores = torch.where(is_given, scores, lprobs.gather(1, given))
            lprobs.masked_fill_(is_given, -math.inf).scatter_(1, given, scores)


def best_words(lprobs: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the k best continuations of each sentence, without sorting whole dictionaries.

    See `engine.choice`.

    Args:
        lprobs: log p of each next word, ``(sentences, hypotheses, words)``.
        scores: of the hypotheses so far, ``(sentences, hypotheses)``.
        k: at most all words of all hypotheses.

    Returns:
        scores, words, and the numbers of the hypotheses that they continue, ``(sentences, k)``.
    """
    words = lprobs.size(2)
    runs = nn.functional.pad(lprobs, (0, -words % RUN), value=-math.inf).unflatten(2, (-1, RUN))
    of_hypothesis = runs.size(2)
    largest = (runs.amax(dim=3) + scores.unsqueeze(2)).flatten(1)
    _, run = largest.topk(min(k, largest.size(1)), sorted=False)
    looked_at = run.unsqueeze(2).expand(-1, -1, RUN)
    totals = runs.flatten(1, 2).gather(1, looked_at)
    totals = totals + scores.gather(1, run // of_hypothesis).unsqueeze(2)
    values, place = totals.flatten(1).topk(k)
    run = run.gather(1, place // RUN)
    word = run % of_hypothesis * RUN + place % RUN
    return values, word.clamp_max(words - 1), run // of_hypothesis
