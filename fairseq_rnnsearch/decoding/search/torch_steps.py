"""The steps of a search by torch: on a GPU, and with parts of a user's own."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
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
        values, chosen = best_words(lprobs, sent[2].to(lprobs.dtype).view(-1, width), k)
        found = values, chosen % lprobs.size(2), chosen // lprobs.size(2)
        # all comes from the device in one copy
        scores, *numbers = torch.stack([part.double() for part in found]).cpu()
        return Best(scores.tolist(), *(part.long().tolist() for part in numbers), weights)

    def keep(self, sentences: Sequence[int]) -> None:
        """See `engine.interface.Steps`."""
        self._kept = torch.tensor(sentences).to(self._device)

    def weights_of(
        self, weights: list[Tensor | None], rows: Sequence[Sequence[int]]
    ) -> NDArray | None:
        """See `engine.interface.Steps`."""
        if weights[0] is None:
            return None
        by_step = torch.tensor(rows).T.to(self._device)
        shape = len(rows), len(weights), weights[0].size(1)
        along = torch.empty(shape, dtype=torch.float32, device=self._device)
        for step, chosen in enumerate(by_step):
            along[:, step] = weights[step][chosen]
            weights[step] = None  # for long sentences these are gigabytes
        return along.cpu().numpy()

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


def best_words(lprobs: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best continuations of each sentence, without sorting whole dictionaries.

    See `engine.choice`.

    Args:
        lprobs: log p of each next word, ``(sentences, hypotheses, words)``.
        scores: of the hypotheses so far, ``(sentences, hypotheses)``.
        k: at most all words of all hypotheses.

    Returns:
        scores, and indices into all words of all hypotheses, ``(sentences, k)``.
    """
    sentences, width, words = lprobs.shape
    runs = words // RUN
    if width * runs < k:
        return (lprobs + scores.unsqueeze(2)).flatten(1).topk(k)
    in_runs = lprobs[..., : runs * RUN].unflatten(2, (runs, RUN))
    largest = (in_runs.amax(dim=3) + scores.unsqueeze(2)).flatten(1)
    _, run = largest.topk(k, sorted=False)
    places, places_of_rest = _places(width, words, lprobs.device)
    looked_at = places[run].flatten(1)
    totals = lprobs.flatten(1).gather(1, looked_at)
    totals.view(sentences, k, RUN).add_(scores.gather(1, run // runs).unsqueeze(2))
    if words > runs * RUN:
        rest = (lprobs[..., runs * RUN :] + scores.unsqueeze(2)).flatten(1)
        totals = torch.cat((totals, rest), dim=1)
        looked_at = torch.cat((looked_at, places_of_rest.expand(sentences, -1)), dim=1)
    values, place = totals.topk(k)
    return values, looked_at.gather(1, place)


@lru_cache(maxsize=4)
def _places(width: int, words: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the words' indices, hypothesis by hypothesis: each run's, and the remaining ones."""
    place = torch.arange(width * words, device=device).view(width, words)
    in_runs = words // RUN * RUN
    return place[:, :in_runs].reshape(-1, RUN), place[:, in_runs:].flatten()
