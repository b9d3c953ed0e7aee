"""Searching, scoring and attribution by the engine, for a batch of sentences in any order."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.decoding.search import Options, authors_search, search
from fairseq_rnnsearch.decoding.search.beam_search import (
    NO_NUMBERS,
    NO_POSTERIOR,
    Begin,
    longest_first,
)
from fairseq_rnnsearch.decoding.search.history import Hypothesis
from fairseq_rnnsearch.engine.choice import EnsembleSteps
from fairseq_rnnsearch.engine.interface import Limits, Rows, Steps
from fairseq_rnnsearch.engine.native import NativeNetwork, library
from fairseq_rnnsearch.engine.numpy_network import NumpyNetwork
from fairseq_rnnsearch.engine.parameters import Parameters
from fairseq_rnnsearch.engine.shapes import SCALE
from fairseq_rnnsearch.errors import UserError

Network = NativeNetwork | NumpyNetwork
Sentences = Sequence[Sequence[int]]  # numbers of words, the end symbol last
# return other weights, (batch, k, source), given a step's, (batch, source), and what is no padding
Alternatives = Callable[[NDArray, NDArray], NDArray]
# of each sentence log p of its words, (words,); weights, (words, source), or None; and log p that
# each word has with other contexts, (words, k or more)
Read = tuple[Sequence[NDArray], Sequence[NDArray | None], Sequence[NDArray]]
# reads given words; takes `Alternatives`, or alone=True: then each annotation alone is the context
Reader = Callable[..., Read]


def threads() -> int:
    """Return how many threads may compute: torch's number, or OMP_NUM_THREADS, or all."""
    if "torch" in sys.modules:
        return sys.modules["torch"].get_num_threads()
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else os.cpu_count() or 1


def network_of(parameters: Parameters, compute_dtype: str = "float32") -> Network:
    """Return a model in C, or in NumPy without a compiler and in float64.

    Args:
        compute_dtype: see `NativeNetwork`. A processor without instructions for bfloat16 computes
            in float32, which is faster there, and more accurate.
    """
    if parameters.dtype == np.float32 and library() is not None:
        if compute_dtype == "bfloat16" and not library().has_bfloat16():
            compute_dtype = "float32"
        return NativeNetwork(parameters, compute_dtype)
    return NumpyNetwork(parameters)


def begin(networks: Sequence[Network], sources: Sentences, width: int) -> Steps:
    """Return the steps of a search by a network or an ensemble; see `NativeNetwork.steps`."""
    steps = [network.steps(sources, width, threads()) for network in networks]
    return steps[0] if len(steps) == 1 else EnsembleSteps(steps, networks[0].parameters)


class EngineNetworks:
    """A model, or the models of an ensemble, as a ``Translator`` asks them: one batch at a time.

    Args:
        as_modules: returns them as modules of torch (``commands.torch_networks``).

    Attributes:
        has_alignment: whether one of them has attention.
    """

    def __init__(
        self, networks: Sequence[Network], as_modules: Callable[[], Any] | None = None
    ) -> None:
        self._networks, self.as_modules = networks, as_modules
        self.has_alignment = any(network.has_alignment for network in networks)

    def as_parameters(self) -> list[Parameters]:
        """Return each model's parameters."""
        return [network.parameters for network in self._networks]

    def parameters(self) -> int:
        """Return how many numbers the models have."""
        return sum(
            array.size
            for parameters in self.as_parameters()
            for name, array in parameters.arrays.items()
            if not name.endswith(SCALE)
        )

    def search(
        self, options: Options, by_authors: bool, sources: Sentences
    ) -> list[list[Hypothesis]]:
        """Return each sentence's hypotheses, best first."""
        begins = partial(begin, self._networks)
        several = len(self._networks) > 1
        return searched(options, by_authors, begins, sources, self.has_alignment, several)

    def score(self, sources: Sentences, targets: Sentences, posterior: bool) -> list[Hypothesis]:
        """Return the given translations as hypotheses; see `scored`."""
        if posterior and not all(network.has_alignment for network in self._networks):
            raise UserError(NO_POSTERIOR)
        return scored(self._readers(sources, targets), targets, posterior)

    def attribution(self, sources: Sentences, targets: Sentences) -> list[NDArray[np.floating]]:
        """See `attribution`."""
        return attribution(self._readers(sources, targets), sources)

    def _readers(self, sources: Sentences, targets: Sentences) -> list[Reader]:
        return [partial(_forced, network, sources, targets) for network in self._networks]


def in_batches(ask: Callable[..., list], size: int, *sides: Sentences) -> list:
    """Return the networks' answers for all sentences, asked for those of similar length together.

    Args:
        ask: a method of networks; takes a batch of each side.
        size: of a batch.
    """
    order = sorted(range(len(sides[0])), key=lambda number: len(sides[0][number]))
    answers: list[Any] = [None] * len(order)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        found = ask(*([side[number] for number in rows] for side in sides))
        for number, answer in zip(rows, found, strict=True):
            answers[number] = answer
    return answers


