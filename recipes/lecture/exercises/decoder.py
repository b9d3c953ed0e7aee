"""The decoder's state and its deep output, appendix A.2.2, with two faults to find."""

import numpy as np


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def embedded(p, y):
    """e(y) for word numbers (batch), of which -1 stands for no word."""
    return p["E_y"][y] + p["b_y"]


def state(p, s, y, c):
    """s_i, (batch, n)."""
    word = embedded(p, y)
    z = sigmoid(word @ p["W_z"].T + s @ p["U_z"].T + c @ p["C_z"].T)
    r = sigmoid(word @ p["W_r"].T + s @ p["U_r"].T + c @ p["C_r"].T)
    proposed = np.tanh(word @ p["W"].T + (r * s) @ p["U"].T + c @ p["C"].T + p["b"])
    return (1 - z) * s + z * proposed


def readout(p, s, y_prev, c):
    """The probabilities of y_i, (batch, words)."""
    word = embedded(p, y_prev)
    t = s @ p["U_o"].T + word @ p["V_o"].T + c @ p["C_o"].T + p["b_t"]
    half = t.shape[1] // 2
    t = np.maximum(t[:, :half], t[:, half:])
    logits = t @ p["W_o"].T + p["b_o"]
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
