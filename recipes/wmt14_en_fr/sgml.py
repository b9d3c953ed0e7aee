"""Read test sets in the SGML of WMT and NIST: segments in documents, in their order.

The format is not XML: attributes may be unquoted, and & or < may be literal. Segments with the same
document name and number translate each other. Both files must have the same segments in the same
order, numbered 1, 2, 3 and so on in each document, so that a lost one is noticed.
"""

import html
import re
from pathlib import Path

from fairseq_rnnsearch.errors import UserError

# Only these are tags; any other < belongs to the text.
_TAG = re.compile(r"<(/?)(doc|seg)\b([^<>]*)>", re.IGNORECASE)
_OTHER_TAG = re.compile(r"</?(?:srcset|refset|tstset|mteval|hl|p|doc|seg)\b", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
# An entity has its semicolon: "?a=1&copy=2" holds no copyright sign.
_ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")

Segments = dict[tuple[str, int], str]
"""The text of each segment by its document and number, in the order of the file."""


def read_segments(path: Path) -> Segments:
    """Read all segments of a file; entities are resolved, and a line break becomes a space.

    Raises:
        UserError: the file cannot be read or has no segment, or a segment is outside of a document,
            not ended, without number, out of order or lost.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as problem:
        raise UserError(f"{path} cannot be read: {problem}") from problem
    reader = _Reader(content)
    for tag in _TAG.finditer(content):
        try:
            reader.take(tag)
        except UserError as mistake:
            line = content.count("\n", 0, tag.start()) + 1
            raise UserError(f"{path}, line {line}: {mistake}") from mistake
    if reader.open is not None:
        raise UserError(f"{path}: {reader.open} is not ended; is the file whole?")
    if not reader.segments:
        raise UserError(f"{path} has no <seg>; expected a test set in SGML")
    return reader.segments


class _Reader:
    """Takes one tag after the other; its messages do not say where in the file."""

    def __init__(self, content: str) -> None:
        self.segments: Segments = {}
        self._content = content
        self._documents: set[str] = set()
        self._document: str | None = None
        self._segment: int | None = None  # the one that is open
        self._begin = 0  # where its text begins
        self._expected = 1

    @property
    def open(self) -> str | None:
        """What still has to be ended, in words, or None."""
        if self._segment is not None:
            return f"segment {self._segment} of {self._document}"
        return None if self._document is None else f"document {self._document}"

    def take(self, tag: re.Match) -> None:
        """Go on to the next tag.

        Raises:
            UserError: it should not stand here.
        """
        closing, name = bool(tag[1]), tag[2].lower()
        if self._segment is not None and (name, closing) != ("seg", True):
            raise UserError(f"{self.open} is not ended by </seg>")
        if name == "seg":
            (self._end_segment if closing else self._begin_segment)(tag)
        elif closing:
            self._document = None
        else:
            self._begin_document(tag)

    def _begin_document(self, tag: re.Match) -> None:
        self._document, self._expected = _attribute(tag, "docid"), 1
        if not self._document:
            raise UserError(f"{tag[0][:60]} has no docid")
        if self._document in self._documents:
            raise UserError(f"a second document {self._document}")
        self._documents.add(self._document)

    def _begin_segment(self, tag: re.Match) -> None:
        if self._document is None:
            raise UserError("a segment outside of a document")
        number = _attribute(tag, "id")
        if not re.fullmatch("[0-9]+", number):
            raise UserError(f"{tag[0][:60]} has no number")
        if int(number) != self._expected:
            raise UserError(
                f"segment {number} of {self._document} where {self._expected} should be"
            )
        self._segment, self._begin = int(number), tag.end()
        self._expected += 1

    def _end_segment(self, tag: re.Match) -> None:
        if self._segment is None:
            raise UserError("</seg> without <seg>")
        text = self._content[self._begin : tag.start()]
        if stray := _OTHER_TAG.search(text):
            raise UserError(f"{stray[0]}> within {self.open}")
        self.segments[self._document, self._segment] = _plain(text)
        self._segment = None


def read_pair(source: Path, target: Path) -> list[tuple[str, str]]:
    """Read the sentence pairs of two files.

    Raises:
        UserError: as from `read_segments`; or the files have different segments, or the same ones
            in different orders.
    """
    first, second = read_segments(source), read_segments(target)
    for mine, others, lacking in ((first, second, target), (second, first, source)):
        for document, number in mine:
            if (document, number) not in others:
                raise UserError(f"{lacking} lacks segment {number} of {document}")
    for ours, other in zip(first, second, strict=True):
        if ours != other:
            raise UserError(
                f"{target} has segment {other[1]} of {other[0]} where {source} has {ours[1]} of"
                f" {ours[0]}"
            )
    return list(zip(first.values(), second.values(), strict=True))


def _attribute(tag: re.Match, name: str) -> str:
    """Return the value of an attribute, or nothing."""
    attributes = {key.lower(): value.strip("\"'") for key, value in _ATTRIBUTE.findall(tag[3])}
    return html.unescape(attributes.get(name, ""))


def _plain(text: str) -> str:
    """Resolve entities, and join words by single spaces."""
    return " ".join(_ENTITY.sub(lambda entity: html.unescape(entity[0]), text).split())
