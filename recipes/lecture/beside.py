"""Show equations beside the lines of code that compute them, read from the code itself."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Row(NamedTuple):
    """One line of a table.

    Attributes:
        equation: in TeX, without dollars.
        code: the function or method that computes it.
        mark: what exactly one line of its source contains, such as the name that it sets.
    """

    equation: str
    code: Callable
    mark: str


def line_of(code: Callable, mark: str) -> tuple[str, str]:
    """Return the one line of a function that contains a mark, and where it stands, ``file, name``.

    Raises:
        ValueError: when no line, or more than one, contains the mark.
    """
    matching = [line for line in inspect.getsourcelines(code)[0] if mark in line]
    if len(matching) != 1:
        raise ValueError(
            f"{code.__qualname__}: {len(matching)} lines contain {mark!r}, must be one"
        )
    path = Path(inspect.getsourcefile(inspect.unwrap(code))).resolve()
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
    return matching[0].strip(), f"{place}, {code.__qualname__}"


class Beside:
    """A table that a notebook shows: equations on the left, the code of each on the right."""

    def __init__(self, rows: Sequence[tuple[str, Callable, str]]) -> None:
        self.rows = [Row(*row) for row in rows]

    def _repr_markdown_(self) -> str:
        lines = ["| the paper | the program |", "|:---|:---|"]
        for row in self.rows:
            code, place = line_of(row.code, row.mark)
            code = code.replace("|", r"\|")  # which would begin another column
            equation = rf"$\displaystyle {{{row.equation}}}$"
            lines.append(f"| {equation} | `{code}`<br><small>{place}</small> |")
        return "\n".join(lines)
