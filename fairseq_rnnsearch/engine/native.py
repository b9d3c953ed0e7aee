"""The network in C: ``engine.c``, compiled for this machine on first use."""

import ctypes
from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.checks import DECODER_ORDERS
from fairseq_rnnsearch.engine.c_library import INTEGER, POINTER, REAL, compiled
from fairseq_rnnsearch.engine.interface import Best, Limits, Rows, Steps
from fairseq_rnnsearch.engine.parameters import Parameters

WORD_BYTES = 64_000_000  # the most memory for kept products with words
SOURCE = Path(__file__).with_name("engine.c")
_FUNCTIONS = {
    "panel_rows": (),
    "numbers_of_word": (INTEGER,),
    "has_bfloat16": (),
    "encode": (POINTER, *2 * (INTEGER,), *3 * (POINTER,), INTEGER, *2 * (POINTER,)),
    "step": (POINTER, POINTER),
    "each_alone": 3 * (POINTER,),
}
_FLOATS, _BYTES, _EIGHTS, _HALVES = range(4)  # kinds of matrices
_COUNTS = ("threads", "sentences", "width", "source", "k", "is_first", "has_alpha")
_NUMBERS = ("n", "d", "source_m", "m", "l", "keys", "order", "pad", "eos", "unk")


class _Matrix(ctypes.Structure):
    _fields_ = [*((name, INTEGER) for name in ("n", "k", "kind")),
                *((name, POINTER) for name in ("panels", "scale", "sums"))]  # fmt: skip


class _Embedding(ctypes.Structure):
    _fields_ = [(name, POINTER) for name in ("rows", "scale", "bias")]


class _Unit(ctypes.Structure):
    _fields_ = [*((name, _Matrix) for name in ("inputs", "gates", "proposed")), ("bias", POINTER)]


class _Network(ctypes.Structure):
    _fields_ = [
        *((name, INTEGER) for name in _NUMBERS),
        *((name, _Embedding) for name in ("source", "target")),
        *((name, _Unit) for name in ("forward", "backward")),
        *((name, _Matrix) for name in ("initial", "notes", "word", "gates", "proposed", "query",
                                       "inner", "output")),
        *((name, POINTER) for name in ("initial_bias", "word_bias", "energy", "output_bias")),
        *(("kept", INTEGER), ("of_words", POINTER), ("is_known", POINTER)),
    ]  # fmt: skip


class _Search(ctypes.Structure):
    _fields_ = [
        *((name, INTEGER) for name in _COUNTS),
        *((name, POINTER) for name in (
            "length", "first", "notes", "previous", "parents", "scores", "only", "no_end",
            "forbidden", "forbidden_end", "alpha_before", "s_before", "alpha", "s_after",
            "rest", "value", "word", "hypothesis", "log_p")),
        *((name, REAL) for name in ("unk_penalty", "temperature")),
    ]  # fmt: skip


