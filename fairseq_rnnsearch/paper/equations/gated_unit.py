"""The gated hidden unit (appendix A.1.1), for both encoder and decoder.

    z = sigma(x_z + U_z h)                  update gate
    r = sigma(x_r + U_r h)                  reset gate
    h~ = tanh(x + U [r o h])                proposed state
    h' = (1 - z) o h + z o h~               new state

``x``, ``x_z`` and ``x_r`` stand for everything that does not depend on h: W e(word) with the
bias of the proposed state, and in the decoder the context's C c. The gates have no bias.

``torch.nn.GRU`` is a different unit: it resets after the recurrent product, and its z keeps the old
state where this one replaces it.
"""

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.paper.equations.linear import linear


class GatedUnit(nn.Module):
    """One unit: its parameters and its interface to the loops over time.

    The rows of stacked matrices are [proposed, update, reset]. A unit's state may hold more than
    the hidden state that others read. Here both are the same, so ``begin`` and ``hidden`` return
    their argument.

    Attributes:
        input_weight: ``(3n, m)``: W, W_z, W_r.
        input_bias: ``(n,)``, for the proposed state only.
        recurrent_gates: ``(2n, n)``: U_z, U_r.
        recurrent_proposed: ``(n, n)``: U.
        context_weight: ``(3n, context)``: C, C_z, C_r; only the decoder has it.
    """

    def __init__(self, input_size: int, hidden_size: int, context_size: int = 0) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.input_weight = nn.Parameter(torch.empty(3 * hidden_size, input_size))
        self.input_bias = nn.Parameter(torch.empty(hidden_size))
        self.recurrent_gates = nn.Parameter(torch.empty(2 * hidden_size, hidden_size))
        self.recurrent_proposed = nn.Parameter(torch.empty(hidden_size, hidden_size))
        if context_size:
            self.context_weight = nn.Parameter(torch.empty(3 * hidden_size, context_size))

    def init_weights(self) -> None:
        """Start as in appendix B.1: U, U_z and U_r are orthogonal."""
        nn.init.normal_(self.input_weight, std=0.01)
        nn.init.zeros_(self.input_bias)
        orthogonal_blocks_(self.recurrent_gates)
        orthogonal_blocks_(self.recurrent_proposed)
        if hasattr(self, "context_weight"):
            nn.init.normal_(self.context_weight, std=0.01)

    def word_inputs(self, embedded: Tensor) -> Tensor:
        """Return W e(y) plus the bias, the words' part of x: ``(..., m)`` to ``(..., 3n)``."""
        bias = nn.functional.pad(self.input_bias, (0, 2 * self.hidden_size))
        return linear(embedded, self.input_weight, bias)

    def context_inputs(self, c: Tensor) -> Tensor:
        """Return C c, the context's part of x: ``(..., context)`` to ``(..., 3n)``."""
        return c @ self.context_weight.T

    def begin(self, h: Tensor) -> Tensor:
        """Return the state before the first step, given its hidden state."""
        return h

    def step(self, inputs: Tensor, h: Tensor) -> Tensor:
        """Return the state after one step, ``(batch, n)``.

        The state's type may be wider than that of the products' operands, so that small changes
        are not lost; then everything but these operands has the state's type.

        Args:
            inputs: x, x_z and x_r side by side, ``(batch, 3n)``.
            h: the state before the step, ``(batch, n)``.
        """
        n, U_gates, U = h.size(-1), self.recurrent_gates, self.recurrent_proposed
        x, x_zr = inputs.to(h.dtype).split((n, 2 * n), dim=-1)
        z, r = torch.sigmoid(x_zr + h.to(U_gates.dtype) @ U_gates.T).chunk(2, dim=-1)
        proposed = torch.tanh(x + (r * h).to(U.dtype) @ U.T)
        return torch.lerp(h, proposed, z)

    def hidden(self, state: Tensor) -> Tensor:
        """Return the hidden state, which attention, readout and encoder read, ``(..., n)``."""
        return state


@torch.no_grad()
def orthogonal_blocks_(weight: Tensor) -> None:
    """Fill each square block of rows with a random orthogonal matrix."""
    n = weight.size(1)
    for block in weight.split(n):
        # LAPACK has no half-precision factorisation
        start = torch.empty(n, n, dtype=torch.promote_types(block.dtype, torch.float32))
        block.copy_(nn.init.orthogonal_(start))
