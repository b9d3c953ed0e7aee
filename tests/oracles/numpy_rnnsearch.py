"""RNNsearch and RNNencdec in NumPy float64: slow, one sentence at a time, nothing shared with us.

Written from the paper's appendix A and from the facts recorded about the authors' program
("item k" below is item k of that record's list "The model"). Parameters are a dict under the
authors' array names; every matrix is used as ``x @ W``, the transpose of the paper's.

    h_j = [forward_j, backward_j]                                     A.2.1, Eq. (7)
    s_0 = tanh(backward_1 W_s + b)                                    A.2.2
    e_ij = v_a . tanh(s_{i-1} W_a + h_j U_a), alpha_i = softmax(e_i)  A.1.2, Eq. (6)
    c_i = sum_j alpha_ij h_j                                          Eq. (5)
    t~_i = s U_o + b + e(y_{i-1}) V_o + c_i C_o                       A.2.2
    t_i = max of adjacent pairs of t~_i
    p(y_i) = softmax(t_i W_o + b)
    s_i = f(s_{i-1}, y, c_i), the gated unit                          A.1.1

Three orders of one decoder step are offered; only the first produced the paper's Table 1 (item 1):

    "program"   reads out from s_{i-1}; the transition consumes y_i
    "appendix"  reads out from s_{i-1}; the transition consumes y_{i-1}
    "section3"  the transition consumes y_{i-1}; reads out from the new s_i

In all three e(y_0) is the zero vector, without the embedding's bias (item 2).

The model is RNNencdec (item 9) when the dict holds neither backward-encoder nor alignment arrays:
then c_i is the last forward state at every step and s_0 = tanh(c W_s + b).

Sizes in the docstrings: n hidden, m embedding, n' alignment, l maxout, K target words,
C = 2n (RNNsearch) or n (RNNencdec) numbers per annotation. Source and target sentences are
sequences of word ids, both ending with the end-of-sentence symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Params = Mapping[str, np.ndarray]
Words = Sequence[int] | np.ndarray

ORDERS = ("program", "appendix", "section3")


@dataclass(frozen=True)
class Forward:
    """Everything a teacher-forced pass over one sentence pair computes."""

    word_logprobs: np.ndarray  # (Ty,) log p(y_i | y_<i, x)
    alignment: np.ndarray | None  # (Ty, Tx), rows sum to one; None for RNNencdec
    annotations: np.ndarray  # (Tx, C)
    init_state: np.ndarray  # (n,) s_0
    states: np.ndarray  # (Ty + 1, n) s_0 .. s_Ty
    next_logprobs: np.ndarray  # (Ty, K) log p(. | y_<i, x)


@dataclass(frozen=True)
class Prediction:
    """One decoder step up to the choice of y_i."""

    logprobs: np.ndarray  # (K,)
    weights: np.ndarray | None  # (Tx,) alpha_i; None for RNNencdec
    context: np.ndarray  # (C,) c_i
    state: np.ndarray | None  # (n,) s_i; None in the program's order, which needs y_i first


def is_rnnencdec(params: Params) -> bool:
    """Whether the arrays are those of RNNencdec (item 9); a half-way set is an error."""
    backward = any("back_enc" in name for name in params)
    alignment = any(name in params for name in ("A_dec_transition_0", "D_dec_transition_0"))
    if backward != alignment:
        raise ValueError(
            f"backward encoder arrays present: {backward}, alignment arrays present: {alignment}; "
            "RNNsearch has both, RNNencdec neither"
        )
    return not backward


def sigmoid(a: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-a)), any shape; by tanh so that no exponential overflows."""
    return 0.5 * (1.0 + np.tanh(0.5 * a))


def log_softmax(a: np.ndarray) -> np.ndarray:
    """(K,) -> (K,) log of the softmax; the maximum is subtracted, as the program does not."""
    shifted = a - np.max(a)
    return shifted - np.log(np.sum(np.exp(shifted)))


def gated_unit(
    proposed_in: np.ndarray,
    update_in: np.ndarray,
    reset_in: np.ndarray,
    h_prev: np.ndarray,
    U: np.ndarray,
    U_z: np.ndarray,
    U_r: np.ndarray,
) -> np.ndarray:
    """New state (n,) of the gated hidden unit, A.1.1, from the non-recurrent sums (n,).

    Unlike ``torch.nn.GRU``, r acts before the product with U and z weighs the proposed state
    (item 7).
    """
    z = sigmoid(update_in + h_prev @ U_z)
    r = sigmoid(reset_in + h_prev @ U_r)
    proposed = np.tanh(proposed_in + (r * h_prev) @ U)
    return z * proposed + (1.0 - z) * h_prev


