"""Whether given code computes what the authors' program computed, and if not, what it computes."""

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairseq_rnnsearch.conformance.authors_numbers import PARTS, Arrays, counts, numbers, parameters
from fairseq_rnnsearch.conformance.catalogue import BY_NAME, PlacedDeviation
from fairseq_rnnsearch.conformance.given_code import GivenCode, Layout, Refused
from fairseq_rnnsearch.conformance.matching import (
    SINGLE,
    Explanation,
    differences,
    expected,
    matches,
    measured,
    transformation,
    vectors,
)
from fairseq_rnnsearch.errors import UserError

ALONE = "one sentence at a time it is equal, in a batch it is not"


class PartReport(NamedTuple):
    """What was found of one part.

    Attributes:
        layout: in which it was run.
        errors: largest difference from the authors' number, for each quantity returned.
        outputs: what it returned, by name, batch first; probabilities in logarithms.
        explanation: what explains the differences; empty if there are none, or nothing does.
        others: explanations that give the same numbers.
        explained: the quantities that the explanation reproduces.
        findings: what was measured of the first difference that is not explained.
        refusal: why it cannot be run or compared; there are no errors then.
    """

    part: str
    layout: Layout
    errors: dict[str, float]
    outputs: Arrays
    explanation: Explanation = ()
    others: tuple[Explanation, ...] = ()
    explained: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def ok(self) -> bool:
        return not self.refusal and max(self.errors.values()) <= SINGLE

    @property
    def deviations(self) -> Explanation:
        """The explanation if it reproduces everything; otherwise the code is only as if."""
        return self.explanation if len(self.explained) == len(self.errors) else ()

    def __str__(self) -> str:
        if self.refusal:
            return f"{self.part} cannot be run\n  {self.refusal}"
        lines = [f"{self.part}, {self.layout}"]
        for name, error in self.errors.items():
            same = "equal to rounding" if error <= SINGLE else "DIFFERS"
            lines.append(f"{name:<22} {same}, largest difference {error:.1e}")
        if self.explanation:
            of = "This is" if self.deviations else f"Up to {self.explained[-1]}, it is as if"
            lines.append(f"{of} {_named(self.explanation)}:")
            for name in dict.fromkeys(_names(self.explanation)):
                entry = BY_NAME[name]
                lines += [f"  the program  {entry.program}", f"  here         {entry.instead}"]
            lines += [f"or {_named(other)}, which gives the same numbers" for other in self.others]
        if not self.ok and not self.deviations:
            what = "what follows" if self.explanation else _first(self.errors)
            lines.append(f"Nothing in the catalogue explains {what}.")
            lines += [f"Measured: {finding}." for finding in self.findings]
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
            verdict += "".join(
                f"; padding was not tried: {one.part}, {one.layout}"
                for one in self.parts
                if one.ok and one.layout.rows != "all"
            )
        else:
            found = (one for part in self.parts if not part.ok for one in part.findings)
            named = ", ".join(self.deviations) or next(
                found, "nothing in the catalogue explains it"
            )
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
    found = [_run(given, name) for name in given.parts]
    orders = {
        first.layout.time_first
        for first, *_ in found
        if first.ok and "mask" in PARTS[first.part].inputs
    }
    parts = [
        _explained(given, [one for one in of_part if one.layout.time_first in orders] or of_part)
        for of_part in found
    ]
    if all(one.refusal for one in parts):
        refusals = "; ".join(f"{one.part}: {one.refusal}" for one in parts)
        raise UserError(f"{given.name}: {refusals}" if len(parts) > 1 else parts[0].refusal)
    return Report(given.name, tuple(parts))


def _attempt(given: GivenCode, part: str, layout: Layout) -> PartReport:
    outputs = _in_logarithms(given.run(part, layout, numbers(part)))
    errors = differences(vectors(part, outputs), expected(part, layout))
    return PartReport(part, layout, errors, outputs)


