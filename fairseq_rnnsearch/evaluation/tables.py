"""Tables as values, and as Markdown that is also readable in a terminal.

Numbers arrive as text with a fixed number of decimals, so that right alignment aligns the points.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MISSING = "–"


@dataclass(frozen=True)
class Column:
    """A column and what stands above it."""

    head: str
    group: str = ""
    """Further up, shared with the neighbouring columns of the same group."""
    numeric: bool = True
    kind: str = ""
    """"paper": the paper's values; "minor": intervals and the like. Both in grey."""


@dataclass(frozen=True)
class Row:
    """Cells in the order of the columns; None where there is nothing."""

    cells: tuple[str | None, ...]
    paper: bool = False
    """A row of the paper's that has no counterpart here."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns.

    Raises:
        ValueError: a row that has not a cell for each column.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    prose: bool = False
    """Cells are sentences, to be broken into lines."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{len(row.cells)} cells for {len(self.columns)} columns: {row}")


def fixed(value: float | None, decimals: int, sign: bool = False) -> str | None:
    """A number with a true minus sign, or None."""
    if value is None:
        return None
    return f"{value:{'+' if sign else ''},.{decimals}f}".replace("-", "−")


def span(interval: tuple[float, float] | None, decimals: int, sign: bool = False) -> str | None:
    """An interval, ``12.3–14.5``, or ``−0.2 to +0.7``."""
    if interval is None:
        return None
    return (" to " if sign else "–").join(fixed(end, decimals, sign) for end in interval)


def markdown(table: Table) -> str:
    """A Markdown table, its columns padded to equal width."""
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
    """Text that Markdown shows as it is, in one line."""
    text = " ".join(text.split())
    text = re.sub(r"([\\`*\[\]|~$])", r"\\\1", text)
    # within a word an underscore is a letter
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)
    text = re.sub(r"^([#+>-]|\d+[.)])(?=\s|$)", r"\\\1", text)
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    return re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", text)
