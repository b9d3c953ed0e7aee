"""Tables as values, and as Markdown that is also readable in a terminal.

Numbers arrive as text with a fixed number of decimals, so that right alignment aligns the points.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MISSING = "–"


@dataclass(frozen=True)
class Column:
    """A column and what stands above it."""

    head: str
    group: str = ""
    """What stands before the head of neighbouring columns, such as "All: BLEU"."""
    numeric: bool = True
    is_paper: bool = False
    """Whether it has the paper's values, which stand in italics."""


Row = Mapping[Column, str | None]
"""Cells by their columns; there is nothing to show where one is None or missing."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns."""

    rows: Sequence[Row]
    """At least one; the first has all columns, in their order."""
    paper_rows: Sequence[Row] = ()
    """Rows of the paper's that have no counterpart here and stand below, in italics."""
    title: str = ""

    @property
    def columns(self) -> list[Column]:
        return list(self.rows[0])


def fixed(value: float | None, decimals: int, sign: bool = False) -> str | None:
    """Return a number as text with a true minus sign, and None for None."""
    if value is None:
        return None
    return f"{value:{'+' if sign else ''},.{decimals}f}".replace("-", "−")


def span(interval: tuple[float, float], decimals: int, sign: bool = False) -> str:
    """Return an interval as text, ``12.3–14.5``, or ``−0.2 to +0.7`` with signs."""
    return (" to " if sign else "–").join(fixed(end, decimals, sign) for end in interval)


def markdown(table: Table) -> str:
    """Return a table as Markdown whose columns are padded to equal width."""
    padded = []
    for column in table.columns:
        head = escaped(f"{column.group}: {column.head}" if column.group else column.head)
        cells = [_markdown_cell(row.get(column), column.is_paper) for row in table.rows]
        cells += [_markdown_cell(row.get(column), True) for row in table.paper_rows]
        width = max(3, len(head), *map(len, cells))
        rule = "-" * (width - 1) + ":" if column.numeric else "-" * width
        adjusted = str.rjust if column.numeric else str.ljust
        padded.append([adjusted(cell, width) for cell in (head, rule, *cells)])
    lines = [f"| {' | '.join(cells)} |" for cells in zip(*padded, strict=True)]
    title = f"**{escaped(table.title)}**\n\n" if table.title else ""
    return title + "\n".join(lines)


def _markdown_cell(cell: str | None, is_paper: bool) -> str:
    text = escaped(MISSING if cell is None else cell)
    return f"*{text}*" if is_paper and cell else text


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, in one line."""
    text = " ".join(text.split())
    text = re.sub(r"([\\`*\[\]|~$])", r"\\\1", text)
    # An underscore within a word is a letter.
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)
    text = re.sub(r"^([#+>-])(?=\s|$)", r"\\\1", text)
    text = re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", text)
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    return re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", text)