def _run(given: GivenCode, part: str) -> list[PartReport]:
    """Run a part in the layouts in which it can be run; return reports to choose from.

    It is one report if the part is right, or cannot be run.
    """
    mistakes, found, knows_padding = {}, [], given.knows_padding(part)
    for single, layout in itertools.product((False, True), given.layouts(part)):
        if found and (
            single != found[0].layout.single
            or (knows_padding and layout.rows != found[0].layout.rows == "all")  # a wrong mask
            or (layout.rows == "no batch axis" and any(ALONE in one.findings for one in found))
        ):
            break
        layout = layout._replace(single=single)
        try:
            report = _attempt(given, part, layout)
            if report.ok and layout.rows == "batch of one":
                layout = layout._replace(rows="one length")
                report = _attempt(given, part, layout)._replace(findings=(ALONE,))
        except Refused as problem:
            mistakes.setdefault(single, f"{problem} ({layout})")
            if layout.rows != "one length" or problem.__cause__ is None:
                continue  # also what returns no batch
            refusal = f"{problem} ({layout}); {ALONE}"
            report = PartReport(part, layout, {}, {}, findings=(ALONE,), refusal=refusal)
        if report.ok and layout.rows == "one length" and knows_padding:
            report = report._replace(refusal=mistakes.get(single, ""))
        if report.ok:
            return [report]
        if knows_padding or layout.rows != "all":
            found.append(report)
    if not found:
        refusal = mistakes[False]
        if mistakes[True].replace(", float32", "") != refusal:  # float32 code fails otherwise
            refusal += f"; {mistakes[True]}"
        found = [PartReport(part, Layout(), {}, {}, refusal=refusal)]
    return [report for report in found if report.findings][:1] or found


def _explained(given: GivenCode, reports: Sequence[PartReport]) -> PartReport:
    """Name the deviations that reproduce what was returned, or measure what nothing explains."""
    if reports[0].ok or reports[0].refusal:
        return reports[0]
    reports = sorted(reports, key=_share_wrong)
    report = _catalogued(reports) or reports[0]
    left = [n for n, e in report.errors.items() if e > SINGLE and n not in report.explained]
    if report.deviations or report.findings or not left or np.isinf(report.errors[left[0]]):
        return report
    return report._replace(findings=tuple(_measured(given, report, left[0])))


def _share_wrong(report: PartReport) -> float:
    authors = expected(report.part, report.layout)
    pairs = [(own, authors[name]) for name, own in vectors(report.part, report.outputs).items()]
    return np.mean([a.shape != b.shape or np.mean(~(np.abs(a - b) <= SINGLE)) for a, b in pairs])


def _measured(given: GivenCode, report: PartReport, name: str) -> list[str]:
    """Return what can be measured of a quantity, also by running the code again."""
    part, layout, own = report.part, report.layout, report.outputs[name]
    gaps = np.where(counts(part, name), np.abs(own - numbers(part)[name]), 0)
    nudged = (
        {n: a * (1 + 1e-6) if a.dtype.kind == "f" else a for n, a in arrays.items()}
        for arrays in (numbers(part), parameters())
    )
    facts = measured(part, name, own)
    with contextlib.suppress(Refused):
        again = _attempt(given, part, layout).outputs[name]
        same = _in_logarithms(given.run(part, layout, *nudged))[name] == own
        if not np.allclose(again, own, atol=SINGLE, equal_nan=True):
            facts = ["two runs give different numbers: something is random, such as dropout"]
        elif not facts and gaps.max() < 0.02 and same[gaps > 0.5 * gaps.max()].mean() > 0.5:
            facts = ["numbers are rounded, as in half precision"]
        alone = _attempt(given, part, layout._replace(rows="batch of one"))
        if layout.rows == "all" and alone.errors[name] <= SINGLE:
            facts.append(f"{ALONE}: padding or other sentences change it")
    return facts


def _catalogued(reports: Sequence[PartReport]) -> PartReport | None:
    """Return the first report with deviations that reproduce what was returned, fewest first.

    They reproduce all quantities or, if nothing does that, one reproduces all up to the first that
    differs.
    """
    for is_whole, number in ((True, 1), (True, 2), (False, 1)):
        for report in reports:
            part, outputs, names = report.part, report.outputs, tuple(report.errors)
            first = _first(report.errors)
            wanted = names if is_whole else names[: names.index(first) + 1]
            is_known = report.findings or (  # and in less time
                np.isfinite(report.errors[first])
                and (first,) == names
                and transformation(part, first, outputs[first])
            )
            if (number == 2 and is_known) or (not is_whole and wanted == names):
                continue  # the latter was tried before
            target = vectors(part, {name: outputs[name] for name in wanted})
            if explanations := matches(part, report.layout, target, number):
                others = {_names(one): one for one in reversed(explanations)}
                del others[_names(explanations[0])]
                return report._replace(
                    explanation=explanations[0], others=tuple(others.values()), explained=wanted
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
