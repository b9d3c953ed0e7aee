"""The long short-term memory, which appendix A.1.1 allows instead of the gated hidden unit.

    i = sigma(x_i + U_i h)                  input gate
    f = sigma(x_f + U_f h)                  forget gate
    g = tanh(x_g + U_g h)                   proposed state
    o = sigma(x_o + U_o h)                  output gate
    c' = f o c + i o g                      new cell state
    h' = o o tanh(c')                       new hidden state

``x_i`` to ``x_o`` stand for all that does not depend on h: W e(word) with the biases, and in the
decoder the context's C c_i. ``torch.nn.LSTM`` is the same unit with two vectors of biases.

The first cell state is zero, also in the decoder, where the first h is s_0. By appendix B.1 all
biases start at zero, even the forget gate's: at first it passes half of the cell state.

    fairseq-train ... --user-dir recipes/ablations/arms --arch long_short_term_memory
"""

import torch
from torch import Tensor, nn

from arms.arm import Start, arm
from fairseq_rnnsearch.network import Decoder, Encoder
from fairseq_rnnsearch.paper.equations import GatedUnit
from fairseq_rnnsearch.paper.equations.gated_unit import orthogonal_blocks_
from fairseq_rnnsearch.paper.equations.linear import linear


class LongShortTermMemory(nn.Module):
    """One unit, with the interface of ``GatedUnit``.

    The rows of stacked matrices are [input, forget, proposed, output], as in ``torch.nn.LSTM``.
    The state is [h, c], ``(..., 2n)``.

    Attributes:
        input_weight: ``(4n, m)``: W_i, W_f, W_g, W_o.
        input_bias: ``(4n,)``.
        recurrent_weight: ``(4n, n)``: U_i, U_f, U_g, U_o.
        context_weight: ``(4n, context)``: C_i, C_f, C_g, C_o; only the decoder has it.
    """

    def __init__(self, input_size: int, hidden_size: int, context_size: int = 0) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.input_weight = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.input_bias = nn.Parameter(torch.empty(4 * hidden_size))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        if context_size:
            self.context_weight = nn.Parameter(torch.empty(4 * hidden_size, context_size))

    def init_weights(self) -> None:
        """Start as in appendix B.1."""
        nn.init.normal_(self.input_weight, std=0.01)
        nn.init.zeros_(self.input_bias)
        orthogonal_blocks_(self.recurrent_weight)
        if hasattr(self, "context_weight"):
            nn.init.normal_(self.context_weight, std=0.01)

    def word_inputs(self, embedded: Tensor) -> Tensor:
        """Return W e(y) plus the biases, the words' part of x: ``(..., m)`` to ``(..., 4n)``."""
        return linear(embedded, self.input_weight, self.input_bias)

    def context_inputs(self, c: Tensor) -> Tensor:
        """Return C c_i, the context's part of x: ``(..., context)`` to ``(..., 4n)``."""
        return c @ self.context_weight.T

    def begin(self, h: Tensor) -> Tensor:
        """Return the state before the first step, given its hidden state; the cell is zero."""
        return torch.cat((h, torch.zeros_like(h)), dim=-1)

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return [h', c'] given x_i to x_o side by side, ``(batch, 4n)``, and [h, c].

        As in ``GatedUnit``, the state's type may be wider than that of the products' operands.
        """
        U = self.recurrent_weight
        h, c = state.chunk(2, dim=-1)
        i, f, g, o = (inputs.to(h.dtype) + h.to(U.dtype) @ U.T).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.cat((torch.sigmoid(o) * torch.tanh(c), c), dim=-1)

    def hidden(self, state: Tensor) -> Tensor:
        """Return h, which attention, readout and encoder read: ``(..., n)``."""
        return state[..., : self.hidden_size]


@arm
def long_short_term_memory(encoder: Encoder, decoder: Decoder, start: Start) -> None:
    """Replace the gated hidden units of both sides."""

    def memory(unit: GatedUnit) -> LongShortTermMemory:
        context = unit.context_weight.size(1) if unit is decoder.unit else 0
        new = LongShortTermMemory(unit.input_weight.size(1), unit.hidden_size, context)
        start(new)
        return new

    encoder.forward_unit = memory(encoder.forward_unit)
    if encoder.backward_unit is not None:
        encoder.backward_unit = memory(encoder.backward_unit)
    decoder.unit = memory(decoder.unit)