class NativeNetwork:
    """A model in C, in float32.

    Args:
        parameters: the model's; float matrices are copied, others stay 8 bits wide.
        compute_dtype: of products; "bfloat16" rounds both operands, "int8" those of matrices that
            are stored in 8 bits.
    """

    def __init__(self, parameters: Parameters, compute_dtype: str = "float32") -> None:
        self._c, self.parameters = library(), parameters
        self._compute_dtype = compute_dtype
        self.has_alignment, self.words = parameters.has_alignment, parameters.words
        self.source_words = len(parameters.arrays["encoder.embedding.weight"])
        self._kept: list[NDArray] = []  # what C's pointers show
        e, d = "encoder.", "decoder."
        gates, proposed = (f"decoder.unit.recurrent_{part}" for part in ("gates", "proposed"))
        matrices = parameters.matrices | {"gates": [gates], "proposed": [proposed]}
        network = self.network = _Network()
        if parameters.has_alignment:
            network.energy = self._address(parameters[d + "alignment_model.energy_weight"])
            network.keys = len(parameters[d + "alignment_model.energy_weight"])
            network.backward = self._unit(e + "backward_unit.")
        for name, parts in matrices.items():
            setattr(network, name, self._matrix(*parts))
        network.forward = self._unit(e + "forward_unit.")
        network.source, network.target = self._embedding(e), self._embedding(d)
        word_bias = parameters.word_bias
        network.word_bias = self._address(word_bias)
        network.initial_bias = self._address(parameters[d + "initial_bias"])
        network.output_bias = self._address(parameters[d + "output.bias"])
        network.n, network.d = parameters.n, parameters.d
        network.l = len(parameters[d + "readout.bias"]) // 2
        network.source_m = len(parameters[e + "embedding.bias"])
        network.m = len(parameters[d + "embedding.bias"])
        network.order = DECODER_ORDERS.index(parameters.order)
        network.pad, network.eos, network.unk = parameters.pad, parameters.eos, parameters.unk
        # frequent words have small numbers; memory is taken when a row is written
        network.kept = min(self.words, WORD_BYTES // word_bias.nbytes)
        network.of_words = self._address(np.empty((network.kept, len(word_bias)), np.float32))
        network.is_known = self._address(np.zeros(network.kept, np.uint8))
        self.at = ctypes.addressof(network)

    def steps(
        self, sources: Sequence[Sequence[int]], width: int, threads: int = 1
    ) -> "NativeSteps":
        """Return the steps of a search for sentences, longest first.

        Args:
            sources: word numbers.
            width: the most hypotheses of a sentence.
            threads: so many compute what is large.
        """
        return NativeSteps(self, self._c, sources, width, threads)

    def __reduce__(self) -> tuple:
        """Copy and pickle what it is made of: addresses are of this process."""
        return NativeNetwork, (self.parameters, self._compute_dtype)

    def _address(self, numbers: NDArray) -> int:
        self._kept.append(numbers)
        return numbers.ctypes.data

    def _embedding(self, side: str) -> _Embedding:
        rows, scales = self.parameters.stored(side + "embedding.weight")
        if scales is None:
            rows = self.parameters[side + "embedding.weight"]
        scale = None if scales is None else self._address(np.asarray(scales, np.float32))
        bias = self.parameters[side + "embedding.bias"]
        return _Embedding(self._address(rows), scale, self._address(bias))

    def _unit(self, name: str) -> _Unit:
        parts = ("input_weight", "recurrent_gates", "recurrent_proposed")
        bias = self.parameters[name + "input_bias"]
        bias = self._address(np.pad(bias, (0, 2 * len(bias))))
        return _Unit(*(self._matrix(name + part) for part in parts), bias)

    def _matrix(self, *names: str) -> _Matrix:
        """Arrange matrices as C's products take them."""
        numbers, scales = self.parameters.stored(*names)
        kind = _FLOATS if scales is None else _BYTES
        if self._compute_dtype == "int8" and scales is not None:
            kind = _EIGHTS
        elif kind == _FLOATS or self._compute_dtype == "bfloat16":
            numbers, scales = self.parameters.stacked(*names), None
        if self._compute_dtype == "bfloat16":
            kind, bits = _HALVES, numbers.view(np.uint32)
            numbers = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)
        (n, k), panel = numbers.shape, self._c.panel_rows()
        of_word = self._c.numbers_of_word(kind)
        padded = np.pad(numbers, ((0, -n % panel), (0, -k % of_word)))
        panels = padded.reshape(-1, panel, padded.shape[1] // of_word, of_word).swapaxes(1, 2)
        scale = sums = None
        if scales is not None:
            scale = self._address(np.pad(scales.astype(np.float32), (0, -n % panel)))
            of_rows = padded.sum(axis=1, dtype=np.int32) * (128 if of_word == 4 else 0)
            sums = self._address(of_rows)
        return _Matrix(n, k, kind, self._address(np.ascontiguousarray(panels)), scale, sums)


class NativeSteps(Steps):
    """See `interface.Steps`; C's pointers show into arrays that live as long as they are read."""

    def __init__(
        self,
        network: NativeNetwork,
        library: ctypes.CDLL,
        sources: Sequence[Sequence[int]],
        width: int,
        threads: int,
    ) -> None:
        self._network, self._c = network, library
        described, sentences = network.network, len(sources)
        length = array("i", map(len, sources))
        first = array("i", [0, *accumulate(length)][:-1])
        words = array("i", chain.from_iterable(sources))
        _check_words(words, network.source_words)
        self._states = np.empty((2, sentences * width, described.d), np.float32)
        self._rest = np.empty((sentences * width, 2 * described.l), np.float32)
        before, after = map(_data, self._states)
        self._notes = np.empty(
            (len(words) if described.keys else sentences, described.notes.n), np.float32
        )
        failed = library.encode(
            *(network.at, threads, sentences, _at(length), _at(first), _at(words), len(words)),
            *(_data(self._notes), after),
        )
        if failed:
            raise MemoryError
        if not described.keys:  # a single annotation gets all the weight
            length, first = array("i", [1] * sentences), array("i", range(sentences))
        self._search = _Search(
            threads=threads, source=max(length), notes=_data(self._notes),
            s_before=before, s_after=after, is_first=1, rest=_data(self._rest),
        )  # fmt: skip
        self._of(length, first)
        self._alpha = self._alpha_before = array("f")
        self._found = [array("f")]

    def best(self, rows: Rows, k: int, limits: Limits) -> Best:
        """See `interface.Steps`."""
        self._begin(rows)
        count = len(limits.only) * k
        found = self._find(count)
        self._choose(self._search, rows.scores, k, limits)
        starts, lists = range(0, count, k), [part.tolist() for part in found]
        return Best(*([part[i : i + k] for i in starts] for part in lists), self._weights())

    def log_probabilities(self, rows: Rows, temperature: float) -> tuple[NDArray, NDArray | None]:
        """See `DenseSteps`."""
        self._begin(rows)
        count = len(rows.scores)
        log_p = np.empty((count, self._network.words), np.float32)
        self._search.log_p = _data(log_p)
        limits = Limits([-1] * count, [False] * count, temperature=temperature)
        self._choose(self._search, rows.scores, 1, limits)
        self._search.log_p = None
        return log_p, self._weights()

    def reread(self, weights: NDArray, words: Sequence[int]) -> NDArray:
        """Return log p of words at the step just taken, had it read contexts with other weights.

        Each sentence has one hypothesis.

        Args:
            weights: k rows for each sentence, ``(sentences, k, source)``.
            words: of each sentence.

        Returns:
            ``(sentences, k)``.
        """
        sentences, k, _ = weights.shape
        rows, own = sentences * k, np.repeat(np.arange(sentences), k)
        weights = np.ascontiguousarray(weights, np.float32)
        previous, parents, length, first = (
            np.array(one, np.int32)[own] for one in (*self._given, *self._described)
        )
        after = np.empty((rows, self._states.shape[2]), np.float32)
        rest = np.empty((rows, self._rest.shape[1]), np.float32)
        found = self._find(rows)
        search = _Search.from_buffer_copy(self._search)
        search.sentences, search.width, search.s_after = rows, 1, _data(after)
        search.previous, search.parents = _data(previous), _data(parents)
        search.length, search.first = _data(length), _data(first)
        search.alpha, search.has_alpha, search.rest = _data(weights), 1, _data(rest)
        limits = Limits(np.repeat(words, k).tolist(), [False] * rows)
        self._choose(search, [0.0] * rows, 1, limits)
        return np.array(found[0]).reshape(sentences, k)

    def each_alone(self, words: Sequence[int]) -> list[NDArray]:
        """Return log p of each sentence's word at the step just taken, for contexts h_j.

        Each sentence has one hypothesis, whose state stays as it is.

        Returns:
            Of each sentence, a number for each of its annotations.
        """
        length, only = self._described[0], array("i", words)
        value = np.empty(sum(length), np.float32)
        search = _Search.from_buffer_copy(self._search)
        search.only, search.k, search.temperature = _at(only), 1, 1.0
        if self._c.each_alone(self._network.at, ctypes.addressof(search), _data(value)):
            raise MemoryError
        return np.split(value, np.cumsum(length)[:-1])

    def keep(self, sentences: Sequence[int]) -> None:
        """See `interface.Steps`."""
        self._of(*(array("i", [part[i] for i in sentences]) for part in self._described))

    def _of(self, length: array, first: array) -> None:
        """Let the steps be of these sentences."""
        self._described, search = (length, first), self._search
        search.sentences, search.length, search.first = len(length), _at(length), _at(first)

    def _weights(self) -> NDArray | None:
        if not self._network.has_alignment:
            return None
        return np.frombuffer(self._alpha, np.float32).reshape(-1, self._search.source)

    def _begin(self, rows: Rows) -> None:
        """Begin a step: what was after the last one is before this one."""
        search, count = self._search, len(rows.scores)
        search.s_before, search.s_after = search.s_after, search.s_before
        self._alpha_before, self._alpha = self._alpha, array("f", bytes(4 * count * search.source))
        search.alpha_before, search.alpha = _at(self._alpha_before), _at(self._alpha)
        search.width, search.is_first = count // search.sentences, not rows.words
        words, parents = rows.words or [0] * count, rows.parents or range(count)
        _check_words(words, self._network.words)
        self._given = array("i", words), array("i", parents)
        search.previous, search.parents = map(_at, self._given)

    def _find(self, candidates: int) -> list[array]:
        """Return room for values, words and hypotheses."""
        if len(self._found[0]) != candidates:
            self._found = [array(code, bytes(4 * candidates)) for code in "fii"]
            search = self._search
            search.value, search.word, search.hypothesis = map(_at, self._found)
        return self._found

    def _choose(self, search: _Search, scores: Sequence[float], k: int, limits: Limits) -> None:
        own = array("f", scores), array("i", limits.only), array("B", limits.no_end)
        search.scores, search.only, search.no_end = map(_at, own)
        search.forbidden = search.forbidden_end = None
        if limits.forbidden is not None:
            words = array("i", chain.from_iterable(limits.forbidden))
            ends = array("i", accumulate(map(len, limits.forbidden)))
            search.forbidden, search.forbidden_end = _at(words), _at(ends)
        search.k = k
        search.unk_penalty, search.temperature = limits.unk_penalty, limits.temperature
        if self._c.step(self._network.at, ctypes.addressof(search)):
            raise MemoryError


def _check_words(words: Sequence[int], count: int) -> None:
    if max(words) >= count or min(words) < 0:
        raise IndexError(f"a word is not one of {count}: {max(words)}")


def _at(numbers: array) -> int:
    return numbers.buffer_info()[0]


def _data(numbers: NDArray) -> int:
    return numbers.ctypes.data


def library() -> ctypes.CDLL | None:
    """Return the functions of ``engine.c``, or None without a compiler."""
    return compiled(SOURCE, _FUNCTIONS)
