"""Searching, scoring and attribution by the engine, for a batch of sentences in any order."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
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
        """Return the given translations as hypotheses.

        Args:
            posterior: whether the weights are those of ``network.forced_scoring.posterior``.
        """
        networks = self._networks
        if posterior and not all(network.has_alignment for network in networks):
            raise UserError(NO_POSTERIOR)
        log_p, weights = zip(
            *(_scored(network, sources, targets, posterior) for network in networks), strict=True
        )
        known = [one for one in weights if one[0] is not None]
        hypotheses = []
        for i, target in enumerate(targets):
            of_words = np.logaddexp.reduce([one[i] for one in log_p]) - np.log(len(networks))
            if np.isnan(of_words).any():
                raise UserError(NO_NUMBERS)
            mean = sum(one[i] for one in known) / len(known) if known else None
            score = float(of_words.sum()) / len(target)
            hypotheses.append(Hypothesis([*target], score, of_words, mean))
        return hypotheses

    def attribution(self, sources: Sentences, targets: Sentences) -> list[NDArray[np.floating]]:
        """Return how far each word's log p falls without each source position.

        See ``network.forced_scoring.leave_one_out``; ``(words, source positions)``.
        """
        log_p = [_forced(network, sources, targets, _without_each)[2] for network in self._networks]
        # up to a constant the logarithm of the models' mean
        means = [np.logaddexp.reduce(of_models) for of_models in zip(*log_p, strict=True)]
        return [mean[:, :1] - mean[:, 1:] for mean in means]


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


def _each_alone(
    steps: Any, weights: NDArray, lengths: Sequence[int], words: Sequence[int]
) -> list[NDArray]:
    """Return log p of each sentence's word, were the context each annotation alone."""
    return steps.each_alone(words)


def _without_each(
    steps: Any, weights: NDArray, lengths: Sequence[int], words: Sequence[int]
) -> list[list[float]]:
    """Return log p of each sentence's word with all positions, and without each."""
    tiny, others = np.finfo(np.float32).tiny, []
    for alpha, length in zip(weights, lengths, strict=True):
        left = np.maximum(alpha, tiny) * (1 - np.eye(length + 1, len(alpha), -1))
        left[:, length:] = 0
        others.append(left / np.maximum(left.sum(axis=1, keepdims=True), tiny))
    counts = [len(one) for one in others]
    of_rows = [np.repeat(one, counts).tolist() for one in (range(len(counts)), words)]
    found = iter(steps.reread(np.concatenate(others), *of_rows))
    return [list(islice(found, count)) for count in counts]


def _scored(
    network: Network, sources: Sentences, targets: Sentences, posterior: bool
) -> tuple[list[NDArray], list[NDArray | None]]:
    """Return log p of each sentence's words, and weights, ``(words, source)``, or None."""
    if not posterior:
        return _forced(network, sources, targets)[:2]
    log_p, weights, of_positions = _forced(network, sources, targets, _each_alone)
    with np.errstate(divide="ignore"):
        logs = [np.log(a) + p for a, p in zip(weights, of_positions, strict=True)]
    exps = [np.exp(one - one.max(axis=1, keepdims=True)) for one in logs]
    return log_p, [one / one.sum(axis=1, keepdims=True) for one in exps]


def _forced(
    network: Network,
    sources: Sentences,
    targets: Sentences,
    ask: Callable[[Any, NDArray, Sequence[int], Sequence[int]], Sequence[Any]] | None = None,
) -> tuple[list[NDArray], list[NDArray | None], list[NDArray]]:
    """Let a network read given words, one after another.

    Args:
        ask: asks each step more about the words, given the sentences' weights and lengths.

    Returns:
        Of each sentence log p of its words, ``(words,)``; weights, ``(words, source)``, or None;
        and what was asked of each word.
    """
    order = longest_first(sources)
    steps = network.steps([sources[number] for number in order], 1, threads())
    log_p, weights, answers = ([[] for _ in sources] for _ in range(3))
    for t in range(max(map(len, targets))):
        rows = [row for row, number in enumerate(order) if t < len(targets[number])]
        if len(rows) < len(order):
            steps.keep(rows)
            order = [order[row] for row in rows]
        before = (rows, [targets[number][t - 1] for number in order]) if t else ((), ())
        given = [targets[number][t] for number in order]
        limits = Limits(given, [False] * len(order))
        best = steps.best(Rows(*before, [0.0] * len(order)), 1, limits)
        for row, number in enumerate(order):
            log_p[number].append(best.scores[row][0])
            if best.weights is not None:
                weights[number].append(best.weights[row, : len(sources[number])])
        if ask is not None:
            lengths = [len(sources[number]) for number in order]
            answered = ask(steps, best.weights, lengths, given)
            for number, answer in zip(order, answered, strict=True):
                answers[number].append(answer)
    return (
        [np.array(one) for one in log_p],
        [np.stack(one) if one else None for one in weights],
        [np.array(one) for one in answers],
    )
