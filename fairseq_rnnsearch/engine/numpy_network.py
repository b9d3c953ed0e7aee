"""The network in NumPy: without a compiler, and in float64."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.engine.choice import DenseSteps
from fairseq_rnnsearch.engine.interface import Rows
from fairseq_rnnsearch.engine.parameters import Parameters


class NumpyNetwork:
    """A model's matrices, transposed: BLAS would rearrange a transposed view in every product."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.has_alignment = parameters.has_alignment
        if self.has_alignment:
            self.energy = parameters["decoder.alignment_model.energy_weight"]
        self.matrices = {
            name: self._transposed(*parts) for name, parts in parameters.matrices.items()
        }
        self.word_bias = parameters.word_bias
        self.units = {
            name: [self._transposed(f"{name}.recurrent_{part}") for part in ("gates", "proposed")]
            for name in ("encoder.forward_unit", "encoder.backward_unit", "decoder.unit")
            if f"{name}.input_bias" in parameters.arrays
        }
        self.inputs = {name: self._transposed(f"{name}.input_weight") for name in self.units}

    def _transposed(self, *names: str) -> NDArray:
        return np.ascontiguousarray(self.parameters.stacked(*names).T)

    def steps(self, sources: Sequence[Sequence[int]], width: int, threads: int = 1) -> "NumpySteps":
        """Return the steps of a search for sentences, longest first; see `NativeNetwork`."""
        return NumpySteps(self, sources)

    def unit(self, name: str, inputs: NDArray, h: NDArray) -> NDArray:
        """Return the state after a step of a unit, ``(rows, n)``, given [x, x_z, x_r]."""
        n, (gates, proposed) = h.shape[1], self.units[name]
        z, r = np.split(_sigmoid(inputs[:, n:] + h @ gates), 2, axis=1)
        return h + z * (np.tanh(inputs[:, :n] + (r * h) @ proposed) - h)

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[NDArray, NDArray, NDArray]:
        """Return [C; C_o; U_a] h, ``(sentences, source, ...)``, what is no padding, and s_0."""
        parameters, n = self.parameters, self.parameters.n
        lengths = np.array([len(source) for source in sources])
        mask = np.arange(lengths[0]) < lengths[:, None]
        embedded = parameters.embedded("encoder", [word for source in sources for word in source])
        states = np.zeros((*mask.shape, len(self.matrices["notes"])), parameters.dtype)
        for half, name in enumerate(name for name in self.units if name.startswith("encoder")):
            inputs = np.zeros((*mask.shape, 3 * n), parameters.dtype)
            inputs[mask] = embedded @ self.inputs[name]
            inputs[..., :n] += parameters[f"{name}.input_bias"]
            h, times = np.zeros((len(sources), n), parameters.dtype), range(lengths[0])
            for t in reversed(times) if half else times:
                alive = np.count_nonzero(mask[:, t])
                h[:alive] = self.unit(name, inputs[:alive, t], h[:alive])
                states[:alive, t, half * n : (half + 1) * n] = h[:alive]
        s_0 = np.tanh(h @ self.matrices["initial"] + parameters["decoder.initial_bias"])
        if not self.has_alignment:  # a single annotation gets all the weight
            return (h @ self.matrices["notes"])[:, None], np.ones((len(sources), 1), bool), s_0
        return states @ self.matrices["notes"], mask, s_0


