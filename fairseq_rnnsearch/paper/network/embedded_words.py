"""The words of a batch as vectors, and what layers make of them, once for each distinct word."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.paper.equations import BiasedEmbedding


class EmbeddedWords(NamedTuple):
    """The words of a batch as vectors.

    Attributes:
        rows: each distinct word once, ``(distinct, m)``, or all of them, ``(target, batch, m)``.
        place: the row of each position, ``(target, batch)``, or None in the second case.
    """

    rows: Tensor
    place: Tensor | None

    def through(self, layer: Callable[[Tensor], Tensor], positions: slice = slice(None)) -> Tensor:
        """Return what a layer makes of these positions, ``(target, batch, ...)``."""
        if self.place is None:
            return layer(self.rows[positions])
        projected = layer(self.rows)
        if torch.is_autocast_enabled("cpu"):  # gradients of one word are not rounded to be summed
            projected = projected.float()
        return nn.functional.embedding(self.place[positions], projected)


def embed_words(words: Tensor, embedding: BiasedEmbedding, dropout: nn.Dropout) -> EmbeddedWords:
    """Embed ``(target, batch)`` words, each distinct one once where that saves time.

    In running text less than half of the words of a batch are distinct. They are not looked for
    with dropout, which is another at each position, nor on a GPU, where counting them takes longer
    than multiplying.
    """
    if words.device.type != "cpu" or (dropout.training and dropout.p):
        return EmbeddedWords(dropout(embedding(words)), None)
    distinct, place = words.unique(return_inverse=True)
    return EmbeddedWords(embedding(distinct), place)
