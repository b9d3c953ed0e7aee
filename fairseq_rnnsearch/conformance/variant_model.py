"""The paper's model in NumPy, with a switch for each deviation of the catalogue.

Without changes it equals the authors' numbers. It shows what a deviation gives; only the authors'
numbers decide whether a program is right.
"""

from collections.abc import Mapping

import numpy as np

from fairseq_rnnsearch.conformance.authors_numbers import NO_WORD, Arrays

# What a change may choose; each value here is the authors'.
CHOICES = {
    "encoder_reset": "before",  # see `VariantModel._unit`, also for the next four
    "decoder_reset": "before",
    "encoder_update": "proposed",  # what z weighs
    "decoder_update": "proposed",
    "encoder_gates": "sigmoid",  # a name in `FUNCTIONS`, as for the next five
    "decoder_gates": "sigmoid",
    "encoder_proposed": "tanh",
    "decoder_proposed": "tanh",
    "encoder_state": "identity",
    "decoder_state": "identity",
    "encoder_mask": True,  # whether padding leaves the encoder's states as they are
    "backward": "own",  # unreversed, unreversed batch, left to right, zero, forward
    "halves": "forward first",  # backward first
    "start": "backward",  # see `VariantModel.start`
    "start_function": "tanh",  # a name in `FUNCTIONS`
    "energies": "additive",  # see `VariantModel.energies`
    "masking": "before",  # never, after, zero, inverted, inverted with -inf
    "sees_end": True,  # whether the end of the source sentence is attended to
    "softmax_axis": 1,  # 0: over the batch; None: over all
    "weights": "softmax",  # see `VariantModel.weights`
    "alpha": "as it is",  # a name in `GIVEN`
    "context": "annotations",  # see `VariantModel._context`
    "order": "program",  # appendix, section 3, next, new state attends
    "passed_on": "state",  # start, zero
    "query": "state",  # which state looks at the annotations; or start
    "first_word": (None, False),  # row of E_y or none, and whether b_y is added
    "readout_word": "previous",  # current
    "maxout": ("identity", "pairs"),  # of `FUNCTIONS`; and see `VariantModel.readout`
    "output_axis": 1,  # as softmax_axis
    "output": "softmax",  # or softmax twice
}


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * a))


FUNCTIONS = {
    "identity": lambda a: a,
    "tanh": np.tanh,
    "tanh twice": lambda a: np.tanh(np.tanh(a)),
    "relu": lambda a: np.maximum(a, 0),
    "sigmoid": _sigmoid,
    "sigmoid twice": lambda a: _sigmoid(_sigmoid(a)),
    "hard sigmoid": lambda a: np.clip(a / 6 + 0.5, 0, 1),
}
# What a change may make of an array that a part is given; of all but "all", axis 1 is positions.
GIVEN = {
    "as it is": lambda a: a,
    "later": lambda a: np.concatenate([a[:, :1], a[:, :-1]], 1),
    "later, from 0": lambda a: np.concatenate([a[:, :1] * 0, a[:, :-1]], 1),
    "later, around": lambda a: np.roll(a, 1, 1),
    "earlier": lambda a: np.concatenate([a[:, 1:], a[:, -1:]], 1),
    "earlier, to 0": lambda a: np.concatenate([a[:, 1:], a[:, :1] * 0], 1),
    "earlier, around": lambda a: np.roll(a, -1, 1),
    "all": np.ones_like,
    "without the first": lambda a: np.concatenate([a[:, :1] * 0, a[:, 1:]], 1),
}


