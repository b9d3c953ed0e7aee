"""A batch's words as vectors; each layer computes each distinct word only once."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels import Reference
from fairseq_rnnsearch.paper.equations import BiasedEmbedding


class EmbeddedWords(NamedTuple):
    """The words of a batch as vectors.

    Attributes:
        rows: each distinct word once, ``(distinct, m)``, or all words, ``(target, batch, m)``.
        place: each position's row, ``(target, batch)``, or None in the second case.
    """

    rows: Tensor
    place: Tensor | None

    def through(self, layer: Callable[[Tensor], Tensor], positions: slice = slice(None)) -> Tensor:
        """Apply a layer to these positions; return ``(target, batch, ...)``."""
        if self.place is None:
            return layer(self.rows[positions])
        projected = layer(self.rows)
        if torch.is_autocast_enabled("cpu"):  # sum a word's gradients unrounded
            projected = projected.float()
        return nn.functional.embedding(self.place[positions], projected)


def embed_words(
    words: Tensor, embedding: BiasedEmbedding, dropout: nn.Dropout, backend: Reference
) -> EmbeddedWords:
    """Embed ``(target, batch)`` words, each distinct one once if that saves time.

    In running text fewer than half of a batch's words are distinct. All are embedded with dropout,
    which differs at each position, and on a GPU, where finding duplicates takes longer than
    multiplying.
    """
    if words.device.type != "cpu" or (dropout.training and dropout.p):
        return EmbeddedWords(dropout(backend.vectors(words, embedding)), None)
    distinct, place = words.unique(return_inverse=True)
    return EmbeddedWords(backend.vectors(distinct, embedding), place)
