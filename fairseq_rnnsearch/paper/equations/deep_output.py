"""The deep output with a maxout layer (appendix A.2.2).

    t~_i = U_o s + V_o E y_{i-1} + C_o c_i + b
    t_i = [max(t~_{i,2j-1}, t~_{i,2j})]_{j=1..l}
    p(y_i) = softmax(W_o t_i + b_o)

Which state s is depends on the decoder order, see ``network.decoder``. The bias b before the maxout
comes from the authors' program; the paper's equations omit biases.
"""

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.paper.equations.linear import linear


class DeepOutput(nn.Module):
    """The equations up to t_i, and their parameters.

    Attributes:
        state_weight, word_weight, context_weight: ``(2l, n)``, ``(2l, m)``, ``(2l, 2n)``: U_o,
            V_o, C_o.
        bias: ``(2l,)``.
    """

    def __init__(
        self, maxout_size: int, state_size: int, word_size: int, context_size: int
    ) -> None:
        super().__init__()
        self.state_weight = nn.Parameter(torch.empty(2 * maxout_size, state_size))
        self.word_weight = nn.Parameter(torch.empty(2 * maxout_size, word_size))
        self.context_weight = nn.Parameter(torch.empty(2 * maxout_size, context_size))
        self.bias = nn.Parameter(torch.empty(2 * maxout_size))

    def init_weights(self) -> None:
        """Start as in appendix B.1."""
        for weight in (self.state_weight, self.word_weight, self.context_weight):
            nn.init.normal_(weight, std=0.01)
        nn.init.zeros_(self.bias)

    def forward(self, s: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Return t_i, ``(..., l)``.

        Args:
            s: states, ``(..., n)``.
            y: embedded previous words, zero before the first, ``(..., m)``.
            c: contexts, ``(..., 2n)``.
        """
        of_state, of_context = s @ self.state_weight.T, c @ self.context_weight.T
        return maxout(of_state + y @ self.word_weight.T + of_context + self.bias)

    def word_inputs(self, y: Tensor) -> Tensor:
        """Return V_o e(y) and the bias: ``(..., m)`` to ``(..., 2l)``."""
        return linear(y, self.word_weight, self.bias)

    def given_word_inputs(self, s: Tensor, of_words: Tensor, c: Tensor) -> Tensor:
        """Like ``forward``, given the words' ``word_inputs``."""
        return maxout(s @ self.state_weight.T + of_words + c @ self.context_weight.T)


class OutputLayer(nn.Module):
    """W_o t + b_o, with W_o as one matrix or as the authors' pair of matrices.

    Attributes:
        inner_weight: ``(m, l)``, only in a pair: W_o = weight @ inner_weight.
        weight: ``(words, l)``, or ``(words, m)`` in a pair.
        bias: ``(words,)``.
    """

    def __init__(self, words: int, maxout_size: int, inner_size: int | None = None) -> None:
        super().__init__()
        if inner_size is None:
            self.register_parameter("inner_weight", None)
        else:
            self.inner_weight = nn.Parameter(torch.empty(inner_size, maxout_size))
        self.weight = nn.Parameter(torch.empty(words, inner_size or maxout_size))
        self.bias = nn.Parameter(torch.empty(words))

    def init_weights(self) -> None:
        """Start as in appendix B.1."""
        for weight in (self.inner_weight, self.weight):
            if weight is not None:
                nn.init.normal_(weight, std=0.01)
        nn.init.zeros_(self.bias)

    def inner(self, t: Tensor) -> Tensor:
        """Return what ``weight`` multiplies: ``(..., l)`` to ``(..., l)`` or ``(..., m)``."""
        return t if self.inner_weight is None else t @ self.inner_weight.T


def maxout(t: Tensor) -> Tensor:
    """Return the larger of each pair of neighbours: ``(..., 2l)`` to ``(..., l)``."""
    return torch.maximum(*t.unflatten(-1, (-1, 2)).unbind(dim=-1))
