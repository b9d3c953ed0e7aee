"""Whether given code computes what the authors' program computed, and if not, what it computes."""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairseq_rnnsearch.conformance.authors_numbers import (
    NO_WORD,
    PARTS,
    Arrays,
    counts,
    numbers,
    parameters,
)
from fairseq_rnnsearch.conformance.catalogue import BY_NAME, Found, merged, singles
from fairseq_rnnsearch.conformance.given_code import (
    GivenCode,
    Layout,
    Output,
    Refused,
    run_in_layout,
)
from fairseq_rnnsearch.conformance.variant_model import VariantModel

DOUBLE, SINGLE = 1e-8, 2e-5  # differences that are rounding, in float64 and in float32


class PartReport(NamedTuple):
    """What was found of one part.

    Attributes:
        layout: in which it was run.
        errors: largest difference from the authors' number, for each quantity returned.
        deviations: what explains the differences; empty if there are none, or nothing does.
        others: explanations that give the same numbers.
        explained: the quantities that the deviations reproduce.
        remarks: on the form of what it returned.
    """

    part: str
    layout: Layout
    errors: dict[str, float]
    deviations: tuple[Found, ...] = ()
    others: tuple[tuple[Found, ...], ...] = ()
    explained: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return max(self.errors.values()) <= SINGLE

    def __str__(self) -> str:
        lines = [f"{self.part}, {self.layout}", *self.remarks]
        for name, error in self.errors.items():
            same = "equal to rounding" if error <= SINGLE else "DIFFERS"
            lines.append(f"{name:<22} {same}, largest difference {error:.1e}")
        if self.deviations:
            of = "" if len(self.explained) == len(self.errors) else f" of {self.explained[-1]}"
            lines.append(f"This{of} is {_named(self.deviations)}:")
            for one in self.deviations:
                entry = BY_NAME[one.name]
                lines += [f"  the paper  {entry.paper}", f"  here       {entry.instead}"]
            lines += [f"or {_named(other)}, which gives the same numbers" for other in self.others]
            if of:
                lines.append("What follows differs in a way that the catalogue does not have.")
        elif not self.ok:
            first = next(name for name, error in self.errors.items() if error > SINGLE)
            lines.append(f"No deviation of the catalogue explains it; first to differ: {first}.")
        return "\n  ".join(lines)


class Report(NamedTuple):
    """What `check` found.

    Attributes:
        name: of the given code.
        parts: a report for each part of the model that it has.
    """

    name: str
    parts: tuple[PartReport, ...]

    @property
    def ok(self) -> bool:
        """Whether everything equals the authors' numbers, to the rounding of float32."""
        return all(part.ok for part in self.parts)

    @property
    def deviations(self) -> tuple[str, ...]:
        """The names of the deviations, each once."""
        return tuple(dict.fromkeys(one.name for part in self.parts for one in part.deviations))

    @property
    def largest_error(self) -> float:
        return max(error for part in self.parts for error in part.errors.values())

    def __str__(self) -> str:
        verdict = f"{self.name}: equal to the authors' program, largest difference {{:.1e}}"
        if not self.ok:
            named = ", ".join(self.deviations) or "nothing that the catalogue has"
            verdict = f"{self.name}: differs from the authors' program by {{:.1e}}: {named}"
        lines = [verdict.format(self.largest_error), *(str(part) for part in self.parts)]
        if self.deviations:
            lines.append(f"rnnsearch-check --explain {self.deviations[0]} says more.")
        return "\n".join(lines)

    __repr__ = __str__  # which pytest shows of a failed assertion


def check(target: Any, part: str | None = None, framework: str = "numpy") -> Report:
    """Compare code with the authors' numbers; where it differs, name the deviation.

    Args:
        target: a function named for a part of the model (encode, start, energies, weights, context,
            state, readout, step, sentence), or a class, object or module with such functions. The
            manual's page check.md says what each is given and returns.
        part: which part a function computes, if its name does not say so.
        framework: "numpy" or "torch": whose arrays it is given.

    Returns:
        a report: ``assert report.ok, report``.

    Raises:
        UserError: if the code fails, with its file and line, or cannot be compared.
    """
    given = GivenCode(target, part, framework)
    parts = [
        judged(name, given.layouts(name), functools.partial(_run, given, name))
        for name in given.parts
    ]
    layouts = {one.part: one.layout for one in parts}
    if {"encode", "step"} <= layouts.keys() and "sentence" not in layouts:
        composed = _composed(given, layouts)
        if composed is not None:
            known = tuple(dict.fromkeys(one for part in parts for one in part.deviations))
            parts.append(judged("sentence", [[Layout()]], lambda _: composed, known))
    return Report(given.name, tuple(parts))