def _run_encoder(params: Params, x: Words, side: str) -> np.ndarray:
    """States (Tx, n) of one encoder direction over x in the order given; A.2.1."""
    n = params[f"W_{side}_transition_0"].shape[0]
    h = np.zeros(n)
    states = []
    for word in x:
        # Both directions read the same embedding.
        e = params["W_0_enc_approx_embdr"][word] + params["b_0_enc_approx_embdr"]
        h = gated_unit(
            e @ params[f"W_0_{side}_input_embdr_0"] + params[f"b_0_{side}_input_embdr_0"],
            e @ params[f"W_0_{side}_update_embdr_0"],
            e @ params[f"W_0_{side}_reset_embdr_0"],
            h,
            params[f"W_{side}_transition_0"],
            params[f"G_{side}_transition_0"],
            params[f"R_{side}_transition_0"],
        )
        states.append(h)
    return np.array(states)


def encode(params: Params, x: Words) -> np.ndarray:
    """Annotations (Tx, 2n) = [forward, backward], Eq. (7); (Tx, n) forward only for RNNencdec."""
    forward_states = _run_encoder(params, x, "enc")
    if is_rnnencdec(params):
        return forward_states
    backward_states = _run_encoder(params, x[::-1], "back_enc")[::-1]
    return np.concatenate([forward_states, backward_states], axis=1)


def initial_state(params: Params, annotations: np.ndarray) -> np.ndarray:
    """s_0 (n,) from annotations (Tx, C): A.2.2 and item 5; item 9 for RNNencdec."""
    if is_rnnencdec(params):
        summary = annotations[-1]
    else:
        n = annotations.shape[1] // 2
        summary = annotations[0, n:]  # the backward state that has read the whole sentence
    return np.tanh(summary @ params["W_0_dec_initializer_0"] + params["b_0_dec_initializer_0"])


