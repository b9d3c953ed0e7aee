"""The alignment model, Eq. 5 and 6, with a fault to find.

`pytest recipes/lecture/exercises` counts what is right. The manual's page check.md has the
arguments' names and shapes.
"""

import numpy as np


def energies(s, h, W_a, U_a, v_a):
    """How well each source position matches the word to come, (batch, source)."""
    query = s @ W_a.T  # (batch, n')
    keys = h @ U_a.T  # (batch, source, n')
    return np.tanh(query[:, None] + keys) @ v_a


def weights(s, h, mask, W_a, U_a, v_a):
    """The softmax over the words of a sentence, (batch, source)."""
    e = energies(s, h, W_a, U_a, v_a) * mask
    alpha = np.exp(e - e.max(axis=1, keepdims=True))
    return alpha / alpha.sum(axis=1, keepdims=True)


def context(s, h, mask, W_a, U_a, v_a):
    """The annotation that one expects, (batch, 2n)."""
    alpha = weights(s, h, mask, W_a, U_a, v_a)
    return np.einsum("bj,bjc->bc", alpha, h)
