"""The alignment model: how well source position j matches the next target word.

    e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j)             appendix A.1.2
    alpha_ij = exp(e_ij) / sum_k exp(e_ik)               Eq. 6
    c_i = sum_j alpha_ij h_j                             Eq. 5

The sums run over the source words and the end-of-sentence symbol, never over padding. There are no
biases. U_a h_j does not depend on i and is computed once per sentence.
"""

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.paper.equations.exchangeable import Attention, Memory


class AlignmentModel(nn.Module):
    """The energies e_ij: their parameters, and the two halves of the equation.

    Attributes:
        state_weight: ``(n', n)``: W_a.
        annotation_weight: ``(n', 2n)``: U_a.
        energy_weight: ``(n',)``: v_a.
    """

    def __init__(self, size: int, state_size: int, annotation_size: int) -> None:
        super().__init__()
        self.state_weight = nn.Parameter(torch.empty(size, state_size))
        self.annotation_weight = nn.Parameter(torch.empty(size, annotation_size))
        self.energy_weight = nn.Parameter(torch.empty(size))

    def init_weights(self) -> None:
        """Start as in appendix B.1; with v_a zero, attention begins by looking everywhere alike."""
        nn.init.normal_(self.state_weight, std=0.001)
        nn.init.normal_(self.annotation_weight, std=0.001)
        nn.init.zeros_(self.energy_weight)

    def keys(self, annotations: Tensor) -> Tensor:
        """Return U_a h: ``(batch, source, 2n)`` to ``(batch, source, n')``."""
        return annotations @ self.annotation_weight.T

    def energies(self, s: Tensor, keys: Tensor) -> Tensor:
        """Return e_i for one target position, in the keys' type; W_a s may be in a narrower one.

        Args:
            s: decoder states s_{i-1}, ``(batch, hypotheses, n)``: one per sentence in training,
                beam-size many in a search.
            keys: U_a h, ``(batch, source, n')``.

        Returns:
            ``(batch, hypotheses, source)``.
        """
        W_a, v_a = self.state_weight, self.energy_weight
        query = s.to(W_a.dtype) @ W_a.T
        hidden = torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1))
        return (hidden * v_a).sum(dim=-1)  # autocast would round a matrix product


def alignment_weights(e: Tensor, padding: Tensor) -> Tensor:
    """Return the softmax over the source positions that are not padding.

    The largest energy is subtracted first (the authors' program does not, and overflows above
    88), and half-precision energies are normalised in float32.

    Args:
        e: energies, ``(batch, hypotheses, source)``.
        padding: true for padding, ``(batch, source)``.

    Returns:
        ``(batch, hypotheses, source)``; rows sum to one, padding has weight zero.
    """
    accurate = torch.promote_types(e.dtype, torch.float32)
    masked = e.masked_fill(padding.unsqueeze(1), -torch.inf)
    return torch.softmax(masked, dim=-1, dtype=accurate).to(e.dtype)


def context(alpha: Tensor, h: Tensor) -> Tensor:
    """Return c_i, the expected annotation.

    Args:
        alpha: ``(batch, hypotheses, source)``; rounded if annotations are in a narrower type.
        h: annotations, ``(batch, source, 2n)``.

    Returns:
        ``(batch, hypotheses, 2n)``.
    """
    return torch.bmm(alpha.to(h.dtype), h)


def attend(
    s: Tensor, memory: Memory, alignment_model: Attention, state: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Attend for one target position.

    Args:
        s: states, ``(rows, n)``: equally many rows per sentence, adjacent.
        state: the alignment model's own, ``(rows, ...)``, see ``first_state``.

    Returns:
        c_i, ``(rows, 2n)``; alpha_i, ``(rows, source)``; the alignment model's next state.
    """
    sentences = len(memory.keys), -1
    known = () if state is None else (state.unflatten(0, sentences),)
    e = alignment_model.energies(s.unflatten(0, sentences), memory.keys, *known)
    alpha = alignment_weights(e, memory.padding)
    if known:
        state = alignment_model.next_state(*known, alpha).flatten(0, 1)
    return context(alpha, memory.annotations).flatten(0, 1), alpha.flatten(0, 1), state


def first_state(alignment_model: Attention, memory: Memory) -> Tensor | None:
    """Return what an alignment model knows before the first step; None if it has no state."""
    return alignment_model.begin(memory) if hasattr(alignment_model, "begin") else None