def judged(
    part: str,
    layouts: Sequence[Sequence[Layout]],
    run: Callable[[Layout], Output],
    known: tuple[Found, ...] = (),
) -> PartReport:
    """Return what is found of a part in the layouts in which it can be run.

    Args:
        run: runs it.
        known: deviations of other parts, which alone may then explain this one.

    Raises:
        UserError: if it runs in none.
    """
    mistake, differing = None, []
    for single, group in itertools.product((False, True), layouts):
        if differing and (single or group[0].rows != "all"):
            break  # without padding, a wrong mask would pass
        reports = []
        for layout in group:
            layout = layout._replace(single=single)
            try:
                output = run(layout)
            except Refused as problem:
                mistake = mistake or problem
                continue
            quantities, remarks = _comparable(part, output)
            errors = _errors(part, quantities, numbers(part))
            found = PartReport(part, layout, errors, remarks=remarks)
            if found.ok:
                return found
            reports.append((found, quantities))
        if explained := _explained(reports, known):
            return explained
        differing += [report for report, _ in reports]
    if not differing:
        raise mistake
    return min(differing, key=lambda report: max(report.errors.values()))


def _run(given: GivenCode, part: str, layout: Layout) -> Output:
    return given.run(part, layout, numbers(part))


def _composed(given: GivenCode, layouts: dict[str, Layout]) -> Output | None:
    """Run sentences through ``encode`` and ``step``, if these return all that it takes."""
    inputs = numbers("sentence")
    found = given.run("encode", layouts["encode"], inputs).quantities
    h = found.get("annotations")
    if "start" not in found and "start" in layouts:
        found |= given.run("start", layouts["start"], {**inputs, "h": h}).quantities
    s, y_prev, steps = found.get("start", inputs["start"]), np.full(len(h), NO_WORD), []
    for y in inputs["y"].T:
        arguments = {"s": s, "y_prev": y_prev, "y": y, "h": h, "mask": inputs["mask"]}
        output = given.run("step", layouts["step"], arguments)
        steps.append(_comparable("step", output)[0])
        if not {"state", "probabilities"} <= steps[-1].keys():
            return None
        s, y_prev = steps[-1]["state"], y
    for name, one in (("states", "state"), ("probabilities", "probabilities")):
        found[name] = np.stack([step[one] for step in steps], 1)
    return Output(found, ())


def _explained(
    attempts: Sequence[tuple[PartReport, Arrays]], known: tuple[Found, ...]
) -> PartReport | None:
    """Return the first report with deviations that reproduce what was returned, fewest first.

    They reproduce all quantities or, if nothing does that, all up to the first that differs.
    """
    for is_whole, number in itertools.product((True, False), (1, 2)):
        for report, quantities in attempts:
            names = list(report.errors)
            first = next(i for i, name in enumerate(names) if report.errors[name] > SINGLE)
            if not is_whole and first + 1 == len(names):
                continue
            wanted = tuple(names if is_whole else names[: first + 1])
            target = {name: quantities[name] for name in wanted}
            if matches := _matches(report.part, report.layout, target, known, number):
                others = {_names(match): match for match in reversed(matches)}
                del others[_names(matches[0])]
                return report._replace(
                    deviations=matches[0], others=tuple(others.values()), explained=wanted
                )
    return None


def _matches(
    part: str, layout: Layout, target: Arrays, known: tuple[Found, ...], number: int
) -> list[tuple[Found, ...]]:
    """Return what reproduces the quantities: all single deviations, or pairs, or `known`."""
    layout = Layout(left=layout.left, rows=layout.rows.replace("no batch axis", "batch of one"))
    if number == 2 and not known:
        found: dict[tuple[Found, ...], float] = {}
        for pair, left in _likely_pairs(part, layout, target).items():
            if found and left > min(found.values()) + DOUBLE:
                break  # those that move the quantities alike lie side by side
            if max(_errors(part, target, _variant(part, layout, pair)).values()) <= SINGLE:
                found[pair] = left
        return list(found)
    errors = {
        found: max(_errors(part, target, _kept_variant(part, layout, found)).values())
        for found in ([known] if known else [(one,) for one in singles()])
        if merged(found) is not None
    }
    bound = DOUBLE if min(errors.values(), default=np.inf) <= DOUBLE else SINGLE
    matches = [found for found, error in errors.items() if error <= bound]
    return sorted(matches, key=lambda found: len(merged(found)))


