"""A report as one HTML page that needs no network and no script.

It opens from disk, can be mailed, and follows the reader's choice of a light or a dark page. It is
put together from `report.html` and `report.css` beside this module. Every text that comes from
outside is escaped, and the page's content security policy allows no script and no address.
"""

import html
import re
from pathlib import Path

from fairseq_rnnsearch.evaluation.document import (
    Block,
    Bullets,
    Document,
    Paragraph,
    Picture,
    Pictures,
    Section,
    Signature,
)
from fairseq_rnnsearch.evaluation.inline_svg import inlined
from fairseq_rnnsearch.evaluation.tables import MISSING, Column, Row, Table

_HERE = Path(__file__).parent


def to_html(document: Document) -> str:
    """The whole page."""
    parts = {
        "title": _text(document.title),
        "style": (_HERE / "report.css").read_text(encoding="utf-8"),
        "lead": _text(document.lead),
        "contents": "\n".join(
            f'<li><a href="#{section.anchor}">{_text(section.title)}</a></li>'
            for section in document.sections
        ),
        "sections": "\n".join(map(_section, document.sections)),
        "command": _text(document.command),
    }
    template = (_HERE / "report.html").read_text(encoding="utf-8")
    # In one pass: a sentence that says {{style}} is left alone.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _text(text: str) -> str:
    return html.escape(text)


def _section(section: Section) -> str:
    blocks = "\n".join(map(_block, section.blocks))
    return (
        f'<section id="{section.anchor}">\n<h2>{_text(section.title)}'
        f" <span>{_text(section.subject)}</span></h2>\n{blocks}\n</section>"
    )


def _block(block: Block) -> str:
    match block:
        case Table():
            return _prose(block) if block.prose else _table(block)
        case Paragraph():
            return f"<p>{_text(block.text)}</p>"
        case Signature():
            return f"<pre><code>{_text(block.text)}</code></pre>"
        case Bullets():
            lines = "".join(f"<li>{_text(line)}</li>" for line in block.lines)
            return f'<ul class="remarks">{lines}</ul>'
        case Pictures():
            figures = "\n".join(map(_picture, block.pictures))
            return f'<div class="pictures">{figures}</div>'


def _picture(picture: Picture) -> str:
    svg = inlined(picture.svg, f"{picture.name}-", picture.label)
    caption = f"<figcaption>{_text(picture.caption)}</figcaption>" if picture.caption else ""
    label = html.escape(picture.label)
    box = f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{svg}</div>'
    return f"<figure>{box}{caption}</figure>"


def _prose(table: Table) -> str:
    """Sentences under their labels."""
    rows = "".join(
        f"<div><dt>{_text(label or '')}</dt><dd>{_text(sentence or MISSING)}</dd></div>"
        for label, sentence in (row.cells for row in table.rows)
    )
    return f'<h3>{_text(table.title)}</h3>\n<dl class="prose">{rows}</dl>'


def _table(table: Table) -> str:
    body = "\n".join(_row(row, table.columns) for row in table.rows)
    title = f"<h3>{_text(table.title)}</h3>\n" if table.title else ""
    name = html.escape(table.title or "table")
    return (
        f'{title}<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table>\n'
        f"<thead>{_heads(table.columns)}</thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _heads(columns: tuple[Column, ...]) -> str:
    """One line of heads, or two where columns have groups."""
    lower = "".join(
        f'<th scope="col"{_class(column)}>{_text(column.head)}</th>' for column in columns
    )
    groups: list[tuple[str, int]] = []
    for column in columns:
        if groups and column.group and groups[-1][0] == column.group:
            groups[-1] = (column.group, groups[-1][1] + 1)
        else:
            groups.append((column.group, 1))
    if not any(group for group, _ in groups):
        return f"<tr>{lower}</tr>"
    upper = "".join(
        f'<th scope="colgroup" colspan="{width}" class="group"><span>{_text(group)}</span></th>'
        if group
        else f"<td{_span(width)}></td>"
        for group, width in groups
    )
    return f"<tr>{upper}</tr><tr>{lower}</tr>"


def _span(width: int) -> str:
    return f' colspan="{width}"' if width > 1 else ""


def _row(row: Row, columns: tuple[Column, ...]) -> str:
    head, *cells = row.cells
    first = f'<th scope="row">{_text(head or "")}</th>'
    rest = "".join(_cell(cell, column) for cell, column in zip(cells, columns[1:], strict=True))
    return f"<tr{' class=' + chr(34) + 'theirs' + chr(34) if row.paper else ''}>{first}{rest}</tr>"


def _cell(cell: str | None, column: Column) -> str:
    if cell is None:
        return f"<td{_class(column, 'missing')}>{MISSING}</td>"
    return f"<td{_class(column)}>{_text(cell)}</td>"


def _class(column: Column, further: str = "") -> str:
    names = " ".join(filter(None, ("number" * column.numeric, column.kind, further)))
    return f' class="{names}"' if names else ""
