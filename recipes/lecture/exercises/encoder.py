"""The bidirectional encoder and s_0, appendix A.2, with two faults to find."""

import numpy as np


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def unit(p, side, word, h):
    """One step of the gated unit, (batch, n)."""
    z = sigmoid(word @ p[f"W_z{side}"].T + h @ p[f"U_z{side}"].T)
    r = sigmoid(word @ p[f"W_r{side}"].T + h @ p[f"U_r{side}"].T)
    proposed = np.tanh(word @ p[f"W{side}"].T + r * (h @ p[f"U{side}"].T) + p[f"b{side}"])
    return (1 - z) * h + z * proposed


def read(p, side, words, mask):
    """The states of one direction, (batch, source, n)."""
    h = np.zeros((len(words), len(p[f"b{side}"])))
    states = []
    for j in range(words.shape[1]):
        h = np.where(mask[:, j, None], unit(p, side, words[:, j], h), h)
        states.append(h)
    return np.stack(states, axis=1)


def encode(p, x, mask):
    """The annotations (batch, source, 2n) and s_0 (batch, n)."""
    words = p["E_x"][x] + p["b_x"]
    forward = read(p, "_forward", words, mask)
    backward = read(p, "_backward", words[:, ::-1], mask[:, ::-1])[:, ::-1]
    last = mask.sum(axis=1) - 1
    start = np.tanh(backward[np.arange(len(x)), last] @ p["W_s"].T + p["b_s"])
    return np.concatenate([forward, backward], axis=2), start
