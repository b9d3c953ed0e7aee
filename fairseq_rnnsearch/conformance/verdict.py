"""Whether given code computes what the authors' program computed, and if not, what it computes."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairseq_rnnsearch.conformance.authors_numbers import Arrays, numbers
from fairseq_rnnsearch.conformance.catalogue import BY_NAME, PlacedDeviation
from fairseq_rnnsearch.conformance.given_code import GivenCode, Layout, Refused
from fairseq_rnnsearch.conformance.matching import (
    SINGLE,
    Explanation,
    differences,
    matches,
    vectors,
)
from fairseq_rnnsearch.errors import UserError


class PartReport(NamedTuple):
    """What was found of one part.

    Attributes:
        layout: in which it was run.
        errors: largest difference from the authors' number, for each quantity returned.
        deviations: what explains the differences; empty if there are none, or nothing does.
        others: explanations that give the same numbers.
        explained: the quantities that the deviations reproduce.
        refusal: why it cannot be run or compared; there are no errors then.
    """

    part: str
    layout: Layout
    errors: dict[str, float]
    deviations: Explanation = ()
    others: tuple[Explanation, ...] = ()
    explained: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def ok(self) -> bool:
        return not self.refusal and max(self.errors.values()) <= SINGLE

    def __str__(self) -> str:
        if self.refusal:
            return f"{self.part} cannot be run\n  {self.refusal}"
        lines = [f"{self.part}, {self.layout}"]
        for name, error in self.errors.items():
            same = "equal to rounding" if error <= SINGLE else "DIFFERS"
            lines.append(f"{name:<22} {same}, largest difference {error:.1e}")
        if self.deviations:
            is_whole = len(self.explained) == len(self.errors)
            of = "This" if is_whole else f"Up to {self.explained[-1]}, this"
            lines.append(f"{of} is {_named(self.deviations)}:")
            for name in dict.fromkeys(_names(self.deviations)):
                entry = BY_NAME[name]
                lines += [f"  the program  {entry.program}", f"  here         {entry.instead}"]
            lines += [f"or {_named(other)}, which gives the same numbers" for other in self.others]
            if not is_whole:
                lines.append("Nothing in the catalogue explains what follows: check it by itself.")
        elif not self.ok:
            first = _first(self.errors)
            lines.append(f"Nothing in the catalogue explains this; {first} is the first to differ.")
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

    @property
    def refused(self) -> tuple[str, ...]:
        """The parts that cannot be run."""
        return tuple(part.part for part in self.parts if part.refusal)

    def __str__(self) -> str:
        if all(part.ok or part.refusal for part in self.parts):
            but = f"all but {', '.join(self.refused)} is " if self.refused else ""
            verdict = f"{but}equal to the authors' program, largest difference {{:.1e}}"
        else:
            named = ", ".join(self.deviations) or "nothing in the catalogue explains it"
            verdict = f"differs from the authors' program by {{:.1e}}: {named}"
        lines = [f"{self.name}: {verdict.format(self.largest_error)}", *map(str, self.parts)]
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
        UserError: if none of the code can be run, with its file and line, or compared.
    """
    given = GivenCode(target, part, framework)
    parts = [_report_of(given, name) for name in given.parts]
    if all(one.refusal for one in parts):
        refusals = "; ".join(f"{one.part}: {one.refusal}" for one in parts)
        raise UserError(f"{given.name}: {refusals}" if len(parts) > 1 else parts[0].refusal)
    return Report(given.name, tuple(parts))


def _report_of(given: GivenCode, part: str) -> PartReport:
    """Check a part in the layouts in which it can be run, or say why it runs in none."""
    mistakes, differing = {}, []
    for single, group in itertools.product((False, True), given.layouts(part)):
        for layout in group:
            layout = layout._replace(single=single)
            try:
                outputs = vectors(part, _in_logarithms(given.run(part, layout, numbers(part))))
            except Refused as problem:
                mistakes.setdefault(single, f"{problem} ({layout})")
                continue
            report = PartReport(part, layout, differences(outputs, vectors(part, numbers(part))))
            if report.ok:
                return report
            differing.append((report, outputs))
        if differing:
            break  # without padding, a wrong mask would pass
    if not differing:
        message, in_single = mistakes[False], mistakes[True]
        if in_single.replace(", float32", "") != message:  # float32 code fails otherwise in float64
            message += f"; {in_single}"
        return PartReport(part, Layout(), {}, refusal=message)
    closest = min((report for report, _ in differing), key=lambda one: max(one.errors.values()))
    return _explained(differing) or closest


def _explained(attempts: Sequence[tuple[PartReport, Arrays]]) -> PartReport | None:
    """Return the first report with deviations that reproduce what was returned, fewest first.

    They reproduce all quantities or, if nothing does that, all up to the first that differs.
    """
    for is_whole, number in itertools.product((True, False), (1, 2)):
        for report, outputs in attempts:
            names = tuple(outputs)
            first = names.index(_first(report.errors))
            wanted = names if is_whole else names[: first + 1]
            if not is_whole and wanted == names:
                continue  # tried before
            target = {name: outputs[name] for name in wanted}
            if explanations := matches(report.part, report.layout, target, number):
                others = {_names(one): one for one in reversed(explanations)}
                del others[_names(explanations[0])]
                return report._replace(
                    deviations=explanations[0], others=tuple(others.values()), explained=wanted
                )
    return None


def _in_logarithms(quantities: Arrays) -> Arrays:
    """Bring probabilities into logarithms: they may be given as such, unnormalised, or as costs."""
    quantities = dict(quantities)
    for name in ("word_log_probabilities", "log_likelihood"):
        if name in quantities and quantities[name].min() >= 0 and quantities[name].max() > 1:
            quantities[name] = -quantities[name]
    if "probabilities" in quantities:
        given = quantities["probabilities"]
        with np.errstate(all="ignore"):
            if not (given < 0).any() and any(_sums_to_one(given, axis) for axis in (-1, 0, None)):
                given = np.log(given)
            elif not any(_sums_to_one(np.exp(given), axis) for axis in (0, None)):
                given = given - given.max(-1, keepdims=True)
                given = given - np.log(np.exp(given).sum(-1, keepdims=True))
        quantities["probabilities"] = given
    return quantities


def _sums_to_one(probabilities: np.ndarray, axis: int | None) -> bool:
    """Tell whether all sums are one, except those of padding, which are zero, and NaN."""
    sums = probabilities.sum(axis, keepdims=True)
    return bool(np.allclose(sums[(sums != 0) & ~np.isnan(sums)], 1, atol=0.02))  # sums in bfloat16


def _first(errors: dict[str, float]) -> str:
    """Return the first quantity that differs."""
    return next(name for name, error in errors.items() if error > SINGLE)


def _names(explanation: Sequence[PlacedDeviation]) -> tuple[str, ...]:
    return tuple(one.name for one in explanation)


def _named(explanation: Sequence[PlacedDeviation]) -> str:
    return " with ".join(
        f"{one.name} ({one.place})" if len(BY_NAME[one.name].places) > 1 else one.name
        for one in explanation
    )
