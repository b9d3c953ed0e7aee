"""Pairs of sentences in two files, or in one whose columns are separated by tabs."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.text.corpus import checked_lines, in_parallel, lines_as_they_come, opened

_TABLE = re.compile(r"\.tsv(?:\.txt)?(?:\.(?:gz|bz2|xz|lzma))?$")
# a line of a table whose fields are quoted if they need it, or all, as Python's csv writes it
_FIELD = r'"(?:[^"]|"")*"|[^"\t]*'
_QUOTED_LINE = re.compile(rf"(?:{_FIELD})(?:\t(?:{_FIELD}))*")
_QUOTED_FIELD = re.compile(rf"(?:^|\t)({_FIELD})")
# files of pairs that are no such table, by their first lines, and how to make one of them
_XML = (
    "import sys, xml.etree.ElementTree as X; "
    "[print(*(' '.join(''.join(t.itertext()).split()) for t in u.iter() "
    "if t.tag.split('}')[-1] in ('seg', 'source', 'target')), sep='\\t') "
    "for _, u in X.iterparse(sys.stdin.buffer) "
    "if u.tag.split('}')[-1] in ('tu', 'trans-unit', 'segment')]"
)
_CSV = "import csv, sys; csv.writer(sys.stdout, 'excel-tab').writerows(csv.reader(sys.stdin"
_OTHER_FORMATS = {
    r"\s*<(?s:.*)": ("XML, such as TMX or XLIFF", f'python -c "{_XML}"'),
    r'\[\s*"(?s:.*)': ("JSON, a list for each pair", "jq -r @tsv"),
    r"[{\[](?s:.*)": (
        "JSON with fields such as en and fr",
        "jq -r '.. | objects | select(has(\"en\")) | [.en, .fr] | @tsv'",
    ),
    r"(?:.* \|\|\| .*\n?)+": ("separated by |||", r"perl -pe 's/ \|\|\| /\t/'"),
    r"(?:[^;\n]+;.*\n?)+": ("separated by semicolons", f"python -c \"{_CSV}, delimiter=';'))\""),
    r"(?:[^,\n]+,.*\n?)+": ("separated by commas", f'python -c "{_CSV}))"'),
}


def is_table(path: str) -> bool:
    """Tell whether a file's name says that its columns are separated by tabs."""
    return bool(_TABLE.search(path))


def rows_of(
    path: Path,
    has_symbols: bool = False,
    mistakes: list[UserError] | None = None,
    notes: list[str] | None = None,
) -> list[list[str]]:
    """Return the columns of each line of a table, which may be compressed.

    They are separated by tabs. If the fields are quoted, as csv does it, they lose these marks.

    Args:
        has_symbols, mistakes: as for `lines_as_they_come`.
        notes: if given, it receives a sentence about the quotation marks.

    Raises:
        UserError: as from `checked_lines`; or most lines have no tab.
    """
    with opened(path) as file:
        checked = lines_as_they_come(file, str(path), has_symbols, mistakes)
        lines = [line.rstrip("\r\n") for line in checked]
    without = [number for number, line in enumerate(lines, start=1) if line and "\t" not in line]
    if 2 * len(without) > len(lines):
        raise UserError(
            f"{path}, line {without[0]}: no tab, as in {len(without):,} of"
            f" {pluralize(len(lines), 'line')}; expected a sentence, a tab, and its translation"
            + _conversion_of(path, lines[:20])
        )
    if all(map(_QUOTED_LINE.fullmatch, lines)) and (
        any('""' in line for line in lines) or all(line.startswith('"') for line in lines)
    ):
        if notes is not None:
            notes.append(f"{path}: quotation marks around fields, as csv writes them, are no text")
        fields = map(_QUOTED_FIELD.findall, lines)
        return [
            [one[1:-1].replace('""', '"') if one.startswith('"') else one for one in row]
            for row in fields
        ]
    return [line.split("\t") for line in lines]


def _conversion_of(path: Path, lines: Sequence[str]) -> str:
    """Say what a file of pairs seems to be, and how to make a table of it."""
    for pattern, (name, command) in _OTHER_FORMATS.items():
        if re.fullmatch(pattern, "\n".join(lines)):
            return (
                f". It seems to be {name}; convert it, for example with"
                f" `{command} < {path} > pairs.tsv`"
            )
    return ""


def pairs_in(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield each line of a text with its translation, from two files or a table's two columns.

    Files may be compressed.

    Raises:
        UserError: as from `checked_lines`, `check_equally_long` or `rows_of`.
    """
    if len(files) == 2:
        yield from in_parallel(files, *(checked_lines(file, may_be_packed=True) for file in files))
        return
    for number, row in enumerate(rows_of(files[0]), start=1):
        if len(row) < 2:
            raise UserError(f"{files[0]}, line {number}: no tab")
        yield row[0], row[1]
