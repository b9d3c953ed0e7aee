"""The alignment model: how well source position j matches the target word to come.

    e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j)             appendix A.1.2
    alpha_ij = exp(e_ij) / sum_k exp(e_ik)               Eq. 6
    c_i = sum_j alpha_ij h_j                             Eq. 5

The sums run over the source words and their end-of-sentence symbol, never over padding. There
are no biases. U_a h_j does not depend on i and is computed once per sentence.
"""

import torch
from torch import Tensor


def energies(s: Tensor, keys: Tensor, W_a: Tensor, v_a: Tensor) -> Tensor:
    """e_i for one target position, of the keys' type; W_a s may be of a narrower one.

    Args:
        s: decoder states s_{i-1}, ``(batch, hypotheses, n)``: of each sentence one in training, as
            many as the beam is wide in a search.
        keys: U_a h, ``(batch, source, n')``.
        W_a: ``(n', n)``.
        v_a: ``(n',)``.

    Returns:
        ``(batch, hypotheses, source)``.
    """
    hidden = torch.tanh((s.to(W_a.dtype) @ W_a.T).unsqueeze(2) + keys.unsqueeze(1))
    return (hidden * v_a).sum(dim=-1)  # no matrix product, which autocast would round


def alignment_weights(e: Tensor, padding: Tensor) -> Tensor:
    """Softmax over the source positions that are not padding.

    The largest energy is subtracted first (the authors' program does not, and overflows above
    88), and half-precision energies are normalised in float32.

    Args:
        e: energies, ``(batch, hypotheses, source)``.
        padding: true where there is no word, ``(batch, source)``.

    Returns:
        ``(batch, hypotheses, source)``; rows sum to one, padding has weight zero.
    """
    accurate = torch.promote_types(e.dtype, torch.float32)
    masked = e.masked_fill(padding.unsqueeze(1), -torch.inf)
    return torch.softmax(masked, dim=-1, dtype=accurate).to(e.dtype)


def context(alpha: Tensor, h: Tensor) -> Tensor:
    """c_i, the expected annotation.

    Args:
        alpha: ``(batch, hypotheses, source)``; rounded where annotations are of a narrower type.
        h: annotations, ``(batch, source, 2n)``.

    Returns:
        ``(batch, hypotheses, 2n)``.
    """
    return torch.bmm(alpha.to(h.dtype), h)
