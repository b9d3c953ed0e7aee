"""A decoder that takes one step after the other, as beam search needs it.

All hypotheses of a sentence read the same annotations: these are kept once for each sentence, and
the rows of a sentence's hypotheses, as many for every sentence, stand together.
"""

import torch
from torch import Tensor


class DecoderSteps:
    """What every backend's steps share: which row belongs to which sentence.

    Args:
        memory: what does not change, each ``(sentences, ...)``.
        state: what one step leaves for the next, each ``(sentences, ...)`` before the first.
        sentences: ``(rows,)``, the sentence of each row.
    """

    def __init__(
        self, memory: tuple[Tensor, ...], state: tuple[Tensor, ...], sentences: Tensor
    ) -> None:
        self._memory, self._state = memory, state
        self._width = 1
        self.is_first = True
        self.select(sentences)

    def step(self, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        """Take one step, to the next target position.

        Args:
            previous: ``(rows,)``, the last word of each hypothesis; ignored at the first step.

        Returns:
            t_i, ``(rows, l)``; alignment weights, ``(rows, source)``, or None.
        """
        raise NotImplementedError

    def logits(self, t: Tensor) -> Tensor:
        """Return unnormalised log-probabilities of the next words, ``(rows, words)``, from t_i."""
        raise NotImplementedError

    def log_probabilities(self, t: Tensor, temperature: float, out: Tensor) -> None:
        """Write log p of the next words, a softmax of the logits divided by a temperature.

        Args:
            t: t_i, ``(rows, l)``.
            out: ``(rows, words)``, in float32 or wider, where they go.
        """
        raise NotImplementedError

    def select(self, order: Tensor) -> None:
        """Let row i go on from what row ``order[i]`` has read, and drop sentences without rows."""
        sentences, width = _grouped(order // self._width)
        count = len(self._memory[0])
        everyone = torch.arange(count, device=sentences.device)
        self.follow(order, None if torch.equal(sentences, everyone) else sentences, width)

    def follow(self, order: Tensor, sentences: Tensor | None, width: int) -> None:
        """Do as ``select`` does, for callers that know which sentences the rows belong to.

        Args:
            order: ``(rows,)``.
            sentences: those that are kept, or None for all.
            width: how many rows of each of them stand together.
        """
        self._width = width
        if sentences is not None:
            self._memory = tuple(part.index_select(0, sentences) for part in self._memory)
        self._state = tuple(part.index_select(0, order) for part in self._state)


def _grouped(sentences: Tensor) -> tuple[Tensor, int]:
    """Return the sentences of rows, and how many rows stand together for each of them.

    A sentence is named again for each of its rows where not all have as many in one place.
    """
    groups, counts = torch.unique_consecutive(sentences, return_counts=True)
    least, most = counts.aminmax()
    return (groups, int(most)) if least == most else (sentences, 1)
