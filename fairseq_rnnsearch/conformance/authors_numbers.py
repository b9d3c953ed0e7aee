"""What the authors' program computed, by the paper's names.

``params.npz`` and ``sentences.npz`` were computed in float64 by GroundHog, the program with which
Bahdanau, Cho and Bengio trained the paper's models: a small model, and four sentence pairs of 8, 3,
6 and 5 source words and 6, 9, 2 and 7 target words, end symbols included.

Axes are named by letters: b sentence (or row), x source position, y target position, n state (12),
c annotation (2n = 24), k word of the target dictionary (25). The other sizes are m = 8 (embedding),
n' = 12 (alignment model) and l = 6 (maxout). A part that looks at one target position gets 23 rows,
each a sentence and a position of it, so that no two axes are equally long.
"""

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]

NO_WORD = -1  # y_0: there is no word before the first
_ROWS = [(b, i) for b, words in enumerate((6, 8, 2, 7)) for i in range(words)]


class Part(NamedTuple):
    """What a function for one part of the model is given and what it returns.

    Attributes:
        inputs: the axes of each input; all functions may also ask for ``p``, the parameters, and
            for each parameter by its name.
        outputs: the axes of each quantity that it may return, in the order of computation.
    """

    inputs: dict[str, str]
    outputs: dict[str, str]


_LOOK = {"s": "bn", "h": "bxc", "mask": "bx"}
PARTS = {
    "encode": Part({"x": "bx", "mask": "bx"}, {"annotations": "bxc", "start": "bn"}),
    "start": Part({"h": "bxc", "mask": "bx"}, {"start": "bn"}),
    "energies": Part(_LOOK, {"energies": "bx"}),
    "weights": Part(_LOOK, {"weights": "bx"}),
    "context": Part(_LOOK | {"alpha": "bx"}, {"context": "bc"}),
    "state": Part({"s": "bn", "y_prev": "b", "y": "b", "c": "bc"}, {"state": "bn"}),
    "readout": Part({"s": "bn", "y_prev": "b", "c": "bc"}, {"probabilities": "bk"}),
    "step": Part(
        _LOOK | {"y_prev": "b", "y": "b"},
        {"energies": "bx", "weights": "bx", "context": "bc", "state": "bn", "probabilities": "bk"},
    ),
    "sentence": Part(
        {"x": "bx", "mask": "bx", "y": "by", "y_mask": "by"},
        {
            **{"annotations": "bxc", "start": "bn", "weights": "byx", "states": "byn"},
            **{"probabilities": "byk", "word_log_probabilities": "by", "log_likelihood": "b"},
        },
    ),
}


# the authors' names for everything outside units, and for units' sides, gates and contexts
_NAMES = {
    **{"E_x": "W_0_enc_approx_embdr", "b_x": "b_0_enc_approx_embdr"},
    **{"E_y": "W_0_dec_approx_embdr", "b_y": "b_0_dec_approx_embdr"},
    **{"W_s": "W_0_dec_initializer_0", "b_s": "b_0_dec_initializer_0"},
    **{"W_a": "B_dec_transition_0", "U_a": "A_dec_transition_0"},
    **{"U_o": "W_0_dec_hid_readout_0", "b_t": "b_0_dec_hid_readout_0"},
    **{"V_o": "W_0_dec_prev_readout_0", "C_o": "W_0_dec_repr_readout", "b_o": "b_dec_deep_softmax"},
}
_SIDES = {"_forward": "enc", "_backward": "back_enc", "": "dec"}
_GATES = {"": ("input", "W"), "_z": ("update", "G"), "_r": ("reset", "R")}
_CONTEXTS = {"C": "inputter", "C_z": "updater", "C_r": "reseter"}