def _likely_pairs(part: str, layout: Layout, target: Arrays) -> dict[tuple[Found, Found], float]:
    """Return by how much the two differences of each pair miss the target's, smallest first."""

    def flat(arrays: Arrays) -> np.ndarray:
        alike = [
            arrays[name] if name in arrays and arrays[name].shape == array.shape else array * 0
            for name, array in target.items()
        ]
        return np.nan_to_num(np.concatenate([array.ravel() for array in alike]), posinf=0, neginf=0)

    seen = _distinct(part, layout, target)
    faithful = flat(_kept_variant(part, layout, ()))
    moves = {one: flat(_kept_variant(part, layout, (one,))) - faithful for one in seen}
    goal = flat(target) - faithful
    left = {
        (a, b): np.abs(goal - moves[a] - moves[b]).sum()
        for a, b in itertools.combinations(seen, 2)
        if a.name != b.name and merged((a, b)) is not None
    }
    return dict(sorted(left.items(), key=lambda item: item[1]))


def _distinct(part: str, layout: Layout, target: Arrays) -> list[Found]:
    """Return deviations that change the quantities; of places that change them alike, one."""
    faithful, found = _kept_variant(part, layout, ()), {}
    for one in sorted(singles(), key=lambda one: len(one.changes)):
        variant = _kept_variant(part, layout, (one,))
        errors = _errors(part, variant, faithful, target)
        if max(errors.values()) > SINGLE:
            found.setdefault((one.name, *errors.values()), one)
    return list(found.values())


def _variant(part: str, layout: Layout, found: tuple[Found, ...]) -> Arrays:
    model = VariantModel(parameters(), merged(found))
    return run_in_layout(getattr(model, part), part, layout, numbers(part)).quantities


_kept_variant = functools.cache(_variant)


def _errors(
    part: str, quantities: Arrays, others: Arrays, names: Iterable[str] | None = None
) -> dict[str, float]:
    """Return the largest difference of each quantity; infinite if one is missing or not finite."""
    return {
        name: _difference(part, name, quantities.get(name), others.get(name))
        for name in PARTS[part].outputs
        if name in (quantities if names is None else names)
    }


def _difference(part: str, name: str, array: np.ndarray | None, other: np.ndarray | None) -> float:
    if array is None or other is None or array.shape != other.shape:
        return 0.0 if array is other else np.inf
    if name == "context" and array.shape != numbers(part)["context"].shape:
        valid = np.ones_like(array, dtype=bool)
    else:
        valid = counts(part, name)
    if name == "energies":
        array, other = _centred(array, valid), _centred(other, valid)
    difference = np.abs(array - other)[valid].max()
    return float(difference) if np.isfinite(difference) else np.inf


def _centred(energies: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Drop what is added to all energies of a row, as the softmax does."""
    energies = np.where(valid, energies, 0)
    return energies - energies.sum(1, keepdims=True) / valid.sum(1, keepdims=True)


def _comparable(part: str, output: Output) -> tuple[Arrays, tuple[str, ...]]:
    """Bring probabilities into logarithms: they may be given as such, or unnormalised."""
    if "probabilities" not in output.quantities:
        return output
    given, remarks = output.quantities["probabilities"], output.remarks
    with np.errstate(all="ignore"):
        if (given >= 0).all() and any(_sums_to_one(given, axis) for axis in (-1, 0)):
            logs = np.log(given)
        elif _sums_to_one(np.exp(given), 0):
            logs = given
        else:
            top = given.max(-1, keepdims=True)
            logs = given - top - np.log(np.exp(given - top).sum(-1, keepdims=True))
            if np.abs(logs - given)[given.any(-1)].max() > SINGLE:
                remarks = (*remarks, "returns probabilities that do not sum to 1: taken as logits")
    return output.quantities | {"probabilities": logs}, remarks


def _sums_to_one(probabilities: np.ndarray, axis: int) -> bool:
    """Tell of all sums but those of padding, where there is nothing."""
    sums = probabilities.sum(axis)
    return bool(np.allclose(sums[sums != 0], 1, atol=1e-4))


def _names(found: Sequence[Found]) -> tuple[str, ...]:
    return tuple(one.name for one in found)


def _named(found: Sequence[Found]) -> str:
    return " with ".join(
        f"{one.name} ({one.place})" if len(BY_NAME[one.name].places) > 1 else one.name
        for one in found
    )
