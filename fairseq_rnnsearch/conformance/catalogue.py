"""The catalogue: what implementations of the paper are known to compute in its place.

Prices are BLEU on Multi30k's test set, with 95% intervals, from recipes/ablations/README.md, where
the arms are described.
"""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

from fairseq_rnnsearch.conformance.variant_model import GIVEN

Changes = Mapping[str, object]


class Deviation(NamedTuple):
    """An entry.

    Attributes:
        program, instead: what the authors' program computes, and what is computed in its place.
        places: the changes of `VariantModel` that compute it, for each place or kind of it.
        price: what it costs a training, where the ablations measured that.
        effect: what else it does.
        is_rare: it is not tried together with another, which would take too long.
    """

    name: str
    program: str
    instead: str
    places: Mapping[str, Changes]
    price: str = "not measured"
    effect: str = ""
    is_rare: bool = False


def _in_units(**changes: object) -> dict[str, Changes]:
    """Return the changes for the units of the encoder and the decoder, or of one of them."""
    encoder, decoder = (
        {f"{place}_{name}": value for name, value in changes.items()}
        for place in ("encoder", "decoder")
    )
    return {"encoder and decoder": encoder | decoder, "encoder": encoder, "decoder": decoder}


def _of_units(edits: Mapping[str, object]) -> dict[str, Changes]:
    """Return edits of parameters for the units of the encoder and the decoder, or of one."""

    def on(*sides: str) -> Changes:
        return {
            f"{name}{side}": f"{edit}{side}" if edit in edits else edit
            for side in sides
            for name, edit in edits.items()
            if not (side and name.startswith("C"))
        }

    encoder = ("_forward", "_backward")
    return {"encoder and decoder": on("", *encoder), "encoder": on(*encoder), "decoder": on("")}


def _also(of: Mapping[str, Changes], kind: str) -> dict[str, Changes]:
    return {f"{place}, {kind}": changes for place, changes in of.items()}


def _kinds(choice: str, *kinds: str) -> dict[str, Changes]:
    return {kind: {choice: kind} for kind in kinds}


def _each(edit: object, *names: str) -> dict[str, Changes]:
    """Return an edit of each parameter; those in one name, between spaces, are edited together."""
    return {name: dict.fromkeys(name.split(), edit) for name in names}


def _matrices_of(sides: Mapping[str, str]) -> Changes:
    """Return the change that gives units the parameters of others."""
    names = [name for triple in _TRIPLES for name in triple] + ["b_forward", "b_backward"]
    return {
        f"{name}{side}": f"{name}{other}"
        for side, other in sides.items()
        for name in {name.removesuffix(side) for name in names if name.endswith(side)}
    }


_GRU = "h~ = tanh(W e + U [r o h] + b), h' = (1 - z) o h + z o h~"
_GATES = "z = sigma(W_z e + U_z h + C_z c), r likewise; C_z c in the decoder alone"
_ENERGY = "e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j)"
_SOFTMAX = "alpha_ij = exp(e_ij) / sum_k exp(e_ik), k over the sentence, not over padding"
_START = "s_0 = tanh(W_s backward_1 + b_s), where backward_1 has read the whole sentence"
_ORDER = "p(y_i) from s_{i-1}, y_{i-1}, c_i; then s_i = f(s_{i-1}, y_i, c_i)"
_READOUT = "t~ = U_o s_{i-1} + V_o e(y_{i-1}) + C_o c_i + b_t, t_k = max(t~_2k-1, t~_2k)"
_OUTPUT = "p(y_i) = softmax(W_o t_i + b_o), over the words"
_CONTEXT = "c_i = sum_j alpha_ij h_j"
_ENCODER = "h_j = [forward_j, backward_j]"
_NAMES = "Trained from scratch, it only renames parameters; the authors' give other numbers."
_BATCH = "The result for a sentence depends on the others in its batch."
_PEEKS = "The model sees the word that it must predict: low training cost, no translation."
_NO_ATTENTION = "RNNencdec, which has no attention, scored 20.5 BLEU lower (21.6 to 19.4)."
_GENERAL = "The general product s W h, unscaled, scored 3.8 BLEU lower (4.9 to 2.7)."
_ANOTHER = "no mistake, another model"
_BIASES = "b_x b_y b b_forward b_backward b_s b_t b_o".split()
_TRIPLES = [
    *([f"{letter}{gate}{side}" for gate in ("_z", "_r", "")]
      for side in ("", "_forward", "_backward") for letter in "WU"),
    ["C_z", "C_r", "C"],
]  # fmt: skip
_WORDS, _STATES = (
    [name for triple in _TRIPLES for name in triple if name.startswith(letter)] for letter in "WU"
)