class NumpySteps(DenseSteps):
    """See `interface.Steps`."""

    def __init__(self, network: NumpyNetwork, sources: Sequence[Sequence[int]]) -> None:
        super().__init__(network.parameters)
        self._network = network
        self._notes, self._mask, self._after = network.encode(sources)
        self._alpha: NDArray | None = None

    def log_probabilities(self, rows: Rows, temperature: float) -> tuple[NDArray, NDArray | None]:
        """See `DenseSteps`."""
        own = list(rows.parents or range(len(rows.scores)))
        self._before, self._alpha_before = self._after[own], self._alpha
        if self._alpha is not None:
            self._alpha_before = self._alpha[own]
        self._words = rows.words
        self._rest, self._after, self._alpha = self._step(
            rows.words, self._before, self._alpha_before, self._notes, self._mask
        )
        log_p = self._read_out(self._rest + _context(self._alpha, self._readout_notes), temperature)
        return log_p, self._alpha.astype(np.float32) if self._network.has_alignment else None

    def reread(self, weights: NDArray, words: Sequence[int]) -> NDArray:
        """See `NativeSteps.reread`."""
        sentences, k, _ = weights.shape
        own, weights = np.repeat(np.arange(sentences), k), weights.reshape(sentences * k, -1)
        before = None if self._alpha_before is None else self._alpha_before[own]
        rest, _, _ = self._step(
            self._words and [self._words[i] for i in own],
            *(self._before[own], before, self._notes[own], self._mask[own]),
            alpha=weights,
        )
        log_p = self._read_out(rest + _context(weights, self._readout_notes[own]))
        return log_p[np.arange(len(own)), np.repeat(words, k)].reshape(sentences, k)

    def each_alone(self, words: Sequence[int]) -> list[NDArray]:
        """See `NativeSteps.each_alone`."""
        rows, positions = np.nonzero(self._mask)
        log_p = self._read_out(self._rest[rows] + self._readout_notes[rows, positions])
        of_words = log_p[np.arange(len(rows)), np.array(words)[rows]]
        return np.split(of_words, np.cumsum(self._mask.sum(axis=1))[:-1])

    def keep(self, sentences: Sequence[int]) -> None:
        """See `interface.Steps`."""
        self._notes, self._mask = self._notes[list(sentences)], self._mask[list(sentences)]

    def _step(
        self,
        words: Sequence[int],
        s: NDArray,
        alpha_before: NDArray | None,
        notes: NDArray,
        mask: NDArray,
        alpha: NDArray | None = None,
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Return what maxout takes besides the context, the next states, and weights.

        They are ``(rows, 2 l)``, ``(rows, d)`` and ``(rows, source)``.
        """
        network, d = self._network, s.shape[1]
        parameters, order = network.parameters, network.parameters.order
        inputs = np.tile(network.word_bias, (len(s), 1))
        if words:  # e(y_0) is zero, without the bias
            inputs += parameters.embedded("decoder", list(words)) @ network.matrices["word"]
        of_unit, of_readout = inputs[:, : 3 * d], inputs[:, 3 * d :]
        C, _, keys = np.split(notes, (3 * d, inputs.shape[1]), axis=2)
        if order == "program" and words:
            s = network.unit("decoder.unit", of_unit + _context(alpha_before, C), s)
        query = s @ network.matrices["query"]
        if alpha is None:
            alpha = self._weights(query[:, : keys.shape[2]], keys, mask)
        after = s
        if order != "program":
            after = network.unit("decoder.unit", of_unit + _context(alpha, C), s)
        if order == "section3":
            query = after @ network.matrices["query"]
        return of_readout + query[:, keys.shape[2] :], after, alpha

    @property
    def _readout_notes(self) -> NDArray:
        """C_o h of all positions, ``(sentences, source, 2 l)``."""
        d, size = self._after.shape[1], len(self._network.word_bias)
        return self._notes[:, :, 3 * d : size]

    def _read_out(self, inputs: NDArray, temperature: float = 1.0) -> NDArray:
        """Return log p, ``(rows, words)``, given what maxout takes, ``(rows, 2 l)``."""
        network, parameters = self._network, self._network.parameters
        t = np.maximum(inputs[:, ::2], inputs[:, 1::2])
        if "inner" in network.matrices:
            t = t @ network.matrices["inner"]
        logits = (t @ network.matrices["output"] + parameters["decoder.output.bias"]) / temperature
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logits.astype(parameters.dtype, copy=False)

    def _weights(self, query: NDArray, keys: NDArray, mask: NDArray) -> NDArray:
        if not self._network.has_alignment:
            return np.ones((len(query), 1), query.dtype)
        sentences, source, size = keys.shape
        hidden = np.tanh(query.reshape(sentences, -1, 1, size) + keys[:, None])
        e = np.where(mask[:, None], hidden @ self._network.energy, -np.inf)
        alpha = np.exp(e - e.max(axis=2, keepdims=True))
        return (alpha / alpha.sum(axis=2, keepdims=True)).reshape(-1, source)


def _context(alpha: NDArray, notes: NDArray) -> NDArray:
    """Return sum_j alpha_ij x_j of all rows, as many of each sentence."""
    sentences, source, columns = notes.shape
    return (alpha.reshape(sentences, -1, source) @ notes).reshape(-1, columns)


def _sigmoid(x: NDArray) -> NDArray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))
