"""What given numbers are: those of one or two deviations, or the authors' after a simple change."""

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from fairseq_rnnsearch.conformance.authors_numbers import (
    NO_WORD,
    PARTS,
    Arrays,
    counts,
    numbers,
    parameters,
)
from fairseq_rnnsearch.conformance.catalogue import PlacedDeviation, merged, singles
from fairseq_rnnsearch.conformance.given_code import Layout, run_in_layout
from fairseq_rnnsearch.conformance.variant_model import GIVEN, VariantModel

DOUBLE, SINGLE = 1e-8, 2e-5  # differences that are rounding, in float64 and in float32
# A step has some 6,000. Of 59 of these, drawn at random, 58 were among the first 1,000.
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


def expected(part: str, layout: Layout) -> Arrays:
    """Return the vectors of the authors' numbers; they have none of cut sentences: the model's."""
    return (
        _kept_variant(part, Layout(rows=layout.rows), ())
        if layout.rows == "one length"
        else vectors(part, numbers(part))
    )


def transformation(part: str, name: str, own: np.ndarray) -> str:
    """Say which simple change of the authors' value gives a quantity; "" if none is known."""
    authors = np.where(counts(part, name), numbers(part)[name], np.nan)
    with np.errstate(all="ignore"):
        views = {name: (own, authors)} | {
            "weights": {"energies": (np.log(own), np.log(authors))},
            "probabilities": {"logits": (own, authors)},
        }.get(name, {})
        for subject, (ours, theirs) in views.items():
            is_free = subject in ("energies", "logits")  # what is added to all of a row is lost
            changed = _multiplied(part, ours, theirs, is_free)
            changed |= {} if is_free else _changed(PARTS[part].outputs[name], ours, theirs)
            for change, candidate in changed.items():
                gaps = np.ma.masked_invalid(ours - candidate)
                gaps -= is_free * gaps.mean(-1, keepdims=True)
                if 2 * gaps.count() > np.isfinite(theirs).sum() and np.abs(gaps).max() <= SINGLE:
                    return f"{subject} = {change}"
    return ""


_MOVED = {
    "later": lambda a: np.concatenate([a[:1] * np.nan, a[:-1]]),
    "earlier": lambda a: np.concatenate([a[1:], a[:1] * np.nan]),
}


def _changed(axes: str, ours: np.ndarray, theirs: np.ndarray) -> Arrays:
    """Return what changes of the authors' numbers give, by name; NaN where that is unknown."""
    nearest = [np.argmin([np.nansum(np.abs(a - b)) for b in theirs]) for a in ours]
    half = theirs.shape[-1] // 2 if axes.endswith("c") else 0
    return {
        **{f"{f.__name__} of the program's": f(theirs) for f in (np.log, np.exp, np.tanh)},
        **{
            f"the program's, one {side} position {how}": np.moveaxis(
                move(np.moveaxis(theirs, at, 0)), 0, at
            )
            for at, side in enumerate({"x": "source", "y": "target"}.get(axis) for axis in axes)
            for how, move in _MOVED.items()
            if side
        },
        "the program's with forward and backward states exchanged": np.roll(theirs, half, -1),
        "the program's of other sentences of the batch": theirs[nearest],
    }


def _multiplied(part: str, ours: np.ndarray, theirs: np.ndarray, is_free: bool) -> Arrays:
    """Return the authors' numbers times the factor that fits best, by its name."""
    a, b = (np.ma.masked_invalid(array + 0 * (ours + theirs)) for array in (ours, theirs))
    a, b = (array - is_free * array.mean(-1, keepdims=True) for array in (a, b))
    of_row = tuple(range(1, a.ndim))
    factor = np.ma.filled((a * b).sum(of_row) / (b * b).sum(of_row), np.nan)
    sizes = {"n'": 12, "the root of n'": np.sqrt(12), "ln 2": np.log(2)}
    sizes |= {f"the number of {side} words": mask.sum(1) for _, side, mask in _sides(part)}
    ratios = {
        **{f"the program's times {size}": n for size, n in sizes.items()},
        **{f"the program's divided by {size}": 1 / n for size, n in sizes.items()},
        f"the program's times {factor[0]:.4g}": factor[0],
        f"the program's times {factor.min():.3g} to {factor.max():.3g}, by row": (
            factor if of_row and not is_free else np.nan
        ),
    }
    by = factor.reshape(-1, *(1 for _ in of_row))
    fitting = [how for how, ratio in ratios.items() if np.allclose(factor, ratio, rtol=1e-4)]
    return {how: by * theirs for how in fitting[:1] if not np.allclose(factor, 1, atol=1e-3)}