# fmt: off
CATALOGUE = (
    # --- the gated unit ---
    Deviation("reset-after", _GRU, "h~ = tanh(W e + r o [U h] + b): the reset after the product",
        _in_units(reset="after") | _also(_in_units(reset="after with bias"), "r o [U h + b]")
        | _also(_in_units(reset="after with both biases"), "r o [U h + b] + b"),
        "no clear difference: 0.2 BLEU lower (1.3 lower to 0.9 higher)"),
    Deviation("reset-of-inputs", _GRU, "r also multiplies C c, or all that is in the tanh",
        _kinds("decoder_reset", "context", "before and context") | _in_units(reset="all"),
        is_rare=True),
    Deviation("update-swapped", _GRU, "h' = z o h + (1 - z) o h~: z keeps the old state",
        _in_units(update="previous"), effect=_NAMES),
    Deviation("update-replaced", _GRU, "h' is another sum: z o h + z o h~, h + z o h~ or z o h~",
        {f"{place}, {kind}": changes for kind in ("both", "sum", "new alone")
         for place, changes in _in_units(update=kind).items()}, is_rare=True),
    Deviation("torch-gru", _GRU, "torch.nn.GRU: reset-after and update-swapped together",
        _in_units(reset="after", update="previous")
        | _also(_in_units(reset="after with bias", update="previous"), "b in b_hn")
        | _also(_in_units(reset="after with both biases", update="previous"), "b in both"),
        "that of reset-after, no clear difference; update-swapped only renames z"),
    Deviation("no-reset", _GRU, "h~ = tanh(W e + U h + b)", _in_units(reset="never")),
    Deviation("no-update", _GRU, "h' = h~", _in_units(update="never")),
    Deviation("gates-exchanged", _GATES, "z with the matrices of r, and r with those of z",
        _of_units({"W_z": "W_r", "W_r": "W_z", "U_z": "U_r", "U_r": "U_z", "C_z": "C_r",
                   "C_r": "C_z"}), effect=_NAMES),
    Deviation("gates-replaced", _GATES, "another function in place of sigma, or none",
        {f"{place}, {kind}": changes
         for kind in ("identity", "hard sigmoid", "sigmoid twice", "tanh")
         for place, changes in _in_units(gates=kind).items()}, is_rare=True),
    Deviation("proposed-replaced", _GRU, "another function in place of tanh, or none",
        {f"{place}, {kind}": changes for kind in ("identity", "relu", "sigmoid")
         for place, changes in _in_units(proposed=kind).items()}, is_rare=True),
    Deviation("recurrent-transposed", "U h", "U' h: in code h @ U, not h @ U.T",
        _of_units({"U": "T", "U_z": "T", "U_r": "T"}) | _also(_of_units({"U": "T"}), "U alone")
        | _each("T", *_STATES), effect=_NAMES),
    Deviation("wrong-matrix", "each product has a matrix of its own", "one in place of another",
        {f"{other} for {name}": {name: other} for triple in _TRIPLES
         for name, other in itertools.permutations(triple, 2)}
        | {"the forward unit's in both": _matrices_of({"_backward": "_forward"}),
           "the backward unit's in both": _matrices_of({"_forward": "_backward"}),
           "exchanged": _matrices_of({"_forward": "_backward", "_backward": "_forward"})},
        is_rare=True),
    Deviation("context-not-in-gates", _GATES, "z = sigma(W_z e + U_z h), r likewise",
        _each(0, "C_z C_r", "C_z", "C_r")),
    Deviation("context-not-in-state", "s_i = f(s_{i-1}, y_i, c_i)", "s_i = f(s_{i-1}, y_i)",
        _each(0, "C C_z C_r", "C")),
    Deviation("term-lost", "z, r and h~ are sums of products", "without one of them",
        _each(0, *_WORDS, *_STATES), is_rare=True),
    # --- words and biases ---
    Deviation("bias-lost", "biases of words, proposed states, s_0, maxout and output",
        "without them",
        _each(0, *_BIASES, "b_x b_y") | _of_units({"b": 0})
        | _each(0, "b_x b_y b b_forward b_backward b_s b_t b_o")),
    Deviation("bias-doubled", "each bias is added once",
        "2 b instead of b, for example in both b_ih and b_hh",
        _of_units({"b": "doubled"}) | _each("doubled", *_BIASES, "b_x b_y")),
    Deviation("tanh-doubled", "one tanh in s_0, e_ij and h~; none of h'",
        "tanh(tanh(a)), or tanh(h')",
        _in_units(proposed="tanh twice") | _also(_in_units(state="tanh"), "h'")
        | {"s_0": {"start_function": "tanh twice"}, "e_ij": {"energies": "tanh twice"}},
        is_rare=True),
    Deviation("embedding-scaled", "e = E x + b", "e = sqrt(m) E x + b, or sqrt(m) (E x + b)",
        {names: dict.fromkeys(names.split(", "), "scaled")
         for names in ("E_x, E_y", "E_x", "E_y", "E_x, b_x, E_y, b_y", "E_x, b_x", "E_y, b_y")}),
    Deviation("wrong-table", "source words in E_x, target words in E_y", "one table for both",
        {"E_x": {"E_y": "E_x"}, "E_y": {"E_x": "E_y"}}),
    Deviation("first-word", "e(y_0) = 0: no word and no bias",
        f"e(y_0) is that of a symbol, or the bias: {_ANOTHER}",
        {"word 0, <s>": {"first_word": (0, True)}, "end symbol": {"first_word": (24, True)},
         "word 1": {"first_word": (1, True)}, "bias alone": {"first_word": (None, True)},
         "word 0 without bias": {"first_word": (0, False)},
         "end symbol without bias": {"first_word": (24, False)}}),
    Deviation("shifted", "words, weights and masks stand at their places",
        "one of them is shifted by a word",
        {f"{name} {shift}": {name: shift} for name in ("x", "y", "alpha") for shift in GIVEN
         if shift.startswith(("later", "earlier"))}
        | {"mask later": {"mask": "later"}, "mask earlier": {"mask": "earlier, to 0"},
           "y_mask later": {"y_mask": "later"}}, is_rare=True),
    # --- encoder and s_0 ---
    Deviation("encoder-unmasked", "padding never changes a state",
        "the encoder reads padding as words: backward states start in it",
        {"encoder": {"encoder_mask": False}}, effect=_BATCH),
    Deviation("forward-only", _ENCODER, "h_j = [forward_j, 0], which knows only x_1 ... x_j",
        {"encoder": {"backward": "zero"}, "encoder and s_0": {"backward": "zero", "W_s": 0},
         "forward states twice": {"backward": "forward"}, "context": {"context": "forward"},
         "e_ij": {"U_a": "forward"}},
        "An encoder with forward states only scored 2.5 BLEU lower (3.6 to 1.4)."),
    Deviation("backward-only", _ENCODER, "c_i or e_ij has only the backward states",
        {"context": {"context": "backward"}, "e_ij": {"U_a": "backward"}}, is_rare=True),
    Deviation("backward-unreversed", _ENCODER, "h_j = [forward_j, backward_{T+1-j}]",
        {"with its padding": {"backward": "unreversed batch"},
         "each sentence": {"backward": "unreversed"}}),
    Deviation("backward-left-to-right", _ENCODER, "the backward unit also reads from left to right",
        _kinds("backward", "left to right")),
    Deviation("halves-exchanged", _ENCODER, "h_j = [backward_j, forward_j]",
        {"encoder": {"halves": "backward first"}, "e_ij": {"U_a": "exchanged"},
         "context": {"context": "exchanged"}, "C c": dict.fromkeys(_TRIPLES[-1], "exchanged"),
         "C_o c": {"C_o": "exchanged"}}, effect=_NAMES),
    Deviation("start-zero", _START, "s_0 = 0", _kinds("start", "zero"),
        "1.6 BLEU lower (2.7 to 0.5)"),
    Deviation("start-mean", _START, "s_0 = tanh(W_s mean_j backward_j + b_s)",
        _kinds("start", "mean backward", "mean forward", "mean with padding"),
        "Mean of all annotations: no clear difference, 0.2 BLEU lower (1.3 lower to 0.9 higher)."),
    Deviation("start-forward", _START, "s_0 = tanh(W_s forward_T + b_s)",
        _kinds("start", "forward")),
    Deviation("start-wrong-end", _START,
        "s_0 = tanh(W_s backward_T + b_s), which has read one symbol",
        _kinds("start", "backward last", "backward last of batch")),
    Deviation("start-no-tanh", _START, "s_0 = W_s backward_1 + b_s",
        {"s_0": {"start_function": "identity"}}),
    Deviation("start-as-it-is", _START, "s_0 = backward_1", _kinds("start", "as it is")),
    # --- the alignment model ---
    Deviation("energies-no-tanh", _ENERGY, "e_ij = v_a . (W_a s_{i-1} + U_a h_j)",
        _kinds("energies", "without tanh", "scaled without tanh", "tanh of each"),
        effect="Terms equal for all j cancel in the softmax: the weights ignore the state."),
    Deviation("energies-no-state", _ENERGY, "e_ij = v_a . tanh(U_a h_j)", _each(0, "W_a"),
        effect="Every target word gets the same weights."),
    Deviation("energies-dot", _ENERGY, "e_ij = (W_a s_{i-1}) . (U_a h_j) or s_{i-1} . (U_a h_j)",
        _kinds("energies", "dot", "general"), _GENERAL),
    Deviation("energies-scaled-dot", _ENERGY, "the dot product divided by sqrt(n')",
        _kinds("energies", "scaled dot", "scaled general"), _GENERAL),
    Deviation("energies-replaced", _ENERGY, "e_ij is another function of W_a s_{i-1} and U_a h_j",
        _kinds("energies", "relu", "sigmoid", "tanh of product", "tanh of all",
               "v_a = 1")),
    Deviation("energies-scaled", _ENERGY, "e_ij / sqrt(n')", _kinds("energies", "scaled additive")),
    Deviation("term-doubled", _ENERGY, "W_a s_{i-1} or U_a h_j is added twice",
        _each("doubled", "W_a", "U_a"), is_rare=True),
    Deviation("weight-transposed", "W_a s, W_s h, U_o s", "one of them transposed",
        {"W_a": {"W_a": "T"}, "W_s": {"W_s": "T"}, "U_o": {"U_o": "T"}}, effect=_NAMES),
    Deviation("no-mask", _SOFTMAX, "k over the sentence and its padding",
        _kinds("masking", "never"), effect=_BATCH),
    Deviation("mask-after", _SOFTMAX,
        "softmax over all, then zero on padding: weights sum to less than 1",
        _kinds("masking", "after"), effect=_BATCH),
    Deviation("mask-zero", _SOFTMAX, "e_ij = 0 on padding, so each position there adds exp(0) = 1",
        _kinds("masking", "zero"), effect=_BATCH),
    Deviation("mask-inverted", _SOFTMAX,
        "k over the padding alone; if there is none, alpha_ij is NaN or 1 / T",
        _kinds("masking", "inverted with -inf", "inverted")),
    Deviation("end-unseen", _SOFTMAX, "k over the sentence without its end symbol",
        {"attention": {"sees_end": False}}),
    Deviation("softmax-over-batch", _SOFTMAX,
        "softmax over another axis: the sentences of the batch, or an axis of length 1",
        {"sentences": {"softmax_axis": 0}, "sentences and words": {"softmax_axis": None}},
        effect=_BATCH),
    Deviation("weights-uniform", _SOFTMAX, "alpha_ij = 1 / T", _kinds("weights", "uniform")),
    Deviation("weights-hard", _SOFTMAX, "alpha_ij = 1 where e_ij is largest, else 0",
        _kinds("weights", "hard"), effect="No gradient reaches the alignment model."),
    Deviation("softmax-replaced", _SOFTMAX, "alpha_ij is another function of e_ij",
        _kinds("weights", "sigmoid", "sigmoid over sum", "exp", "softmax twice")
        | {"e_ij itself, 0 on padding": {"weights": "energies", "masking": "zero"}}),
    Deviation("context-from-keys", _CONTEXT, "c_i = sum_j alpha_ij U_a h_j",
        _kinds("context", "keys")),
    Deviation("encoder-unread", _CONTEXT, "c_i = 0",
        {"context": {"context": "zero"}, "context and s_0": {"context": "zero", "start": "zero"}},
        _NO_ATTENTION),
    Deviation("context-fixed", _CONTEXT,
        "c_i is the same for all i: the last annotation, both last states or a mean",
        _kinds("context", "last", "final states", "mean", "mean with padding"), _NO_ATTENTION),
    # --- the step ---
    Deviation("order-appendix", _ORDER,
        "s_i = f(s_{i-1}, y_{i-1}, c_i): the state of p(y_i) has read y_{i-2} last, as A.2.2 "
        f"prints it: {_ANOTHER}",
        _kinds("order", "appendix"),
        "1.4 BLEU lower (2.5 to 0.3); on long sentences 2.9 lower (4.4 to 1.3)"),
    Deviation("order-section3", _ORDER,
        "s_i = f(s_{i-1}, y_{i-1}, c_i), then p(y_i) from s_i, as section 3 (Eq. 4) prints it: "
        f"{_ANOTHER}",
        _kinds("order", "section 3"),
        "1.7 BLEU lower (2.8 to 0.6); on long sentences 2.3 lower (3.8 to 0.7)"),
    Deviation("readout-from-next", _ORDER, "p(y_i) from s_i, which has read y_i",
        _kinds("order", "next"), effect=_PEEKS),
    Deviation("new-state-attends", _ORDER, "s_i = f(s_{i-1}, y_{i-1}), c_i of s_i, p(y_i) of both",
        _kinds("order", "new state attends")),
    Deviation("state-not-passed-on", _ORDER, "every step starts from s_0, or from zero",
        _kinds("passed_on", "start", "zero")),
    Deviation("start-attends", _ORDER, "c_i of s_0 for every i", _kinds("query", "start")),
    Deviation("readout-sees-word", _READOUT, "V_o e(y_i) instead of V_o e(y_{i-1})",
        _kinds("readout_word", "current"), effect=_PEEKS),
    Deviation("readout-term-lost", _READOUT, "without one of the three",
        _each(0, "U_o", "V_o", "C_o")),
    Deviation("maxout-halves", _READOUT, "t_k = max(t~_k, t~_{l+k})",
        {"maxout": {"maxout": ("identity", "halves")}}, effect=_NAMES),
    Deviation("maxout-replaced", _READOUT, "t_k is another function of t~",
        {f"{function} of {pooling}": {"maxout": (function, pooling)}
         for function, pooling in itertools.product(
             ("identity", "tanh", "relu"),
             ("pairs", "halves", "mean", "sum", "smaller", "first of pair", "first half",
              "gated half"))
         if function != "identity" or pooling not in ("pairs", "halves")},
        "tanh of l numbers: 32.8, 5.7 and 37.5 BLEU on val with three seeds; maxout had 55.6"),
    Deviation("output-over-batch", _OUTPUT,
        "softmax over the sentences of the batch",
        {"sentences": {"output_axis": 0}, "sentences and words": {"output_axis": None}},
        effect=_BATCH),
    Deviation("output-softmax-twice", _OUTPUT,
        "softmax of the softmax, for example F.cross_entropy of probabilities",
        {"output": {"output": "softmax twice"}}),
    Deviation("padding-scored", "log p(y) is a sum over the words of y", "over its padding too",
        {"y_mask": {"y_mask": "all"}}, effect=_BATCH),
    Deviation("word-unscored", "log p(y) is a sum over the words of y", "one word is left out",
        {"the end symbol": {"y_mask": "earlier, to 0"},
         "the first word": {"y_mask": "without the first"}}),
)
# fmt: on
BY_NAME = {deviation.name: deviation for deviation in CATALOGUE}


