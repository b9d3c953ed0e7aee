"""Alignment models that read earlier weights, which appendix A.1 allows.

    e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j + sum_k f_k b_{i-1,j+k})        k = -r .. r

``location`` (Chorowski et al., 2015) reads the weights of the step before, b_i = alpha_i;
``coverage`` (Tu et al., 2016) reads their sum over all steps so far, b_i = b_{i-1} + alpha_i. b_0
is zero, and so is b_i outside of the sentence. The vectors f_k are Chorowski's U F, one matrix here
instead of a product of two.

    fairseq-train ... --user-dir recipes/ablations/arms --arch location

This file is an example of an alignment model with its own state, see
``paper.equations.exchangeable.AttentionWithState``.
"""

import torch
from torch import Tensor, nn

from arms.arm import Start, arm
from fairseq_rnnsearch.network import Decoder, Encoder
from fairseq_rnnsearch.paper.equations import AlignmentModel, Memory

REACH = 2  # r: positions on either side


class LocationAlignment(AlignmentModel):
    """The energies of the module docstring; the state is b_i, ``(batch, hypotheses, source)``.

    Attributes:
        location_weight: ``(n', 2r + 1)``: f_k.
    """

    def __init__(self, size: int, state_size: int, annotation_size: int) -> None:
        super().__init__(size, state_size, annotation_size)
        self.location_weight = nn.Parameter(torch.empty(size, 2 * REACH + 1))

    def init_weights(self) -> None:
        """Start like W_a and U_a in appendix B.1."""
        super().init_weights()
        nn.init.normal_(self.location_weight, std=0.001)

    def begin(self, memory: Memory) -> Tensor:
        """Return b_0, ``(batch, source)``."""
        return torch.zeros_like(memory.padding, dtype=memory.keys.dtype)

    def energies(self, s: Tensor, keys: Tensor, state: Tensor) -> Tensor:
        """Return e_i for one target position, see ``AlignmentModel``."""
        W_a, f, v_a = self.state_weight, self.location_weight, self.energy_weight
        around = nn.functional.pad(state, (REACH, REACH)).unfold(-1, 2 * REACH + 1, 1)
        query = (s.to(W_a.dtype) @ W_a.T).unsqueeze(2)
        hidden = torch.tanh(query + keys.unsqueeze(1) + around.to(f.dtype) @ f.T)
        return (hidden * v_a).sum(dim=-1)

    def next_state(self, state: Tensor, alpha: Tensor) -> Tensor:
        """Return b_i."""
        return alpha


class CoverageAlignment(LocationAlignment):
    """The same energies of the sum of all weights so far."""

    def next_state(self, state: Tensor, alpha: Tensor) -> Tensor:
        """Return b_i."""
        return state + alpha


@arm
def location(encoder: Encoder, decoder: Decoder, start: Start) -> None:
    """Let attention read the weights of the previous step."""
    _replace(encoder, decoder, start, LocationAlignment)


@arm
def coverage(encoder: Encoder, decoder: Decoder, start: Start) -> None:
    """Let attention read the sum of the weights so far."""
    _replace(encoder, decoder, start, CoverageAlignment)


def _replace(
    encoder: Encoder, decoder: Decoder, start: Start, kind: type[LocationAlignment]
) -> None:
    size, n = decoder.alignment_model.state_weight.shape
    decoder.alignment_model = kind(size, n, 2 * encoder.forward_unit.hidden_size)
    start(decoder.alignment_model)
