"""Alignments of a few validation sentences: the criterion collects them, the task draws them."""

from collections.abc import Callable

import torch
from torch import Tensor

from fairseq_rnnsearch.alignment.figures import Alignment, Samples
from fairseq_rnnsearch.errors import training_goes_on

MakeAlignment = Callable[[int, Tensor, Tensor, Tensor], Alignment]


class ValidationAlignments:
    """Soft alignments of chosen sentences of a validation set.

    Args:
        samples: the sentences to keep.
        make_alignment: turns ``(id, source, target, weights)``, with padded words and weights
            ``(target, source)``, into an alignment of words.
    """

    def __init__(self, samples: Samples, make_alignment: MakeAlignment) -> None:
        self._samples = samples
        self._make_alignment = make_alignment
        self._collected: dict[int, Alignment] = {}

    def clear(self) -> None:
        self._collected = {}

    def collect(self, ids: Tensor, source: Tensor, target: Tensor, attention: Tensor) -> None:
        """Keep the chosen sentences of a batch.

        Args:
            ids: the sentences' indices in their data set, ``(batch,)``.
            source, target: words, ``(batch, source)`` and ``(batch, target)``.
            attention: alignment weights, ``(batch, target, source)``.
        """
        for row, sentence in enumerate(ids.tolist()):
            if sentence in self._samples:
                with training_goes_on("heatmaps"):
                    self._collected[sentence] = self._make_alignment(
                        sentence, source[row], target[row], attention[row]
                    )

    def take(self) -> list[Alignment]:
        """Return and clear what all processes have collected, by sentence."""
        collected = self._collected
        if torch.distributed.is_initialized():
            of_all = [{}] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(of_all, collected)
            collected = {number: shown for one in of_all for number, shown in one.items()}
        self.clear()
        return [collected[number] for number in sorted(collected)]