def measured(part: str, name: str, own: np.ndarray) -> list[str]:
    """Return what can be seen of a quantity that differs."""
    if change := transformation(part, name, own):
        return [change]
    authors, valid, facts = numbers(part)[name], counts(part, name), {}
    gaps = np.where(valid, np.abs(own - authors), 0)
    if name == "weights":
        sums = own.sum(-1)[valid.any(-1)]
        padding = np.where(authors > 0, 0, own).sum(-1)[valid.any(-1)].max()
        hidden = _where(part, name, (own == 0) & (authors > 0))
        facts = {
            f"weights are negative, down to {own.min():.2g}": own.min() < 0,
            f"rows of weights sum to {sums.min():.4f} to {sums.max():.4f}, not to 1": (
                np.abs(sums - 1).max() > SINGLE
            ),
            f"padding gets up to {padding:.2g} of the weights: its energies are not small enough": (
                padding > SINGLE
            ),
            f"no weight on {hidden}": hidden,
        }
    halves = {name: True}
    if PARTS[part].outputs[name].endswith("c"):
        is_forward = np.arange(own.shape[-1]) < own.shape[-1] // 2
        halves = {"the forward half": is_forward, "the backward half": ~is_forward}
    for subject, half in halves.items():
        wrong = (gaps > 0.1 * SINGLE) & half
        where = _where(part, name, wrong)
        facts[f"{subject}: differs only in {where}"] = where
        facts[f"{subject} is equal, the other half differs"] = not wrong.any()
    return [fact for fact, holds in facts.items() if holds]


def _sides(part: str) -> list[tuple[str, str, np.ndarray]]:
    """Return axis, name and mask of source and target, as far as a part is given them."""
    sides = (("x", "source", "mask"), ("y", "target", "y_mask"))
    return [(a, side, numbers(part)[m]) for a, side, m in sides if m in PARTS[part].inputs]


def _where(part: str, name: str, found: np.ndarray) -> str:
    """Name the places in which all was found, if there are others; narrow ones before wide ones."""
    axes, valid = PARTS[part].outputs[name], counts(part, name)
    places = {}
    for axis, side, mask in _sides(part):
        number = mask.cumsum(1) * mask
        is_last = number == number.max(1, keepdims=True)
        places |= {
            f"sentences whose {side} is padded": ("b", ~mask.all(1)),
            f"the first {side} word": ("b" + axis, number == 1),
            f"the last {side} word": ("b" + axis, is_last),
            f"all {side} words but the first": ("b" + axis, number > 1),
            f"all {side} words but the last": ("b" + axis, mask & ~is_last),
        }
    if "y_prev" in numbers(part):
        is_first = numbers(part)["y_prev"] == NO_WORD
        places |= {"the first word": ("b", is_first), "all words but the first": ("b", ~is_first)}
    spread = {
        place: np.einsum(f"{letters},{axes}->{axes}", own, np.ones(found.shape)) > 0
        for place, (letters, own) in places.items()
        if set(letters) <= set(axes)
    }
    fitting = {
        place: own
        for place, own in spread.items()
        if found.any() and not (found & ~own).any() and (valid & ~own).any()
    }
    return ", ".join(
        place
        for place, own in fitting.items()
        if not any((other <= own).all() and (other < own).any() for other in fitting.values())
    )