def searched(
    options: Options,
    by_authors: bool,
    begins: Begin,
    sources: Sentences,
    attends: bool,
    several: bool,
) -> list[list[Hypothesis]]:
    """Return each sentence's hypotheses, best first; no words give an empty translation.

    Args:
        by_authors: whether to search as the authors did.
        attends: whether there are alignment weights.
        several: whether the models are an ensemble.
    """
    run = authors_search if by_authors else search
    ones = np.ones((1, 1), np.float32) if attends else None
    beams = [[Hypothesis([options.eos], 0.0, np.zeros(1), ones)] for _ in sources]
    if with_words := [number for number, source in enumerate(sources) if len(source) > 1]:
        found = run(options, begins, [sources[number] for number in with_words])
        for number, beam in zip(with_words, found, strict=True):
            beams[number] = [*map(_with_rows_of_one, beam)] if several else beam
    return beams


def _with_rows_of_one(found: Hypothesis) -> Hypothesis:
    """Let weights of an ensemble sum to one, in which some models may have none."""
    if found.weights is None or not found.weights.any():
        return found
    return found._replace(weights=found.weights / found.weights.sum(axis=1, keepdims=True))


def scored(readers: Sequence[Reader], targets: Sentences, posterior: bool) -> list[Hypothesis]:
    """Return the translations that networks have read as hypotheses.

    Attention decides where to look before it knows the word. Read as the prior probability that
    y_i translates source position j, it becomes by Bayes' rule (Shankar and Sarawagi, 2019)

        p(j | y_1 .. y_i, x)  is proportional to  alpha_ij p(y_i | s, y_{i-1}, c_i = h_j)

    Args:
        posterior: whether the weights are these.
    """
    log_p, weights, alone = zip(*(reader(alone=posterior) for reader in readers), strict=True)
    if posterior:
        weights = [[*map(_posterior, *of_model)] for of_model in zip(weights, alone, strict=True)]
    known = [one for one in weights if one[0] is not None]
    hypotheses = []
    for i, target in enumerate(targets):
        of_words = np.logaddexp.reduce([one[i] for one in log_p]) - np.log(len(readers))
        if not np.isfinite(of_words).all():  # a search takes NaN for minus infinity
            raise UserError(NO_NUMBERS)
        mean = sum(one[i] for one in known) / len(known) if known else None
        score = float(of_words.sum()) / len(target)
        hypotheses.append(Hypothesis([*target], score, of_words, mean))
    return hypotheses


def attribution(readers: Sequence[Reader], sources: Sentences) -> list[NDArray[np.floating]]:
    """Return how far each word's log p falls without each source position, for each sentence.

    The weights say where the model looked; this says whether it mattered. For each i and j,
    alpha_ij becomes zero, the other weights of the row are scaled to sum to one, and step i is
    computed again: c_i, with ``section3`` the state that has read it, t_i and p(y_i). Everything
    before step i stays as it was.

    Each remaining weight counts as at least the smallest normal number, so that a row whose weight
    is all on position j becomes an even one. If j is the only position, c_i becomes the zero
    vector.

    Returns:
        ``(words, source positions)`` each.
    """
    log_p = [reader(_without_each)[2] for reader in readers]
    # up to a constant the logarithm of the models' mean
    means = map(np.logaddexp.reduce, zip(*log_p, strict=True))
    return [
        mean[:, :1] - mean[:, 1 : len(source) + 1]
        for mean, source in zip(means, sources, strict=True)
    ]


def _without_each(alpha: NDArray, is_word: NDArray) -> NDArray:
    """Return a step's weights, then without each position in turn; rows sum to one.

    Args:
        alpha, is_word: ``(batch, source)``.

    Returns:
        ``(batch, 1 + source, source)``.
    """
    tiny, source = np.finfo(np.float32).tiny, alpha.shape[1]
    stays = 1 - np.eye(source + 1, source, -1, dtype=alpha.dtype)
    left = (np.maximum(alpha, tiny) * is_word)[:, None] * stays
    return left / np.maximum(left.sum(axis=2, keepdims=True), tiny)


def _posterior(weights: NDArray, alone: NDArray) -> NDArray:
    with np.errstate(divide="ignore"):
        logs = np.log(weights) + alone[:, : weights.shape[1]]
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    return likely / likely.sum(axis=1, keepdims=True)


def _forced(
    network: Network,
    sources: Sentences,
    targets: Sentences,
    alternatives: Alternatives | None = None,
    *,
    alone: bool = False,
) -> Read:
    """Let a network read given words, one after another; a `Reader`."""
    order = longest_first(sources)
    steps = network.steps([sources[number] for number in order], 1, threads())
    log_p, weights, rereads = ([[] for _ in sources] for _ in range(3))
    for t in range(max(map(len, targets))):
        rows = [row for row, number in enumerate(order) if t < len(targets[number])]
        if len(rows) < len(order):
            steps.keep(rows)
            order = [order[row] for row in rows]
        before = (rows, [targets[number][t - 1] for number in order]) if t else ((), ())
        given = [targets[number][t] for number in order]
        limits = Limits(given, [False] * len(order))
        best = steps.best(Rows(*before, [0.0] * len(order)), 1, limits)
        found: Sequence[NDArray] = ()
        if alone:
            found = steps.each_alone(given)
        elif alternatives is not None:
            lengths = np.array([[len(sources[number])] for number in order])
            is_word = np.arange(best.weights.shape[1]) < lengths
            found = steps.reread(alternatives(best.weights, is_word), given)
        for row, number in enumerate(order):
            log_p[number].append(best.scores[row][0])
            if best.weights is not None:
                weights[number].append(best.weights[row, : len(sources[number])])
            rereads[number].extend(found[row : row + 1])
    log_p, rereads = ([np.array(one, float) for one in side] for side in (log_p, rereads))
    return log_p, [np.stack(one) if one else None for one in weights], rereads
