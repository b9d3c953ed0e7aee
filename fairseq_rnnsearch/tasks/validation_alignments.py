"""A few validation sentences' alignments, collected by the criterion and drawn by the task."""

from pathlib import Path

from fairseq.data import Dictionary
from torch import Tensor

from fairseq_rnnsearch.figures import save_heatmap


class ValidationAlignments:
    """Soft alignments of the first sentences of a validation set.

    Args:
        samples: how many sentences.
        source_dictionary, target_dictionary: for the labels.
    """

    def __init__(
        self, samples: int, source_dictionary: Dictionary, target_dictionary: Dictionary
    ) -> None:
        self._samples = samples
        self._source_dictionary = source_dictionary
        self._target_dictionary = target_dictionary
        self._collected: dict[int, tuple[list[str], list[str], Tensor]] = {}

    def clear(self) -> None:
        self._collected.clear()

    def collect(self, ids: Tensor, source: Tensor, target: Tensor, attention: Tensor) -> None:
        """Keep the chosen sentences of a batch.

        Args:
            ids: numbers of the sentences in their data set, ``(batch,)``.
            source, target: words, ``(batch, source)`` and ``(batch, target)``.
            attention: alignment weights, ``(batch, target, source)``.
        """
        for row, sentence in enumerate(ids.tolist()):
            if sentence >= self._samples:
                continue
            is_source = source[row].ne(self._source_dictionary.pad())
            is_target = target[row].ne(self._target_dictionary.pad())
            self._collected[sentence] = (
                [self._source_dictionary[word] for word in source[row][is_source]],
                [self._target_dictionary[word] for word in target[row][is_target]],
                attention[row][is_target][:, is_source].float().cpu(),
            )

    def draw(self, folder: Path, update: int) -> None:
        """Write one PNG per sentence; each process draws those that it has seen."""
        if self._collected:
            folder.mkdir(parents=True, exist_ok=True)
        for sentence, (source, target, weights) in sorted(self._collected.items()):
            name = f"valid{sentence:04d}-update{update:07d}.png"
            save_heatmap(folder / name, source, target, weights.numpy())
