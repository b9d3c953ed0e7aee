"""Multiplicative alignment models; appendix A.1 allows others than the paper's own.

    e_ij = s_{i-1} . h_j                    dot
    e_ij = s_{i-1} W h_j                    general

Dot needs states as wide as annotations. alpha_ij and c_i follow from e_ij as in
``alignment_model``; W h_j does not depend on i and is computed once per sentence. By its name, W is
initialised like W_a and U_a in appendix B.1.
"""

import torch
from torch import Tensor, nn


class DotAlignment(nn.Module):
    """The energies s_{i-1} . h_j, which have no parameters."""

    def __init__(self, size: int, state_size: int, annotation_size: int) -> None:
        """Take the sizes of ``AlignmentModel``, and use none."""
        super().__init__()

    def keys(self, annotations: Tensor) -> Tensor:
        """Return the annotations unchanged, ``(batch, source, 2n)``: they multiply the states."""
        return annotations

    def energies(self, s: Tensor, keys: Tensor) -> Tensor:
        """Return e_i for one target position, see ``AlignmentModel``.

        Args:
            s: decoder states s_{i-1}, ``(batch, hypotheses, n)``.
            keys: ``(batch, source, n)``.
        """
        return (s.unsqueeze(2) * keys.unsqueeze(1)).sum(dim=-1)  # autocast would round a bmm


class GeneralAlignment(DotAlignment):
    """The energies s_{i-1} W h_j.

    Attributes:
        annotation_weight: ``(n, 2n)``, the decoder's n and twice the encoder's: W.
    """

    def __init__(self, size: int, state_size: int, annotation_size: int) -> None:
        super().__init__(size, state_size, annotation_size)
        self.annotation_weight = nn.Parameter(torch.empty(state_size, annotation_size))

    def keys(self, annotations: Tensor) -> Tensor:
        """Return W h: ``(batch, source, 2n)`` to ``(batch, source, n)``."""
        return annotations @ self.annotation_weight.T
