"""Words as vectors.

    e(w) = E w + b

The authors' embeddings have a bias; the paper's equations omit biases.
"""

import torch
from torch import Tensor, nn


class BiasedEmbedding(nn.Module):
    """The table of all word vectors, and the bias.

    Attributes:
        weight: ``(words, m)``, the transpose of the paper's E.
        bias: ``(m,)``.
    """

    def __init__(self, words: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, size))
        self.bias = nn.Parameter(torch.empty(size))

    def init_weights(self) -> None:
        """Start as in appendix B.1."""
        nn.init.normal_(self.weight, std=0.01)
        nn.init.zeros_(self.bias)

    def forward(self, words: Tensor) -> Tensor:
        """Return the vectors of word numbers: ``(...)`` to ``(..., m)``."""
        return nn.functional.embedding(words, self.weight) + self.bias
