"""Which deviations of the catalogue compute given numbers: one, or two at once."""

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from fairseq_rnnsearch.conformance.authors_numbers import PARTS, Arrays, counts, numbers, parameters
from fairseq_rnnsearch.conformance.catalogue import PlacedDeviation, merged, singles
from fairseq_rnnsearch.conformance.given_code import Layout, run_in_layout
from fairseq_rnnsearch.conformance.variant_model import GIVEN, VariantModel

DOUBLE, SINGLE = 1e-8, 2e-5  # differences that are rounding, in float64 and in float32
# Out of up to 6,000. All of 250 pairs drawn at random were among these, 99% if only the
# probabilities of a sentence's words are known, and 96% if only the likelihoods of sentences are.
MOST_PAIRS = 1000
Explanation = tuple[PlacedDeviation, ...]


def vectors(part: str, quantities: Arrays) -> Arrays:
    """Return the entries that are compared, a vector of each quantity, in the part's order."""
    flat = {}
    for name in PARTS[part].outputs:
        if (array := quantities.get(name)) is None:
            continue
        if array.shape == numbers(part)[name].shape:  # but for a context of keys
            valid = counts(part, name)
            if name == "energies":  # the softmax drops what is added to all of a row
                array = np.where(valid, array, 0)
                array = array - array.sum(1, keepdims=True) / valid.sum(1, keepdims=True)
            array = array[valid]
        flat[name] = array.ravel()
    return flat


def differences(one: Arrays, other: Arrays) -> dict[str, float]:
    """Return the largest difference of each vector of the first; infinite if there is no other.

    NaN equals NaN: some deviations compute it. The authors' numbers have none.
    """

    def largest(a: np.ndarray, b: np.ndarray | None) -> float:
        if b is None or a.shape != b.shape:
            return np.inf
        with np.errstate(invalid="ignore"):  # infinities
            gaps = np.where(np.isnan(a) & np.isnan(b), 0, np.abs(a - b))
        return float(gaps.max()) if np.isfinite(gaps).all() else np.inf

    return {name: largest(vector, other.get(name)) for name, vector in one.items()}


def matches(part: str, layout: Layout, target: Arrays, number: int) -> list[Explanation]:
    """Return the sets of deviations that reproduce the vectors, those with fewest changes first.

    Args:
        layout: in which the vectors were computed.
        number: how many deviations a set has, 1 or 2.
    """
    layout = Layout(rows=layout.rows.replace("no batch axis", "batch of one"))
    if number == 2:
        return list(_pairs(part, layout, target))
    errors = {
        (one,): max(differences(target, _kept_variant(part, layout, (one,))).values())
        for one in singles()
    }
    bound = DOUBLE if min(errors.values()) <= DOUBLE else SINGLE
    fitting = (explanation for explanation, error in errors.items() if error <= bound)
    return sorted(fitting, key=lambda explanation: len(merged(explanation)))


def _pairs(part: str, layout: Layout, target: Arrays) -> Iterator[Explanation]:
    """Yield the first pair that reproduces the vectors, and those that move the model alike.

    First come those pairs whose two differences from the model add up to that of the vectors.
    """

    def flat(arrays: Arrays) -> np.ndarray:
        alike = [
            arrays[name]
            if name in arrays and arrays[name].shape == vector.shape
            else np.zeros_like(vector)
            for name, vector in target.items()
        ]
        return np.nan_to_num(np.concatenate(alike), posinf=0, neginf=0)

    model = _kept_variant(part, layout, ())
    moves = {}
    for one in sorted(singles(with_rare=False), key=lambda one: len(one.changes)):
        moved = flat(_kept_variant(part, layout, (one,))) - flat(model)
        if np.abs(moved).max() > SINGLE:  # of places that move it alike, the smallest
            moves.setdefault((one.name, moved.round(6).tobytes()), (one, moved))
    goal, left = flat(target) - flat(model), {}
    for (a, by_a), (b, by_b) in itertools.combinations(moves.values(), 2):
        if a.name != b.name and merged((a, b)) is not None:
            left[a, b] = np.abs(goal - by_a - by_b).sum()
    matched = np.inf
    for pair, missed in sorted(left.items(), key=lambda item: item[1])[:MOST_PAIRS]:
        if missed > matched + DOUBLE:
            return
        if max(differences(target, _variant(part, layout, pair)).values()) <= SINGLE:
            matched = min(matched, missed)
            yield pair


def _variant(part: str, layout: Layout, explanation: Explanation) -> Arrays:
    changes = merged(explanation)
    function = getattr(VariantModel(parameters(), changes), part)

    def run(**given: np.ndarray) -> Arrays:
        return function(
            **given
            | {
                name: GIVEN[changes[name]](array)
                for name, array in given.items()
                if name in changes and array.ndim > 1
            }
        )

    return vectors(part, run_in_layout(run, part, layout, numbers(part)))


_kept_variant = functools.cache(_variant)
