"""Write many alignments to one folder, in the formats that the user chooses.

png, pdf, svg    one picture a sentence: ``sentence0017.png``
text             one file a sentence, drawn with characters: ``sentence0017.txt``
html             one page for all: ``index.html``
jsonl            the weights: ``alignments.jsonl``, see the module `jsonl`
pharaoh          the best source word of each target word: ``alignments.pharaoh``, one line a
                 sentence, ``0-0 1-2 ...`` with the source first, counted from 0

A PNG of 20 words takes some 8 ms, so that a test set of 3,000 sentences is drawn within half a
minute; a PDF or an SVG takes 200 ms.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import IO

from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.heatmap import save_heatmap
from fairseq_rnnsearch.figures.jsonl import json_line
from fairseq_rnnsearch.figures.page import Page
from fairseq_rnnsearch.figures.pictures import FORMATS as PICTURES
from fairseq_rnnsearch.figures.pictures import PLAIN, Look
from fairseq_rnnsearch.figures.terminal import text_heatmap
from fairseq_rnnsearch.files import remove_unfinished, replacing, write_text

TEXT_WIDTH = 120
PAGE = "index.html"

# The formats that put one line a sentence into one file.
LINES = {"jsonl": "alignments.jsonl", "pharaoh": "alignments.pharaoh"}
FORMATS = (*PICTURES, "text", "html", *LINES)

# The files of a gallery, of any formats.
_FILES = re.compile(r"sentence\d+\.(png|pdf|svg|txt)|index\.html|alignments\.(jsonl|pharaoh)")


def parse_formats(text: str) -> tuple[str, ...]:
    """Read a list of formats such as ``"png,html"``.

    Raises:
        UserError: naming the first that is unknown.
    """
    formats = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in formats:
        if name not in FORMATS:
            raise UserError(f"heatmap format {name!r} is unknown: choose from {', '.join(FORMATS)}")
    return formats


def parse_samples(text: str) -> Container[int]:
    """Read ``--heatmap-samples``: "20", the first twenty; "all"; or "ids:3,17", these two.

    Returns:
        The numbers of the chosen sentences, which count from 1 in the order of the data set.
    """
    text = str(text).strip()
    if text.startswith("ids:"):
        return frozenset(map(int, text.removeprefix("ids:").split(",")))
    return range(1, sys.maxsize if text == "all" else int(text) + 1)


class Gallery:
    """Writes alignments one by one, in memory that does not grow with their number.

    A picture is there once it is drawn; the other files appear when the block ends, and not at all
    if it ends with an error or Ctrl-C::

        with Gallery(folder, ("png", "jsonl")) as gallery:
            for alignment in alignments:
                gallery.add(alignment)

    Args:
        folder: created if missing.
        formats: some of ``FORMATS``.
        look: the style of pictures and page, and the page's title.
        threshold: of pharaoh's links, see `Alignment.links`.
        replaces: whether the files of an earlier gallery in the folder go, once the block ends
            without an error.

    Raises:
        UserError: when something cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        formats: Sequence[str],
        look: Look = PLAIN,
        threshold: float | None = None,
        replaces: bool = False,
    ) -> None:
        self._folder = Path(folder)
        self._formats = tuple(formats)
        self._look, self._threshold = look, threshold
        self._replaces = replaces
        self._lines: dict[str, IO[str]] = {}
        self._page: Page | None = None
        self._unfinished: list[Path] = []
        self._written: set[str] = set()

    def __enter__(self) -> Gallery:
        self._folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(self._folder)
        with contextlib.ExitStack() as files:
            for name in LINES:
                if name in self._formats:
                    unfinished = files.enter_context(replacing(self._folder / LINES[name]))
                    self._written.add(LINES[name])
                    self._unfinished.append(unfinished)
                    # Lone surrogates stand in it as in JSON.
                    file = unfinished.open("w", encoding="utf-8", errors="backslashreplace")
                    self._lines[name] = files.enter_context(file)
            if "html" in self._formats:
                sentences = files.enter_context(tempfile.TemporaryFile())
                self._page = Page(self._folder / PAGE, self._look, sentences)
            self._files = files.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._files:
            if kind is not None:
                for path in self._unfinished:
                    path.unlink(missing_ok=True)
                return
            if self._page and not self._page.is_empty:
                self._page.finish()
                self._written.add(PAGE)
        for path in self._folder.iterdir() if self._replaces else ():
            if _FILES.fullmatch(path.name) and path.name not in self._written:
                path.unlink()

    def add(self, alignment: Alignment) -> None:
        """Write one more alignment; a blank line gives a line but no picture."""
        for name, file in self._lines.items():
            line = json_line(alignment) if name == "jsonl" else alignment.pharaoh(self._threshold)
            file.write(line + "\n")
        if not alignment.has_words:
            return
        if self._page:
            self._page.add(alignment)
        name = f"sentence{alignment.id:04d}"
        if "text" in self._formats:
            parts = filter(None, (alignment.title, text_heatmap(alignment, TEXT_WIDTH)))
            write_text(self._begun(f"{name}.txt"), "\n".join(parts) + "\n")
        drawn = alignment.source, alignment.target, alignment.weights
        look = {"style": self._look.style, "title": alignment.title}
        for kind in PICTURES:
            if kind in self._formats:
                save_heatmap(self._begun(f"{name}.{kind}"), *drawn, **look)

    def _begun(self, name: str) -> Path:
        self._written.add(name)
        return self._folder / name


def write_gallery(
    folder: Path,
    alignments: Iterable[Alignment],
    formats: Sequence[str],
    look: Look = PLAIN,
    progress: bool = False,
    replaces: bool = False,
) -> None:
    """Write every alignment in every format, in the order of their ids.

    Args:
        folder, formats, look, replaces: as for `Gallery`.
        progress: show on the standard error how far it is, and where the files are.
    """
    from tqdm import tqdm

    ordered = sorted(alignments, key=lambda alignment: alignment.id)
    with Gallery(folder, formats, look, replaces=replaces) as gallery:
        for alignment in tqdm(ordered, "drawing alignments", unit="sentence", disable=not progress):
            gallery.add(alignment)
    if progress:
        print(f"{pluralize(len(ordered), 'alignment')} drawn in {folder}", file=sys.stderr)
