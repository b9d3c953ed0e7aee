"""Multiplicative alignment models, alternatives that appendix A.1 allows.

    e_ij = s_{i-1} . h_j                    dot
    e_ij = s_{i-1} W h_j                    general

Dot needs states as wide as annotations. alpha_ij and c_i follow from e_ij as in
``alignment_model``; W h_j does not depend on i and is computed once per sentence.

    fairseq-train ... --user-dir recipes/ablations/arms --arch general

This file is an example of your own attention function: a class with ``keys``, ``energies`` and
``init_weights``, and an architecture that uses it. ``location_alignment`` adds a state.
"""

import torch
from torch import Tensor, nn

from arms.arm import Start, arm
from fairseq_rnnsearch.network import Decoder, Encoder


class DotAlignment(nn.Module):
    """The energies s_{i-1} . h_j, which have no parameters."""

    def init_weights(self) -> None:
        """Do nothing."""

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

    def __init__(self, state_size: int, annotation_size: int) -> None:
        super().__init__()
        self.annotation_weight = nn.Parameter(torch.empty(state_size, annotation_size))

    def init_weights(self) -> None:
        """Start like W_a and U_a in appendix B.1."""
        nn.init.normal_(self.annotation_weight, std=0.001)

    def keys(self, annotations: Tensor) -> Tensor:
        """Return W h: ``(batch, source, 2n)`` to ``(batch, source, n)``."""
        return annotations @ self.annotation_weight.T


@arm
def dot(encoder: Encoder, decoder: Decoder, start: Start) -> None:
    """Let the decoder's attention multiply states and annotations."""
    decoder.alignment_model = DotAlignment()


@arm
def general(encoder: Encoder, decoder: Decoder, start: Start) -> None:
    """Let the decoder's attention multiply states and annotations with a matrix in between."""
    n, annotation = decoder.unit.hidden_size, 2 * encoder.forward_unit.hidden_size
    decoder.alignment_model = GeneralAlignment(n, annotation)
    start(decoder.alignment_model)
