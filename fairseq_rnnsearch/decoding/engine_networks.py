"""Searching, scoring and attribution by the engine, for a batch of sentences in any order."""

import math
import os
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.decoding.hypothesis import Hypothesis
from fairseq_rnnsearch.decoding.networks import SearchSettings, Sentences
from fairseq_rnnsearch.decoding.search import Options, authors_search, search
from fairseq_rnnsearch.decoding.search.beam_search import NO_NUMBERS, Begin
from fairseq_rnnsearch.engine.ensemble import EnsembleSteps
from fairseq_rnnsearch.engine.interface import Limits, Steps
from fairseq_rnnsearch.engine.native import NativeNetwork, library
from fairseq_rnnsearch.engine.numpy_network import NumpyNetwork
from fairseq_rnnsearch.engine.parameters import Parameters
from fairseq_rnnsearch.errors import UserError

Network = NativeNetwork | NumpyNetwork


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


def options_of(settings: SearchSettings, dictionary: Any) -> Options:
    """Return a search's options, with the numbers of the target's dictionary."""
    return Options.for_dictionary(
        dictionary,
        settings.beam,
        len_penalty=settings.lenpen,
        unk_penalty=math.inf if settings.forbid_unk else 0.0,
        max_len_a=settings.length_limit.ratio,
        max_len_b=settings.length_limit.margin,
    )


def searched(
    settings: SearchSettings, options: Options, begin: Begin, sources: Sentences, attends: bool
) -> list[list[Hypothesis]]:
    """Return each sentence's hypotheses, best first; no words give an empty translation.

    Args:
        attends: whether there are alignment weights.
    """
    run = authors_search if settings.authors_search else search
    ones = np.ones((1, 1), np.float32) if attends else None
    beams = [[Hypothesis([options.eos], 0.0, np.zeros(1), ones)] for _ in sources]
    if order := [number for number in _longest_first(sources) if len(sources[number]) > 1]:
        found = run(options, begin, [sources[number] for number in order])
        for number, beam in zip(order, found, strict=True):
            beams[number] = [*map(_with_rows_of_one, beam)]
    return beams


def _with_rows_of_one(found: Hypothesis) -> Hypothesis:
    """Let weights of an ensemble sum to one, in which some models may have none."""
    if found.weights is None or not found.weights.any():
        return found
    return found._replace(weights=found.weights / found.weights.sum(axis=1, keepdims=True))


def scored(
    networks: Sequence[Network], sources: Sentences, targets: Sentences, posterior: bool
) -> list[Hypothesis]:
    """Return given translations as hypotheses; see ``Networks.score``."""
    if posterior and not all(network.has_alignment for network in networks):
        raise UserError(
            "posterior: the model has only the weights with which it attends before it "
            "knows the word; RNNsearch has those given the word too"
        )
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


def attribution(
    networks: Sequence[Network], sources: Sentences, targets: Sentences
) -> list[NDArray[np.floating]]:
    """Return how far each word's log p falls without each source position.

    See ``Networks.attribution`` and ``network.forced_scoring.leave_one_out``.
    """

    def without_each(alpha: NDArray) -> NDArray:
        tiny = np.finfo(np.float32).tiny
        left = np.maximum(alpha, tiny) * (1 - np.eye(len(alpha) + 1, len(alpha), -1))
        return left / np.maximum(left.sum(axis=1, keepdims=True), tiny)

    log_p = [
        _forced(network, sources, targets, without_each, all_along=True).reread
        for network in networks
    ]
    effects = []
    for of_models in zip(*log_p, strict=True):
        mean = np.logaddexp.reduce(of_models)  # up to a constant the logarithm of the mean
        effects.append(mean[:, :1] - mean[:, 1:])
    return effects


def _longest_first(sentences: Sentences) -> list[int]:
    return sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))


class _Forced(NamedTuple):
    """Given words of each sentence: log p, ``(words,)``, and weights, ``(words, source)``.

    ``reread`` has log p with other weights, ``(words, alternatives)``.
    """

    log_p: list[NDArray]
    weights: list[NDArray | None]
    reread: list[NDArray]


def _scored(
    network: Network, sources: Sentences, targets: Sentences, posterior: bool
) -> tuple[list[NDArray], list[NDArray | None]]:
    """Return log p of each sentence's words, and weights, ``(words, source)``, or None."""
    if not posterior:
        return _forced(network, sources, targets)[:2]

    def each_alone(alpha: NDArray) -> NDArray:
        return np.eye(len(alpha))

    log_p, weights, of_positions = _forced(network, sources, targets, each_alone)
    with np.errstate(divide="ignore"):
        logs = [np.log(a) + p for a, p in zip(weights, of_positions, strict=True)]
    exps = [np.exp(one - one.max(axis=1, keepdims=True)) for one in logs]
    return log_p, [one / one.sum(axis=1, keepdims=True) for one in exps]


def _forced(
    network: Network,
    sources: Sentences,
    targets: Sentences,
    alternatives: Callable[[NDArray], NDArray] | None = None,
    *,
    all_along: bool = False,
) -> _Forced:
    """Let a network read given words, one after another.

    Args:
        alternatives: returns other weights for a row of weights, ``(alternatives, source)``.
        all_along: see `NativeSteps.reread`.
    """
    order = _longest_first(sources)
    steps = network.steps([sources[number] for number in order], 1, threads())
    found = _Forced(*([[] for _ in sources] for _ in range(3)))
    words = parents = None
    for t in range(max(map(len, targets))):
        alive = [number for number in order if t < len(targets[number])]
        if len(alive) < len(order):
            parents = [order.index(number) for number in alive]
            steps.keep(parents)
            order = alive
        elif t:
            parents = list(range(len(order)))
        if t:
            words = [targets[number][t - 1] for number in order]
        given = [targets[number][t] for number in order]
        best = steps.best(
            words, parents, [0.0] * len(order), 1, Limits(given, [False] * len(order))
        )
        others, rows, of_rows = [], [], []
        for row, number in enumerate(order):
            found.log_p[number].append(best.scores[row][0])
            alpha = None
            if best.weights is not None:
                alpha = best.weights[row, : len(sources[number])]
            found.weights[number].append(alpha)
            if alternatives is not None:
                other = alternatives(alpha)
                others.append(np.pad(other, ((0, 0), (0, best.weights.shape[1] - len(alpha)))))
                rows += [row] * len(other)
                of_rows += [given[row]] * len(other)
        if alternatives is not None:
            together = np.concatenate(others)
            reread = iter(steps.reread(together, rows, of_rows, all_along=all_along))
            for number, other in zip(order, others, strict=True):
                found.reread[number].append(list(islice(reread, len(other))))
    stacked = (
        [np.array(one) for one in found.log_p],
        [None if one[0] is None else np.stack(one) for one in found.weights],
    )
    return _Forced(*stacked, [np.array(one) for one in found.reread])
