"""The paper's two exchangeable parts: f, the hidden unit, and a, the alignment model.

Appendix A.1 chooses one of each and allows others. A torch module with these attributes can replace
``GatedUnit`` or ``AlignmentModel``: ``recipes/ablations/arms`` has examples.
"""

from typing import Protocol

from torch import Tensor


class Unit(Protocol):
    """A hidden unit f, for both encoder and decoder.

    Attributes:
        hidden_size: n, the width of the hidden state, which others read.
    """

    hidden_size: int

    def word_inputs(self, embedded: Tensor) -> Tensor:
        """Return the words' part of the inputs, computed before the loop: ``(..., m)`` to
        ``(..., inputs)``.
        """

    def context_inputs(self, c: Tensor) -> Tensor:
        """Return the context's part of the inputs: ``(..., context)`` to the same width."""

    def begin(self, h: Tensor) -> Tensor:
        """Return the state before the first step, given its hidden state."""

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the state after one step, which may be wider than the hidden state."""

    def hidden(self, state: Tensor) -> Tensor:
        """Return the hidden state, which attention, readout and encoder read, ``(..., n)``."""


class Attention(Protocol):
    """An alignment model a, with which the decoder attends."""

    def keys(self, annotations: Tensor) -> Tensor:
        """Compute the keys, once per sentence: ``(batch, source, 2n)`` to any width."""

    def energies(self, s: Tensor, keys: Tensor) -> Tensor:
        """Return e_i: ``(batch, hypotheses, n)`` to ``(batch, hypotheses, source)``."""