@functools.cache
def parameters() -> Arrays:
    """Return the model's parameters, float64, as the paper writes them: W x, rows are outputs.

    ``E_x``, ``E_y`` have a row for each word; ``_forward`` and ``_backward`` are the encoder's,
    without either the decoder's. ``b`` is the bias of the proposed state, ``b_t`` that before the
    maxout; the gates and the alignment model have none.
    """
    names = _NAMES | {ours: f"W_0_dec_dec_{name}_0" for ours, name in _CONTEXTS.items()}
    for side, authors_name in _SIDES.items():
        names[f"b{side}"] = f"b_0_{authors_name}_input_embdr_0"
        for gate, (words, recurrent) in _GATES.items():
            names[f"W{gate}{side}"] = f"W_0_{authors_name}_{words}_embdr_0"
            names[f"U{gate}{side}"] = f"{recurrent}_{authors_name}_transition_0"
    with np.load(Path(__file__).with_name("params.npz")) as held:
        a = {name: held[name].astype(np.float64) for name in held.files}
    p = {ours: a[authors_name].T for ours, authors_name in names.items()}
    p |= {"E_x": p["E_x"].T, "E_y": p["E_y"].T, "v_a": a["D_dec_transition_0"][:, 0]}
    p["W_o"] = (a["W1_dec_deep_softmax"] @ a["W2_dec_deep_softmax"]).T
    return {name: np.ascontiguousarray(array) for name, array in p.items()}


@functools.cache
def sentences() -> Arrays:
    """Return the inputs of the part "sentence" and everything that the authors computed from them.

    Probabilities are natural logarithms; what is beyond a sentence's end is zero.
    """
    with np.load(Path(__file__).with_name("sentences.npz")) as held:
        a = dict(held)
    arrays = {
        "x": a["x"].T.astype(np.int64),
        "mask": a["x_mask"].T.astype(bool),
        "y": a["y"].T.astype(np.int64),
        "y_mask": a["y_mask"].T.astype(bool),
        "annotations": a["annotations"].transpose(1, 0, 2),
        "start": a["init_state"],
        "weights": a["alignment"].transpose(2, 0, 1),
        "word_log_probabilities": a["word_logprobs"].T,
        "log_likelihood": a["loglik_per_sentence"],
    }
    for name, rows in {
        "states": [a[f"sent{b}/dec_states"][1:] for b in range(4)],
        "probabilities": [np.log(a[f"sent{b}/next_probs"]) for b in range(4)],
    }.items():
        arrays[name] = np.stack([np.pad(row, ((0, 9 - len(row)), (0, 0))) for row in rows])
    return arrays


@functools.cache
def numbers(part: str) -> Arrays:
    """Return the inputs of a part and the authors' value of each quantity that it may return."""
    all_ = sentences()
    h = all_["annotations"]
    if part in ("encode", "start", "sentence"):
        return {**all_, "h": h}
    b, i = np.transpose(_ROWS)
    states = np.concatenate([all_["start"][:, None], all_["states"]], axis=1)
    alpha, mask = all_["weights"][b, i], all_["mask"][b]
    context = np.einsum("bx,bxc->bc", alpha, h[b])  # the one thing computed here, by Eq. 5
    with np.errstate(divide="ignore"):
        energies = np.log(alpha)  # but for a constant, which the softmax drops
    return {
        **{"s": states[b, i], "h": h[b], "mask": mask, "y": all_["y"][b, i]},
        "y_prev": np.where(i > 0, all_["y"][b, i - 1], NO_WORD),
        **{"alpha": alpha, "weights": alpha, "energies": energies},
        **{"c": context, "context": context, "state": states[b, i + 1]},
        "probabilities": all_["probabilities"][b, i],
    }


def counts(part: str, quantity: str) -> np.ndarray:
    """Return a boolean array of a quantity's shape: true for entries that are not padding.

    All source positions of the weights count: on padding they are zero.
    """
    axes, arrays = PARTS[part].outputs[quantity], numbers(part)
    valid = np.ones_like(arrays[quantity], dtype=bool)
    for axis, mask in (("x", "mask"), ("y", "y_mask")):
        if axis in axes and (axis, quantity) != ("x", "weights"):
            valid &= arrays[mask].reshape(arrays[mask].shape + (1,) * (valid.ndim - 2))
    return valid