class VariantModel:
    """The model after some changes; its methods are the parts, batch first, one row a sentence.

    Args:
        p: parameters, as ``authors_numbers.parameters`` returns them.
        changes: of `CHOICES`, by name; or of a parameter: 0 (lost), "T" (transposed), "doubled",
            "scaled" (by the root of its width), "exchanged" (the columns for forward and backward
            states), "forward" or "backward" (the columns for the others lost), or the name of the
            one that is used in its place.
    """

    def __init__(self, p: Arrays, changes: Mapping[str, object]) -> None:
        self.choice = CHOICES | {name: value for name, value in changes.items() if name not in p}
        edits = {name: value for name, value in changes.items() if name in p}
        self.p = p | {name: _edited(p, name, edit) for name, edit in edits.items()}

    def encode(self, x: np.ndarray, mask: np.ndarray) -> Arrays:
        words = self.p["E_x"][x] + self.p["b_x"]
        moves = mask if self.choice["encoder_mask"] else np.ones_like(mask)
        forward = self._run("_forward", words, moves)
        kind = self.choice["backward"]
        step = 1 if kind == "left to right" else -1
        backward = self._run("_backward", words[:, ::step], moves[:, ::step])
        backward = {
            "unreversed batch": lambda: backward,
            "unreversed": lambda: _each_reversed(backward[:, ::step], mask),
        }.get(kind, lambda: backward[:, ::step])()
        start = self.start(np.concatenate([forward, backward], 2), mask)
        halves = [forward, {"zero": forward * 0, "forward": forward}.get(kind, backward)]
        h = np.concatenate(halves if self.choice["halves"] == "forward first" else halves[::-1], 2)
        return {"annotations": h, **start}

    def start(self, h: np.ndarray, mask: np.ndarray) -> Arrays:
        n, rows = h.shape[2] // 2, np.arange(len(h))
        first, last = mask.argmax(1), h.shape[1] - 1 - mask[:, ::-1].argmax(1)
        mean = (h * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        summary = {
            "backward": h[rows, first, n:],
            "backward last": h[rows, last, n:],
            "backward last of batch": h[:, -1, n:],
            "forward": h[rows, last, :n],
            "mean backward": mean[:, n:],
            "mean forward": mean[:, :n],
            "mean with padding": h[:, :, n:].mean(1),
        }
        kind = self.choice["start"]
        if kind in ("zero", "as it is"):
            return {"start": summary["backward"] * (kind != "zero")}
        s = summary[kind] @ self.p["W_s"].T + self.p["b_s"]
        return {"start": FUNCTIONS[self.choice["start_function"]](s)}

    def energies(self, s: np.ndarray, h: np.ndarray, mask: np.ndarray) -> Arrays:
        query, keys = (s @ self.p["W_a"].T)[:, None], h @ self.p["U_a"].T
        kind, v, both = self.choice["energies"], self.p["v_a"], query + keys
        scale = np.sqrt(keys.shape[-1]) if kind.startswith("scaled ") else 1
        e = {
            "additive": lambda: np.tanh(both) @ v,
            "without tanh": lambda: both @ v,
            "tanh twice": lambda: np.tanh(np.tanh(both)) @ v,
            "tanh of each": lambda: (np.tanh(query) + np.tanh(keys)) @ v,
            "general": lambda: (s[:, None] * keys).sum(-1),
            "dot": lambda: (query * keys).sum(-1),
            "relu": lambda: np.maximum(both, 0) @ v,
            "sigmoid": lambda: _sigmoid(both) @ v,
            "tanh of product": lambda: np.tanh(query * keys) @ v,
            "tanh of all": lambda: np.tanh(both @ v),
            "v_a = 1": lambda: np.tanh(both).sum(-1),
        }[kind.removeprefix("scaled ")]()
        return {"energies": e / scale}

    def weights(self, s: np.ndarray, h: np.ndarray, mask: np.ndarray) -> Arrays:
        return {"weights": self._weights(self.energies(s, h, mask)["energies"], mask)}

    def _weights(self, e: np.ndarray, mask: np.ndarray) -> np.ndarray:
        kind, masked, axis = (self.choice[name] for name in ("weights", "masking", "softmax_axis"))
        if not self.choice["sees_end"]:
            mask = mask & (np.cumsum(mask, 1) < mask.sum(1, keepdims=True))
        if kind == "uniform":
            e = np.zeros_like(e)
        kept, filling = {
            "before": (mask, -np.inf),
            "zero": (mask, 0),
            "inverted": (~mask, -1e9),
            "inverted with -inf": (~mask, -np.inf),
        }.get(masked, (True, 0))
        e = np.where(kept, e, filling)
        with np.errstate(invalid="ignore"):  # a column of padding, over the batch
            alpha = {
                "softmax twice": lambda: _softmax(_softmax(e, axis), axis),
                "sigmoid": lambda: _sigmoid(e),
                "sigmoid over sum": lambda: _sigmoid(e) / _sigmoid(e).sum(axis, keepdims=True),
                "exp": lambda: np.exp(e),
                "energies": lambda: e,
            }.get(kind, lambda: _softmax(e, axis))()
        if masked == "after":
            alpha = alpha * mask
        if kind == "hard":
            alpha = (alpha == alpha.max(1, keepdims=True)) * 1.0
        return GIVEN[self.choice["alpha"]](alpha)

    def context(self, s: np.ndarray, h: np.ndarray, mask: np.ndarray, alpha: object) -> Arrays:
        return {"context": self._context(self.weights(s, h, mask)["weights"], h, mask)}

    def _context(self, alpha: np.ndarray, h: np.ndarray, mask: np.ndarray) -> np.ndarray:
        kind, n, rows = self.choice["context"], h.shape[2] // 2, np.arange(len(h))
        if kind == "keys":
            h = h @ self.p["U_a"].T
        last = h[rows, h.shape[1] - 1 - mask[:, ::-1].argmax(1)]
        c = np.einsum("bx,bxc->bc", alpha, h)
        return {
            "last": lambda: last,
            "final states": lambda: np.concatenate([last[:, :n], h[rows, mask.argmax(1), n:]], 1),
            "mean": lambda: (h * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True),
            "mean with padding": lambda: h.mean(1),
            "forward": lambda: np.where(np.arange(2 * n) < n, c, 0),
            "backward": lambda: np.where(np.arange(2 * n) < n, 0, c),
            "exchanged": lambda: np.roll(c, n, 1),
            "zero": lambda: c * 0,
        }.get(kind, lambda: c)()

    def state(self, s: np.ndarray, y_prev: np.ndarray, y: np.ndarray, c: np.ndarray) -> Arrays:
        word = y if self.choice["order"] in ("program", "next") else y_prev
        if self.choice["order"] == "new state attends":
            c = None
        return {"state": self._unit("decoder", "", self._inputs("", self._embedded(word), c), s)}

    def readout(
        self, s: np.ndarray, y_prev: np.ndarray, c: np.ndarray, y: np.ndarray | None = None
    ) -> Arrays:
        p = self.p
        word = y if self.choice["readout_word"] == "current" and y is not None else y_prev
        t = s @ p["U_o"].T + self._embedded(word) @ p["V_o"].T + c @ p["C_o"].T + p["b_t"]
        pairs, l = t.reshape(len(t), -1, 2), t.shape[1] // 2
        function, pooling = self.choice["maxout"]
        pooled = {
            "pairs": lambda: pairs.max(2),
            "halves": lambda: np.maximum(t[:, :l], t[:, l:]),
            "mean": lambda: pairs.mean(2),
            "sum": lambda: pairs.sum(2),
            "smaller": lambda: pairs.min(2),
            "first of pair": lambda: pairs[:, :, 0],
            "first half": lambda: t[:, :l],
            "gated half": lambda: t[:, :l] * _sigmoid(t[:, l:]),
        }[pooling]()
        logits = FUNCTIONS[function](pooled) @ p["W_o"].T + p["b_o"]
        if self.choice["output"] == "softmax twice":
            logits = _softmax(logits, 1)
        return {"probabilities": _log_softmax(logits, self.choice["output_axis"])}

    def step(
        self,
        s: np.ndarray,
        y_prev: np.ndarray,
        y: np.ndarray,
        h: np.ndarray,
        mask: np.ndarray,
        start: np.ndarray | None = None,
    ) -> Arrays:
        order = self.choice["order"]
        query = s if start is None or self.choice["query"] == "state" else start
        if order == "new state attends":
            query = self.state(s, y_prev, y, h)["state"]
        quantities = self.energies(query, h, mask)
        alpha = quantities["weights"] = self._weights(quantities["energies"], mask)
        c = quantities["context"] = self._context(alpha, h, mask)
        if c.shape[1] != h.shape[2]:
            return quantities  # which no later equation can take
        quantities |= self.state(s, y_prev, y, c)
        read = quantities["state"] if order in ("section 3", "next", "new state attends") else s
        return quantities | self.readout(read, y_prev, c, y)

    def sentence(
        self, x: np.ndarray, mask: np.ndarray, y: np.ndarray, y_mask: np.ndarray
    ) -> Arrays:
        quantities = self.encode(x, mask)
        h, start, y_prev, steps = (
            quantities["annotations"],
            quantities["start"],
            np.full(len(y), NO_WORD),
            [],
        )
        s = start
        for word in y.T:
            steps.append(self.step(s, y_prev, word, h, mask, start))
            if "state" not in steps[-1]:
                return quantities
            passed_on = {"state": steps[-1]["state"], "start": start, "zero": start * 0}
            s, y_prev = passed_on[self.choice["passed_on"]], word
        of_step = {"weights": "weights", "states": "state", "probabilities": "probabilities"}
        quantities |= {
            name: np.stack([step[own] for step in steps], 1) for name, own in of_step.items()
        }
        of_words = np.take_along_axis(quantities["probabilities"], y[:, :, None], 2)[:, :, 0]
        quantities["word_log_probabilities"] = np.where(y_mask, of_words, 0)
        return quantities | {"log_likelihood": quantities["word_log_probabilities"].sum(1)}

    def _inputs(self, side: str, word: np.ndarray, c: np.ndarray | None = None) -> list[np.ndarray]:
        """Return what words and context add to z, r and the proposed state; the context's of it."""
        products = [word @ self.p[f"W{gate}{side}"].T for gate in ("_z", "_r", "")]
        if c is None:
            return [*products, products[0] * 0]
        of_context = [c @ self.p[C].T for C in ("C_z", "C_r", "C")]
        return [*(x + own for x, own in zip(products, of_context, strict=True)), of_context[2]]

    def _unit(self, place: str, side: str, inputs: list[np.ndarray], h: np.ndarray) -> np.ndarray:
        p = self.p
        reset, update, gates, proposed, state = (
            self.choice[f"{place}_{name}"]
            for name in ("reset", "update", "gates", "proposed", "state")
        )
        z = FUNCTIONS[gates](inputs[0] + h @ p[f"U_z{side}"].T)
        r = FUNCTIONS[gates](inputs[1] + h @ p[f"U_r{side}"].T)
        U, b, of_words, c = p[f"U{side}"].T, p[f"b{side}"], inputs[2] - inputs[3], inputs[3]
        new = FUNCTIONS[proposed]({
            "before": lambda: inputs[2] + (r * h) @ U + b,
            "never": lambda: inputs[2] + h @ U + b,
            "after": lambda: inputs[2] + r * (h @ U) + b,
            "after with bias": lambda: inputs[2] + r * (h @ U + b),
            "after with both biases": lambda: inputs[2] + r * (h @ U + b) + b,
            "context": lambda: of_words + r * (h @ U + c) + b,
            "before and context": lambda: of_words + (r * h) @ U + r * c + b,
            "all": lambda: r * (inputs[2] + h @ U + b),
        }[reset]())  # fmt: skip
        return FUNCTIONS[state]({
            "proposed": lambda: z * new + (1 - z) * h,
            "previous": lambda: (1 - z) * new + z * h,
            "never": lambda: new,
            "both": lambda: z * new + z * h,
            "sum": lambda: h + z * new,
            "new alone": lambda: z * new,
        }[update]())  # fmt: skip

    def _run(self, side: str, words: np.ndarray, moves: np.ndarray) -> np.ndarray:
        h = np.zeros((len(words), len(self.p[f"b{side}"])))
        inputs, states = self._inputs(side, words), []
        for j in range(words.shape[1]):
            moved = self._unit("encoder", side, [x[:, j] for x in inputs], h)
            h = np.where(moves[:, j, None], moved, h)
            states.append(h)
        return np.stack(states, 1)

    def _embedded(self, y: np.ndarray) -> np.ndarray:
        row, biased = self.choice["first_word"]
        E, b = self.p["E_y"], self.p["b_y"]
        first = (0 if row is None else E[row]) + (b if biased else 0) * np.ones_like(b)
        return np.where((y == NO_WORD)[:, None], first, E[y] + b)


def _edited(p: Arrays, name: str, edit: object) -> np.ndarray:
    own = p[name]
    width = own.shape[-1]
    edited = {
        **{0: 0 * own, "T": own.T, "doubled": 2 * own, "scaled": own * np.sqrt(width)},
        "exchanged": np.roll(own, width // 2, -1),
        "forward": own * (np.arange(width) < width // 2),
        "backward": own * (np.arange(width) >= width // 2),
    }
    return edited[edit] if edit in edited else p[edit]


def _each_reversed(states: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Reverse the states of each sentence in place, without its padding."""
    turned = states.copy()
    for row, words in enumerate(mask):
        turned[row, words] = states[row, words][::-1]
    return turned


def _softmax(a: np.ndarray, axis: int) -> np.ndarray:
    return np.exp(_log_softmax(a, axis))


def _log_softmax(a: np.ndarray, axis: int) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # a column of padding, over the batch
        a = a - a.max(axis, keepdims=True)
    return a - np.log(np.exp(a).sum(axis, keepdims=True))
