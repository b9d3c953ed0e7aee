"""The best words of a step, without sorting the log-probabilities of a whole dictionary.

Each run of ``RUN`` words is represented by its maximum. A sentence's k best words lie in the k runs
with the best maxima, so only these are searched word by word. On a CPU, C reads everything once and
looks at the words of a run whose maximum is better than the k-th best so far.
"""

from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.c_library import INTEGER, POINTER, Functions

RUN = 64
FUNCTIONS = Functions(
    Path(__file__).with_name("candidates.c"), {"best_words": (*5 * (INTEGER,), *5 * (POINTER,))}
)


def best(lprobs: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the k best continuations of each sentence, best first.

    Args:
        lprobs: log p of each next word, ``(sentences, hypotheses, words)``, contiguous. NaN is
            replaced by minus infinity.
        scores: of the hypotheses so far, ``(sentences, hypotheses)``.
        k: at most all words of all hypotheses.

    Returns:
        scores, words and hypotheses, ``(sentences, k)``.
    """
    if compiled := FUNCTIONS.library_for(lprobs):
        values = lprobs.new_empty(len(lprobs), k)
        words, hypotheses = lprobs.new_empty(2, len(lprobs), k, dtype=torch.long)
        tensors = (lprobs, scores.to(lprobs.dtype).contiguous(), values, words, hypotheses)
        pointers = (tensor.data_ptr() for tensor in tensors)
        compiled.best_words(torch.get_num_threads(), *lprobs.shape, k, *pointers)
        return values, words, hypotheses
    lprobs.nan_to_num_(-torch.inf, torch.inf, -torch.inf)
    values, chosen = _best(lprobs, scores, k)
    return values, chosen % lprobs.size(2), chosen // lprobs.size(2)


def _best(lprobs: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return values, and indices into all words of all hypotheses, ``(sentences, k)``."""
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
