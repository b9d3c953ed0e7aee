"""The paper's two exchangeable parts: f, the hidden unit, and a, the alignment model.

Appendix A.1 chooses one of each and allows others. A torch module with these methods can replace
``GatedUnit`` or ``AlignmentModel``; the reference kernels run it. ``recipes/ablations/arms`` has
examples.
"""

from typing import NamedTuple, Protocol

from torch import Tensor


class Memory(NamedTuple):
    """What the decoder reads from the source at every step, one sentence per row."""

    annotations: Tensor  # (batch, source, 2n): h
    keys: Tensor  # (batch, source, n'): U_a h
    padding: Tensor  # (batch, source), true for padding


class Unit(Protocol):
    """A hidden unit f, for both encoder and decoder.

    Attributes:
        hidden_size: n, the width of the hidden state, which others read.
    """

    hidden_size: int

    def init_weights(self) -> None:
        """Give all parameters the values that training starts from."""

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

    def init_weights(self) -> None:
        """Give all parameters the values that training starts from."""

    def keys(self, annotations: Tensor) -> Tensor:
        """Compute the keys, once per sentence: ``(batch, source, 2n)`` to any width."""

    def energies(self, s: Tensor, keys: Tensor) -> Tensor:
        """Return e_i: ``(batch, hypotheses, n)`` to ``(batch, hypotheses, source)``."""


class AttentionWithState(Attention, Protocol):
    """An alignment model that remembers, such as where it looked at the step before."""

    def begin(self, memory: Memory) -> Tensor:
        """Return the state before the first step, one row per sentence: ``(batch, ...)``."""

    def energies(self, s: Tensor, keys: Tensor, state: Tensor) -> Tensor:
        """Return e_i; the state has one row per hypothesis, ``(batch, hypotheses, ...)``."""

    def next_state(self, state: Tensor, alpha: Tensor) -> Tensor:
        """Return the state after a step with weights alpha_i, ``(batch, hypotheses, source)``."""
