"""What a report consists of, and the report as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_rnnsearch.evaluation.tables import Table, escaped, markdown


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Signature:
    """How a score was made: shown as code."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of short remarks."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A figure, which the page holds as SVG and the Markdown file as a link."""

    name: str
    """Of its file, without suffix."""
    svg: str
    label: str
    """What it shows, for those who cannot see it."""
    caption: str = ""


@dataclass(frozen=True)
class Pictures:
    """Figures side by side, where there is room."""

    pictures: tuple[Picture, ...]


Block = Paragraph | Signature | Bullets | Pictures | Table


@dataclass(frozen=True)
class Section:
    """A table or figure of the paper, and what belongs to it."""

    anchor: str
    title: str
    subject: str
    """Beside the title: what it is about."""
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """The whole report."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    command: str
    """With which it was made."""


def to_markdown(document: Document, folder: str) -> str:
    """The report as GitHub's Markdown.

    Args:
        document: the report.
        folder: of the pictures, as seen from the report.
    """
    parts = [f"# {escaped(document.title)}", escaped(document.lead)]
    for section in document.sections:
        parts.append(f"## {escaped(section.title)}: {escaped(section.subject)}")
        parts += [_block(block, folder) for block in section.blocks]
    parts += ["## Command", _code(document.command)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block, folder: str) -> str:
    match block:
        case Table():
            return markdown(block)
        case Paragraph():
            return escaped(block.text)
        case Signature():
            return _code(block.text)
        case Bullets():
            return "\n".join(f"- {escaped(line)}" for line in block.lines)
        case Pictures():
            return "\n\n".join(_linked(picture, folder) for picture in block.pictures)


def _linked(picture: Picture, folder: str) -> str:
    image = f"![{escaped(picture.label)}]({folder}/{picture.name}.svg)"
    return image + (f"\n\n*{escaped(picture.caption)}*" if picture.caption else "")


def _code(text: str) -> str:
    """Indented, so that nothing in it can end the block."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def pictures(sections: Sequence[Section]) -> list[Picture]:
    return [
        picture
        for section in sections
        for block in section.blocks
        if isinstance(block, Pictures)
        for picture in block.pictures
    ]
