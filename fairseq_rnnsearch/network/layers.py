"""The parts that encoder and decoder share."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels import RecurrentWeights


class BiasedEmbedding(nn.Module):
    """e(w) = E w + b. The authors' embeddings have a bias; the paper leaves biases out.

    Attributes:
        weight: ``(words, m)``, the transpose of the paper's E.
        bias: ``(m,)``.
    """

    def __init__(self, words: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, size))
        self.bias = nn.Parameter(torch.empty(size))

    def forward(self, words: Tensor) -> Tensor:
        """``(...)`` word numbers to ``(..., m)``."""
        return nn.functional.embedding(words, self.weight) + self.bias


class EmbeddedWords(NamedTuple):
    """The words of a batch as vectors.

    Attributes:
        rows: each distinct word once, ``(distinct, m)``, or all of them, ``(target, batch, m)``.
        place: the row of each position, ``(target, batch)``, or None in the second case.
    """

    rows: Tensor
    place: Tensor | None

    def through(self, layer: Callable[[Tensor], Tensor], positions: slice = slice(None)) -> Tensor:
        """What a layer makes of these positions, ``(target, batch, ...)``."""
        if self.place is None:
            return layer(self.rows[positions])
        made = layer(self.rows)
        if torch.is_autocast_enabled("cpu"):  # gradients of one word are not rounded to be summed
            made = made.float()
        return nn.functional.embedding(self.place[positions], made)


def embed_words(words: Tensor, embedding: BiasedEmbedding, dropout: nn.Dropout) -> EmbeddedWords:
    """Of ``(target, batch)`` words, each distinct one once where that saves time.

    In running text less than half of the words of a batch are distinct. Not with dropout, which is
    another at each position, nor on a GPU, where counting them takes longer than multiplying.
    """
    if words.device.type != "cpu" or (dropout.training and dropout.p):
        return EmbeddedWords(dropout(embedding(words)), None)
    distinct, place = words.unique(return_inverse=True)
    return EmbeddedWords(embedding(distinct), place)


class GatedUnit(nn.Module):
    """Parameters of one gated hidden unit; rows are stacked as [proposed, update, reset].

    Attributes:
        input_weight: ``(3n, m)``: W, W_z, W_r.
        input_bias: ``(n,)``, of the proposed state alone.
        recurrent_gates: ``(2n, n)``: U_z, U_r.
        recurrent_proposed: ``(n, n)``: U.
        context_weight: ``(3n, context)``: C, C_z, C_r; the decoder's only.
    """

    def __init__(self, input_size: int, hidden_size: int, context_size: int = 0) -> None:
        super().__init__()
        self.input_weight = nn.Parameter(torch.empty(3 * hidden_size, input_size))
        self.input_bias = nn.Parameter(torch.empty(hidden_size))
        self.recurrent_gates = nn.Parameter(torch.empty(2 * hidden_size, hidden_size))
        self.recurrent_proposed = nn.Parameter(torch.empty(hidden_size, hidden_size))
        if context_size:
            self.context_weight = nn.Parameter(torch.empty(3 * hidden_size, context_size))

    @property
    def hidden_size(self) -> int:
        return self.recurrent_proposed.size(0)

    @property
    def recurrent(self) -> RecurrentWeights:
        return RecurrentWeights(self.recurrent_gates, self.recurrent_proposed)

    def inputs(self, embedded: Tensor) -> Tensor:
        """What the unit adds for its words at every step: ``(..., m)`` to ``(..., 3n)``."""
        bias = nn.functional.pad(self.input_bias, (0, 2 * self.hidden_size))
        return nn.functional.linear(embedded, self.input_weight, bias)
