"""The history of a beam search, and the hypotheses that result from it.

Nothing is moved during the search: each step stores its words, scores, alignment weights, and for
each row the row of the previous step that it continues. When the search is over, hypotheses are
traced back from their ends.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor


class Rows(NamedTuple):
    """The hypotheses that continue to the next step, one per row."""

    parents: list[int]
    words: list[int]
    scores: list[float]


class _End(NamedTuple):
    """A hypothesis whose last word was found at ``step``, for ``row``."""

    step: int
    row: int
    sentence: int
    score: float


@dataclass
class History:
    """All steps of one batch, and the ends that were found.

    Attributes:
        weights: of each step the alignment weights, ``(rows, source)``, of the rows that look for
            words.
        steps: of each step the rows that go on.
    """

    weights: list[Tensor | None] = field(default_factory=list)
    steps: list[Rows] = field(default_factory=list)
    _ends: list[_End] = field(default_factory=list)

    def end_hypothesis(self, row: int, sentence: int, score: float) -> None:
        """Note that a row of the current step is complete with this score, the sum of all log p."""
        self._ends.append(_End(len(self.weights) - 1, row, sentence, score))

    def hypotheses(
        self, sentences: int, eos: int, power: float, dtype: torch.dtype
    ) -> list[list[dict]]:
        """Return each sentence's hypotheses, best first, as fairseq's generator does.

        Call it once: it frees what the steps have stored.

        Args:
            power: a hypothesis's score is divided by its length to this power.
            dtype: the type of the scores.
        """
        paths = [self._follow(end, eos) for end in self._ends]
        steps = len(self.weights)
        tokens = torch.tensor([words for words, _, _ in paths], dtype=torch.long).view(-1, steps)
        sums = torch.tensor([sums for _, sums, _ in paths], dtype=dtype).view(-1, steps)
        sums[:, 1:] -= sums[:, :-1].clone()
        weights = self._weights_of([rows for _, _, rows in paths])
        lengths = [end.step + 1 for end in self._ends]
        final = torch.tensor([end.score for end in self._ends], dtype=dtype)
        final /= torch.tensor([length**power for length in lengths], dtype=dtype)
        beams: list[list[dict]] = [[] for _ in range(sentences)]
        for i, (end, length) in enumerate(zip(self._ends, lengths, strict=True)):
            beams[end.sentence].append(
                {
                    "tokens": tokens[i, :length],
                    "score": final[i],
                    "attention": torch.empty(0) if weights is None else weights[i, :length].T,
                    "alignment": torch.empty(0),
                    "positional_scores": sums[i, :length],
                }
            )
        # as fairseq compares them, in float32
        return [sorted(beam, key=lambda one: -one["score"].float().item()) for beam in beams]

    def _follow(self, end: _End, eos: int) -> tuple[list[int], list[float], list[int]]:
        """Return words, sums of log p, and each word's row; zeros after the end."""
        after = [0] * (len(self.weights) - 1 - end.step)
        words, sums, rows = [*after, eos], [*after, end.score], [*after, end.row]
        row = end.row
        for step in reversed(self.steps[: end.step]):
            words.append(step.words[row])
            sums.append(step.scores[row])
            row = step.parents[row]
            rows.append(row)
        return words[::-1], sums[::-1], rows[::-1]

    def _weights_of(self, rows: list[list[int]]) -> Tensor | None:
        """Return weights, ``(ends, steps, source)``, in float32 on the CPU, and free the steps'."""
        if self.weights[0] is None:
            return None
        device = self.weights[0].device
        by_step = torch.tensor(rows, dtype=torch.long).view(-1, len(self.weights)).T.to(device)
        shape = len(rows), len(by_step), self.weights[0].size(1)
        weights = torch.empty(shape, dtype=torch.float32, device=device)
        for step, chosen in enumerate(by_step):
            weights[:, step] = self.weights[step][chosen]
            self.weights[step] = None  # for long sentences these are gigabytes
        return weights.cpu()
