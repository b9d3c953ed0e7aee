"""The best words of a step, without sorting the log-probabilities of a whole dictionary.

Every run of ``RUN`` words is represented by its largest log-probability. The k best words of a
sentence lie in the k runs whose largest are best, so that only these are looked at word by word.
"""

from functools import lru_cache

import torch
from torch import Tensor

RUN = 64


def best(lprobs: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k best continuations of each sentence, best first.

    Args:
        lprobs: log p of each next word, ``(sentences, hypotheses, words)``, contiguous. NaN is
            replaced by minus infinity.
        scores: of the hypotheses so far, ``(sentences, hypotheses)``.

    Returns:
        scores, words and hypotheses, ``(sentences, k)``.
    """
    sentences, width, words = lprobs.shape
    runs = words // RUN
    if width * runs < k:
        totals = _without_nan(lprobs) + scores.unsqueeze(2)
        values, chosen = totals.flatten(1).topk(k)
    else:
        largest = _largest_of_runs(lprobs, runs)
        if largest.isnan().any() or lprobs[..., runs * RUN :].isnan().any():
            largest = _largest_of_runs(_without_nan(lprobs), runs)
        _, run = (largest + scores.unsqueeze(2)).flatten(1).topk(k, sorted=False)
        within, rest = _places(width, words, lprobs.device)
        looked_at = within[run].flatten(1)
        if len(rest):
            looked_at = torch.cat((looked_at, rest.expand(sentences, -1)), dim=1)
        totals = lprobs.flatten(1).gather(1, looked_at)
        totals += scores.gather(1, looked_at // words)
        values, place = totals.topk(k)
        chosen = looked_at.gather(1, place)
    return values, chosen % words, chosen // words


def _largest_of_runs(lprobs: Tensor, runs: int) -> Tensor:
    return lprobs[..., : runs * RUN].unflatten(2, (runs, RUN)).amax(dim=3)


@lru_cache(maxsize=4)
def _places(width: int, words: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where words stand, hypothesis by hypothesis: those of each run, and those in no run."""
    place = torch.arange(width * words, device=device).view(width, words)
    in_runs = words // RUN * RUN
    return place[:, :in_runs].reshape(-1, RUN), place[:, in_runs:].flatten()


def _without_nan(lprobs: Tensor) -> Tensor:
    return lprobs.masked_fill_(lprobs.isnan(), -torch.inf)