class PlacedDeviation(NamedTuple):
    """A deviation in one place."""

    name: str
    place: str

    @property
    def changes(self) -> Changes:
        return BY_NAME[self.name].places[self.place]


def singles(with_rare: bool = True) -> list[PlacedDeviation]:
    """Return every entry in each of its places, or every entry that is not rare."""
    return [
        PlacedDeviation(deviation.name, place)
        for deviation in CATALOGUE
        if with_rare or not deviation.is_rare
        for place in deviation.places
    ]


def merged(deviations: tuple[PlacedDeviation, ...]) -> Changes | None:
    """Return the changes of several deviations, or None if two of them change the same."""
    changes = [change for one in deviations for change in one.changes.items()]
    return dict(changes) if len(dict(changes)) == len(changes) else None


def listed() -> str:
    """Return the catalogue, a line for each entry."""
    return "\n".join(f"{entry.name:<22} {entry.instead}" for entry in CATALOGUE)


def explained(name: str) -> str:
    """Return an entry of the catalogue as text."""
    entry = BY_NAME[name]
    lines = [
        name,
        f"  the program  {entry.program}",
        f"  here         {entry.instead}",
        f"  its price    {entry.price}",
    ]
    if entry.effect:
        lines.append(f"  in training  {entry.effect}")
    if len(entry.places) > 1:
        lines += [f"  {'variants' * (i == 0):<11}  {place}" for i, place in enumerate(entry.places)]
    return "\n".join(lines)
