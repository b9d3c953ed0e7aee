"""A decoder that takes one step at a time, for beam search.

All hypotheses of a sentence read the same annotations, so these are stored once per sentence. Each
sentence has the same number of hypotheses, and their rows are adjacent.
"""

import torch
from torch import Tensor


class DecoderSteps:
    """The bookkeeping that all backends share: which row belongs to which sentence.

    Each backend adds ``step`` and ``log_probabilities``, see ``reference.ReferenceSteps``.

    Args:
        memory: tensors that stay constant, each ``(sentences, ...)``.
        state: what each step updates: tensors, each ``(sentences, ...)`` before the first step, or
            None for what there is not.
        sentences: ``(rows,)``, the sentence of each row.
    """

    def __init__(
        self, memory: tuple[Tensor, ...], state: tuple[Tensor | None, ...], sentences: Tensor
    ) -> None:
        self._memory, self._state = memory, state
        self._width = 1
        self.is_first = True
        self.select(sentences)

    def select(self, order: Tensor) -> None:
        """Let row i continue hypothesis ``order[i]``, and drop sentences that have no row left."""
        sentences, width = order // self._width, 1
        groups, counts = torch.unique_consecutive(sentences, return_counts=True)
        least, most = counts.aminmax()
        if least == most:  # each sentence has as many rows, all adjacent
            sentences, width = groups, int(most)
        everyone = torch.arange(len(self._memory[0]), device=sentences.device)
        self.follow(order, None if torch.equal(sentences, everyone) else sentences, width)

    def follow(self, order: Tensor, sentences: Tensor | None, width: int) -> None:
        """Like ``select``, for callers that know which sentences the rows belong to.

        Args:
            order: ``(rows,)``.
            sentences: the sentences to keep, or None for all.
            width: the number of adjacent rows per sentence.
        """
        self._width = width
        if sentences is not None:
            self._memory = tuple(part.index_select(0, sentences) for part in self._memory)
        self._state = tuple(
            None if part is None else part.index_select(0, order) for part in self._state
        )
