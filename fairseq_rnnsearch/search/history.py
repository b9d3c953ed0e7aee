"""What a beam search has done, and the hypotheses that come of it.

Nothing is moved while the search goes on: each step leaves its words, its scores, its alignment
weights, and for each row the row of the step before that it continues. Hypotheses are followed
back from their ends when all have been found.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class _Step(NamedTuple):
    """The rows of the next step, all ``(rows,)``."""

    parents: Tensor
    words: Tensor
    scores: Tensor


class _End(NamedTuple):
    """A hypothesis whose last word was found at ``step``, for ``row``."""

    step: int
    row: int
    sentence: int
    score: float


class History:
    """All steps of one batch, and the ends that were found.

    Args:
        dtype: of the scores.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._steps: list[_Step] = []
        self._weights: list[Tensor | None] = []
        self._ends: list[_End] = []

    def begin_step(self, weights: Tensor | None) -> None:
        """Alignment weights, ``(rows, source)``, of the rows that now look for words."""
        self._weights.append(weights)

    def end_hypothesis(self, row: int, sentence: int, score: float) -> None:
        """A row of the current step is complete with this score, the sum of all log p."""
        self._ends.append(_End(len(self._weights) - 1, row, sentence, score))

    def end_step(self, parents: Tensor, words: Tensor, scores: Tensor) -> None:
        """The rows that go on."""
        self._steps.append(_Step(parents, words, scores))

    def hypotheses(self, sentences: int, eos: int, power: float) -> list[list[dict]]:
        """For each sentence its hypotheses, best first, as fairseq's generator returns them.

        Args:
            power: the score of a hypothesis is divided by its length to this power.
        """
        lengths = [end.step + 1 for end in self._ends]
        tokens, scores, weights = self._follow(eos)
        scores[:, 1:] -= scores[:, :-1].clone()
        final = self._numbers([end.score for end in self._ends])
        final /= self._numbers([length**power for length in lengths])
        found: list[list[dict]] = [[] for _ in range(sentences)]
        for i, (end, length) in enumerate(zip(self._ends, lengths, strict=True)):
            found[end.sentence].append(
                {
                    "tokens": tokens[i, :length],
                    "score": final[i],
                    "attention": torch.empty(0) if weights is None else weights[i, :length].T,
                    "alignment": torch.empty(0),
                    "positional_scores": scores[i, :length],
                }
            )
        # as fairseq compares them, in float32
        return [sorted(beam, key=lambda one: -one["score"].float().item()) for beam in found]

    def _follow(self, eos: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Words and sums of log p, ``(ends, steps)``, and weights, ``(ends, steps, source)``."""
        shape = len(self._ends), len(self._weights)
        tokens = torch.full(shape, eos)
        scores = torch.zeros(shape, dtype=self._dtype)
        weights = None
        if self._weights[0] is not None:  # fairseq keeps them in float32
            weights = torch.zeros(*shape, self._weights[0].size(1))
        last, rows = (
            torch.tensor([end[part] for end in self._ends], dtype=torch.long) for part in (0, 1)
        )
        for i in reversed(range(shape[1])):
            going = (last > i).nonzero().squeeze(1)
            if len(going):
                step, at = self._steps[i], rows[going]
                tokens[going, i] = step.words[at]
                scores[going, i] = step.scores[at]
                rows[going] = step.parents[at]
            if weights is not None:
                there = (last >= i).nonzero().squeeze(1)
                weights[there, i] = self._weights[i][rows[there]].float()
        everyone = torch.arange(len(last))
        scores[everyone, last] = self._numbers([end.score for end in self._ends])
        return tokens, scores, weights

    def _numbers(self, numbers: list[float]) -> Tensor:
        return torch.tensor(numbers, dtype=self._dtype)
