"""Tables as values, and as Markdown that is also readable in a terminal.

Numbers arrive as text with a fixed number of decimals, so that right alignment aligns the points.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

MISSING = "–"


@dataclass(frozen=True)
class Column:
    """A column and what stands above it."""

    head: str
    group: str = ""
    """A head further up, shared with the neighbouring columns of the same group."""
    numeric: bool = True
    kind: str = ""
    """"paper": the paper's values; "minor": intervals and the like. Both are shown in grey."""


@dataclass(frozen=True)
class Row:
    """Cells in the order of the columns; None where there is nothing to show."""

    cells: tuple[str | None, ...]
    paper: bool = False
    """Whether the row is the paper's and has no counterpart here."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns.

    Raises:
        ValueError: a row has not one cell for each column.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    prose: bool = False
    """Whether the cells are sentences, to be broken into lines."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{len(row.cells)} cells for {len(self.columns)} columns: {row}")

    def groups(self) -> list[tuple[str, int]]:
        """Return the heads further up, each with its number of columns."""
        found = groupby(column.group for column in self.columns)
        return [(group, len(list(columns))) for group, columns in found]


def fixed(value: float | None, decimals: int, sign: bool = False) -> str | None:
    """Return a number as text with a true minus sign, and None for None."""
    if value is None:
        return None
    return f"{value:{'+' if sign else ''},.{decimals}f}".replace("-", "−")


def span(interval: tuple[float, float] | None, decimals: int, sign: bool = False) -> str | None:
    """Return an interval as text, ``12.3–14.5``, or ``−0.2 to +0.7`` with signs."""
    if interval is None:
        return None
    return (" to " if sign else "–").join(fixed(end, decimals, sign) for end in interval)


def markdown(table: Table) -> str:
    """Return a table as Markdown whose columns are padded to equal width."""
    heads = [
        escaped(f"{column.group}: {column.head}" if column.group else column.head)
        for column in table.columns
    ]
    rows = [
        [
            _markdown_cell(cell, column, row)
            for cell, column in zip(row.cells, table.columns, strict=True)
        ]
        for row in table.rows
    ]
    widths = [max(3, *map(len, cells)) for cells in zip(heads, *rows, strict=True)]
    rule = [
        "-" * (width - 1) + ":" if column.numeric else "-" * width
        for column, width in zip(table.columns, widths, strict=True)
    ]
    lines = [_padded(cells, widths, table.columns) for cells in (heads, rule, *rows)]
    title = f"**{escaped(table.title)}**\n\n" if table.title else ""
    return title + "\n".join(lines)


def _markdown_cell(cell: str | None, column: Column, row: Row) -> str:
    text = escaped(MISSING if cell is None else cell)
    grey = (row.paper or column.kind == "paper") and cell
    return f"*{text}*" if grey else text  # Markdown has no grey


def _padded(cells: Sequence[str], widths: Sequence[int], columns: Iterable[Column]) -> str:
    padded = (
        cell.rjust(width) if column.numeric else cell.ljust(width)
        for cell, width, column in zip(cells, widths, columns, strict=True)
    )
    return "| " + " | ".join(padded) + " |"


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