def attend(
    params: Params, annotations: np.ndarray, s_prev: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Context c_i (C,) and weights alpha_i (Tx,), Eqs. (5) and (6), A.1.2.

    For RNNencdec the context is the last forward state and the weights are None (item 9).
    """
    if is_rnnencdec(params):
        return annotations[-1], None
    U_a, W_a = params["A_dec_transition_0"], params["B_dec_transition_0"]
    v_a = params["D_dec_transition_0"][:, 0]
    energies = np.array([np.tanh(s_prev @ W_a + h_j @ U_a) @ v_a for h_j in annotations])
    weights = np.exp(log_softmax(energies))
    context = np.zeros(annotations.shape[1])
    for alpha_ij, h_j in zip(weights, annotations, strict=True):
        context = context + alpha_ij * h_j
    return context, weights


def embed_target(params: Params, word: int | None) -> np.ndarray:
    """e(y) (m,); None stands for y_0, whose embedding is zero, without the bias (item 2)."""
    if word is None:
        return np.zeros(params["W_0_dec_approx_embdr"].shape[1])
    return params["W_0_dec_approx_embdr"][word] + params["b_0_dec_approx_embdr"]


def transition(
    params: Params, s_prev: np.ndarray, word: int | None, context: np.ndarray
) -> np.ndarray:
    """s (n,) = f(s_prev, word, context), A.2.2. Which word it consumes is the order's affair."""
    e = embed_target(params, word)
    return gated_unit(
        e @ params["W_0_dec_input_embdr_0"]
        + params["b_0_dec_input_embdr_0"]
        + context @ params["W_0_dec_dec_inputter_0"],
        e @ params["W_0_dec_update_embdr_0"] + context @ params["W_0_dec_dec_updater_0"],
        e @ params["W_0_dec_reset_embdr_0"] + context @ params["W_0_dec_dec_reseter_0"],
        s_prev,
        params["W_dec_transition_0"],
        params["G_dec_transition_0"],
        params["R_dec_transition_0"],
    )


def readout(
    params: Params, state: np.ndarray, y_prev: int | None, context: np.ndarray
) -> np.ndarray:
    """log p(.) (K,): maxout over adjacent pairs, then the output matrix and bias; A.2.2, item 6.

    The output matrix is ``W_dec_deep_softmax`` (l, K) if there is one, else W1 (l, m) @ W2 (m, K).
    """
    t_tilde = (
        state @ params["W_0_dec_hid_readout_0"]
        + params["b_0_dec_hid_readout_0"]
        + embed_target(params, y_prev) @ params["W_0_dec_prev_readout_0"]
        + context @ params["W_0_dec_repr_readout"]
    )
    t = np.array([max(t_tilde[2 * k], t_tilde[2 * k + 1]) for k in range(len(t_tilde) // 2)])
    if "W_dec_deep_softmax" in params:
        logits = t @ params["W_dec_deep_softmax"]
    else:
        logits = t @ params["W1_dec_deep_softmax"] @ params["W2_dec_deep_softmax"]
    return log_softmax(logits + params["b_dec_deep_softmax"])


def predict(
    params: Params, annotations: np.ndarray, s_prev: np.ndarray, y_prev: int | None, order: str
) -> Prediction:
    """One step i from s_{i-1} (n,) and y_{i-1} to the distribution of y_i, in the given order."""
    if order not in ORDERS:
        raise ValueError(f"order must be one of {ORDERS}, got {order!r}")
    context, weights = attend(params, annotations, s_prev)
    if order == "program":
        return Prediction(readout(params, s_prev, y_prev, context), weights, context, None)
    s_new = transition(params, s_prev, y_prev, context)
    read_from = s_prev if order == "appendix" else s_new
    return Prediction(readout(params, read_from, y_prev, context), weights, context, s_new)


def advance(params: Params, s_prev: np.ndarray, word: int, step: Prediction) -> np.ndarray:
    """s_i (n,) once y_i = word is known; orders other than the program's have it already."""
    if step.state is not None:
        return step.state
    return transition(params, s_prev, word, step.context)


def forward(params: Params, x: Words, y: Words, order: str = "program") -> Forward:
    """Teacher-forced pass over one pair, x (Tx,), y (Ty,), both with their end symbol."""
    annotations = encode(params, x)
    s = initial_state(params, annotations)
    y_prev = None
    states, weights, logprobs, word_logprobs = [s], [], [], []
    for word in y:
        step = predict(params, annotations, s, y_prev, order)
        s = advance(params, s, word, step)
        y_prev = word
        states.append(s)
        weights.append(step.weights)
        logprobs.append(step.logprobs)
        word_logprobs.append(step.logprobs[word])
    return Forward(
        word_logprobs=np.array(word_logprobs),
        alignment=None if is_rnnencdec(params) else np.array(weights),
        annotations=annotations,
        init_state=states[0],
        states=np.array(states),
        next_logprobs=np.array(logprobs),
    )


def log_likelihood(params: Params, x: Words, y: Words, order: str = "program") -> float:
    """log p(y | x), natural logarithm, summed over words."""
    return float(np.sum(forward(params, x, y, order).word_logprobs))


def cost(params: Params, pairs: Sequence[tuple[Words, Words]], order: str = "program") -> float:
    """The training cost: -log p summed over words and over sentence pairs, no mean."""
    return -sum(log_likelihood(params, x, y, order) for x, y in pairs)


def global_norm(grads: Params) -> float:
    """L2 norm of all arrays taken as one vector."""
    return float(np.sqrt(sum(np.sum(g**2) for g in grads.values())))


def clip(grads: Params, threshold: float, params: Params | None = None) -> dict[str, np.ndarray]:
    """Gradients scaled together to a global norm of at most `threshold` (appendix B.2).

    A non-finite norm replaces every gradient by 0.1 x its parameter, as in the program; that
    needs `params`, and without them is a ValueError.
    """
    norm = global_norm(grads)
    if not np.isfinite(norm):
        if params is None:
            raise ValueError(f"gradient norm is {norm}: pass params, to be used in its place")
        return {name: 0.1 * params[name] for name in grads}
    scale = threshold / norm if norm > threshold else 1.0
    return {name: scale * g for name, g in grads.items()}


def adadelta_step(
    param: np.ndarray,
    grad: np.ndarray,
    acc_g2: np.ndarray,
    acc_dx2: np.ndarray,
    rho: float = 0.95,
    eps: float = 1e-6,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """New (param, E[g^2], E[dx^2]) from an already clipped gradient; all of one shape.

    Zeiler (2012), without a learning rate: the numerator holds the old E[dx^2].
    """
    acc_g2 = rho * acc_g2 + (1.0 - rho) * grad**2
    dx = np.sqrt(acc_dx2 + eps) / np.sqrt(acc_g2 + eps) * grad
    acc_dx2 = rho * acc_dx2 + (1.0 - rho) * dx**2
    return param - dx, acc_g2, acc_dx2


def random_params(
    rng: np.random.Generator,
    *,
    embed: int,
    hidden: int,
    attention: int,
    maxout: int,
    source_words: int,
    target_words: int,
    rnnencdec: bool = False,
    factorised: bool = True,
    scale: float = 0.3,
) -> dict[str, np.ndarray]:
    """All arrays of a model, each entry N(0, scale^2) float64, biases included.

    `maxout` is l: the readouts are 2l wide. `attention` (n') is unused for RNNencdec.
    """
    m, n, l = embed, hidden, maxout
    c = n if rnnencdec else 2 * n
    shapes: dict[str, tuple[int, ...]] = {
        "W_0_enc_approx_embdr": (source_words, m),
        "b_0_enc_approx_embdr": (m,),
        "W_0_dec_approx_embdr": (target_words, m),
        "b_0_dec_approx_embdr": (m,),
    }
    for side in ("enc", "dec") if rnnencdec else ("enc", "back_enc", "dec"):
        shapes |= {
            f"W_0_{side}_input_embdr_0": (m, n),
            f"b_0_{side}_input_embdr_0": (n,),
            f"W_0_{side}_update_embdr_0": (m, n),
            f"W_0_{side}_reset_embdr_0": (m, n),
            f"W_{side}_transition_0": (n, n),
            f"G_{side}_transition_0": (n, n),
            f"R_{side}_transition_0": (n, n),
        }
    if not rnnencdec:
        shapes |= {
            "A_dec_transition_0": (2 * n, attention),
            "B_dec_transition_0": (n, attention),
            "D_dec_transition_0": (attention, 1),
        }
    shapes |= {
        "W_0_dec_dec_inputter_0": (c, n),
        "W_0_dec_dec_updater_0": (c, n),
        "W_0_dec_dec_reseter_0": (c, n),
        "W_0_dec_initializer_0": (n, n),
        "b_0_dec_initializer_0": (n,),
        "W_0_dec_hid_readout_0": (n, 2 * l),
        "b_0_dec_hid_readout_0": (2 * l,),
        "W_0_dec_prev_readout_0": (m, 2 * l),
        "W_0_dec_repr_readout": (c, 2 * l),
        "b_dec_deep_softmax": (target_words,),
    }
    if factorised:
        shapes |= {"W1_dec_deep_softmax": (l, m), "W2_dec_deep_softmax": (m, target_words)}
    else:
        shapes |= {"W_dec_deep_softmax": (l, target_words)}
    return {name: scale * rng.standard_normal(shape) for name, shape in shapes.items()}


def beam_search(
    params: Params,
    x: Words,
    beam: int,
    eos: int,
    unk: int,
    ignore_unk: bool,
    minlen: int | None = None,
    max_steps: int | None = None,
    order: str = "program",
) -> tuple[list[list[int]], list[float]]:
    """Finished translations (with eos) and their costs -log p, cheapest first; both may be empty.

    x (Tx,) includes its end symbol: eos is forbidden in the first `minlen` steps, by default
    floor(Tx / 2), and at most `max_steps` symbols, by default 3 Tx, are generated, eos included.
    The beam loses one place for each finished hypothesis and hypotheses still unfinished at the
    end are dropped. Costs are not divided by length; forbidden words (probability zero) are not
    renormalised away. One search only: the program's retries (with UNK, with a doubled beam)
    are left to the caller.
    """
    minlen = len(x) // 2 if minlen is None else minlen
    max_steps = 3 * len(x) if max_steps is None else max_steps
    annotations = encode(params, x)
    alive: list[tuple[float, list[int], np.ndarray]] = [
        (0.0, [], initial_state(params, annotations))
    ]
    finished: list[tuple[float, list[int]]] = []
    for i in range(max_steps):
        candidates = []
        for total, words, s in alive:
            step = predict(params, annotations, s, words[-1] if words else None, order)
            for word, logprob in enumerate(step.logprobs):
                if (ignore_unk and word == unk) or (i < minlen and word == eos):
                    continue
                candidates.append((total - float(logprob), words, word, s, step))
        candidates.sort(key=lambda candidate: candidate[0])
        alive = []
        for total, words, word, s, step in candidates[:beam]:
            if word == eos:
                finished.append((total, [*words, word]))
                beam -= 1  # the slice above was taken with this step's beam
            else:
                alive.append((total, [*words, word], advance(params, s, word, step)))
        if not alive:
            break
    finished.sort(key=lambda hypothesis: hypothesis[0])
    return [words for _, words in finished], [total for total, _ in finished]


def numeric_gradient(
    f: Callable[[], float], array: np.ndarray, index: tuple[int, ...], step: float = 1e-5
) -> float:
    """Central difference of f() in array[index]; the entry is changed in place and put back."""
    kept = array[index]
    try:
        array[index] = kept + step
        above = f()
        array[index] = kept - step
        below = f()
    finally:
        array[index] = kept
    return (above - below) / (2.0 * step)
