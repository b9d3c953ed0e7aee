"""What the paper lets one exchange: f, the hidden unit, and a, the alignment model.

Appendix A.1 names one of each and allows others. A class with these attributes can take the place
of ``GatedUnit`` or of ``AlignmentModel``; ``long_short_term_memory`` and ``product_alignment`` are
examples. Both are modules of torch, made with the sizes that the paper's own are made with.
"""

from typing import Protocol

from torch import Tensor


class Unit(Protocol):
    """A hidden unit f, in the encoder and the decoder alike.

    Attributes:
        hidden_size: n, the width of what others read of a state.
        inputs_size: the width of what is computed before the loop over time.
        state_size: the width of what it takes from step to step, which may be more than n.
    """

    hidden_size: int
    inputs_size: int
    state_size: int

    def word_inputs(self, embedded: Tensor) -> Tensor:
        """Return the words' part of the inputs: ``(..., m)`` to ``(..., inputs_size)``."""

    def context_inputs(self, c: Tensor) -> Tensor:
        """Return the context's part of the inputs: ``(..., context)`` to the same width."""

    def begin(self, h: Tensor) -> Tensor:
        """Return the state of a hidden state before the first step."""

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the state after one step, ``(batch, state_size)``."""

    def hidden(self, state: Tensor) -> Tensor:
        """Return what attention, readout and encoder read of a state, ``(..., n)``."""


class Attention(Protocol):
    """An alignment model a, by which the decoder attends.

    Attributes:
        size: the width of a key.
    """

    size: int

    def keys(self, annotations: Tensor) -> Tensor:
        """Return what is computed once for a sentence: ``(batch, source, 2n)`` to ``size``."""

    def energies(self, s: Tensor, keys: Tensor) -> Tensor:
        """Return e_i: ``(batch, hypotheses, n)`` to ``(batch, hypotheses, source)``."""
