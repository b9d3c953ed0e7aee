"""Many alignments to one folder, in the formats that a user asks for.

png, pdf, svg    one picture a sentence: ``sentence0017.png``
text             one file a sentence, drawn with characters: ``sentence0017.txt``
html             one page for all: ``index.html``
jsonl            the weights: ``alignments.jsonl``, one object a line with the keys id, score,
                 source, target (lists of words) and weights (target rows, source columns)
pharaoh          the best source word of each target word: ``alignments.pharaoh``, one line a
                 sentence, ``0-0 1-2 ...`` with the source first, counted from 0
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.heatmap import save_heatmap
from fairseq_rnnsearch.figures.layout import label_of
from fairseq_rnnsearch.figures.page import write_page
from fairseq_rnnsearch.figures.picture_files import FORMATS as PICTURES
from fairseq_rnnsearch.figures.terminal import text_heatmap
from fairseq_rnnsearch.figures.workers import Workers, usable_cores
from fairseq_rnnsearch.files import remove_unfinished, replacing, write_text

TEXT_WIDTH = 120
# A process takes some hundredths of a second to start, as long as a few pictures.
FEW = 16
_LARGEST_ID = 10**12
_JSONL = "the jsonl of --heatmap-format"


def _json_line(alignment: Alignment) -> str:
    value = {
        "id": alignment.id,
        "score": alignment.score,
        "source": alignment.source,
        "target": alignment.target,
        "weights": [[round(float(w), 6) for w in row] for row in alignment.weights],
    }
    return json.dumps(value, ensure_ascii=False)


# One line a sentence, into one file.
LINES: dict[str, tuple[str, Callable[[Alignment], str]]] = {
    "jsonl": ("alignments.jsonl", _json_line),
    "pharaoh": ("alignments.pharaoh", Alignment.pharaoh),
}
FORMATS = (*PICTURES, "text", "html", *LINES)


def parse_formats(text: str) -> tuple[str, ...]:
    """``"png,html"`` to its formats.

    Raises:
        UserError: naming the first that is unknown.
    """
    formats = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in formats:
        if name not in FORMATS:
            raise UserError(f"heatmap format {name!r} is unknown: choose from {', '.join(FORMATS)}")
    if not formats:
        raise UserError(f"no heatmap format given: choose from {', '.join(FORMATS)}")
    return formats


class Gallery:
    """Writes alignments one by one, in memory that does not grow with their number.

    Only the page, ``html``, is collected, because it is one file. A picture is there once it is
    drawn; the other files appear when the block ends, and not at all if it ends with an error or
    Ctrl-C::

        with Gallery(folder, ("png", "jsonl")) as gallery:
            for alignment in alignments:
                gallery.add(alignment)

    Args:
        folder: made if it is not there.
        formats: from ``FORMATS``.
        processes: that draw pictures, by default as many as there are cores; this one alone for
            few sentences, and where processes cannot be forked. The files do not depend on it.

    Raises:
        UserError: when something cannot be written.
    """

    def __init__(self, folder: Path, formats: Sequence[str], processes: int | None = None) -> None:
        self._folder = Path(folder)
        self._formats = tuple(formats)
        self._pictures = _Pictures(self._folder, self._formats, processes or usable_cores())
        self._lines: dict[str, IO[str]] = {}
        self._files = contextlib.ExitStack()
        self._page: list[Alignment] = []
        self._last: int | None = None

    def __enter__(self) -> Gallery:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise UserError(
                f"cannot make the heatmap folder {self._folder}: {problem.strerror}"
            ) from problem
        remove_unfinished(self._folder)
        with self._abandoned_on_error():
            for name in LINES:
                if name in self._formats:
                    file = _unfinished(self._folder / LINES[name][0])
                    self._lines[name] = self._files.enter_context(file)
        return self

    def add(self, alignment: Alignment) -> None:
        """Write one more alignment.

        Raises:
            UserError: when it, or one before it, cannot be written; or an id that is not larger
                than the last one's: files are named and lines are ordered by it.
        """
        if self._last is not None and alignment.id <= self._last:
            raise UserError(f"alignment {alignment.id} after {self._last}: their ids must increase")
        self._last = alignment.id
        for name, file in self._lines.items():
            path, line_of = LINES[name]
            try:
                file.write(line_of(alignment) + "\n")
            except OSError as problem:
                path = self._folder / path
                raise UserError(f"{path} cannot be written: {problem.strerror}") from problem
        if "html" in self._formats:
            self._page.append(alignment)
        self._pictures.draw(alignment)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._abandon()
            return
        with self._abandoned_on_error():
            self._pictures.finish()
            if self._page:
                write_page(self._folder / "index.html", self._page)
            self._files.close()

    @contextlib.contextmanager
    def _abandoned_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Leave no unfinished file and no process behind an error."""
        self._pictures.stop()
        # Not the error itself: a file would take another's OSError for its own.
        with contextlib.suppress(_AbandonedError):
            self._files.__exit__(_AbandonedError, _AbandonedError(), None)


def read_alignments(path: Path) -> dict[int, Alignment]:
    """The alignments of an ``alignments.jsonl`` by their ids.

    Raises:
        UserError: a file that cannot be read, is empty or not UTF-8, a line that is none of
            `write_gallery`'s, or an id twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise UserError(
            f"{path} is not UTF-8: byte {problem.start}; valid is {_JSONL}"
        ) from problem
    alignments: dict[int, Alignment] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        alignment = _from_json(line, f"{path}, line {number}")
        if alignment.id in alignments:
            raise UserError(f"{path}, line {number}: found id {alignment.id} a second time")
        alignments[alignment.id] = alignment
    if not alignments:
        raise UserError(f"{path} is empty; valid is {_JSONL}")
    return alignments


def _from_json(line: str, where: str) -> Alignment:
    try:
        entry = json.loads(line)
        source, target, rows, number = (entry[key] for key in ("source", "target", "weights", "id"))
        score = entry.get("score")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise UserError(f"{where}: not an alignment; valid is {_JSONL}") from problem
    for name, words in (("source", source), ("target", target)):
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UserError(f"{where}: {name} must be a list of words; valid is {_JSONL}")
    if type(number) is not int or not 0 <= number <= _LARGEST_ID:
        raise UserError(f"{where}: id {str(number)[:40]} must be a number from 0")
    if score is not None and not _is_number(score):
        raise UserError(f"{where}: score {str(score)[:40]!r} must be a number or null")
    fits = isinstance(rows, list) and len(rows) == len(target)
    if not fits or not all(isinstance(row, list) and len(row) == len(source) for row in rows):
        raise UserError(
            f"{where}: weights must be {len(target)} rows, one for each target word, of "
            f"{len(source)} numbers, one for each source word"
        )
    if wrong := [weight for row in rows for weight in row if not _is_weight(weight)]:
        raise UserError(f"{where}: {str(wrong[0])[:40]!r} is no weight; valid is 0 to 1, or NaN")
    weights = np.array(rows, dtype=float).reshape(len(target), len(source))
    return Alignment(source, target, weights, number, score)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_weight(value: object) -> bool:
    """A share; NaN is what a broken model gives, and is drawn in red. Rounding may go beyond 1."""
    return type(value) in (int, float) and (value != value or -1e-3 <= value <= 1 + 1e-3)


def write_gallery(
    folder: Path,
    alignments: Iterable[Alignment],
    formats: Sequence[str],
    progress: Callable[[Sequence[Alignment]], Iterable[Alignment]] = iter,
) -> None:
    """Write every alignment in every format, in the order of their ids.

    Args:
        folder: made if it is not there.
        formats: from ``FORMATS``.
        progress: wraps the loop over sentences, such as ``tqdm``.

    Raises:
        UserError: when something cannot be written, and for two alignments with one id.
    """
    alignments = sorted(alignments, key=lambda alignment: alignment.id)
    with Gallery(folder, formats, 1 if len(alignments) <= FEW else None) as gallery:
        for alignment in progress(alignments):
            gallery.add(alignment)


class _Pictures:
    """The files of single sentences, drawn here or, when there are many, by other processes."""

    def __init__(self, folder: Path, formats: Sequence[str], processes: int) -> None:
        self._formats = tuple(name for name in formats if name in (*PICTURES, "text"))
        self._write = functools.partial(_write_files, folder, self._formats)
        self._processes = processes
        self._waiting: list[Alignment] = []
        self._workers: Workers | None = None

    def draw(self, alignment: Alignment) -> None:
        if not self._formats:
            return
        if self._formats != ("text",):
            for word in (*alignment.source, *alignment.target):
                label_of(word)  # warns here, and once, of characters without a font
        if self._workers:
            self._workers.submit(f"sentence {alignment.id}", alignment)
        elif self._processes < 2:
            self._write(alignment)
        else:
            self._waiting.append(alignment)
            if len(self._waiting) > FEW:
                self._start()

    def finish(self) -> None:
        for alignment in self._waiting:
            self._write(alignment)
        if self._workers:
            self._workers.finish()

    def stop(self) -> None:
        if self._workers:
            self._workers.stop()

    def _start(self) -> None:
        """Fork, or go on alone where that is not possible."""
        try:
            self._workers = Workers(self._write, self._processes)
        except (OSError, RuntimeError, ValueError):
            self._processes = 1
        waiting, self._waiting = self._waiting, []
        for alignment in waiting:
            self.draw(alignment)


class _AbandonedError(Exception):
    """Ends the files of a gallery that are not to appear."""


@contextlib.contextmanager
def _unfinished(path: Path) -> Iterator[IO[str]]:
    """A text file that appears when the block ends; a lone surrogate as JSON writes it."""
    with (
        replacing(path) as unfinished,
        unfinished.open("w", encoding="utf-8", errors="backslashreplace") as file,
    ):
        yield file


def _write_files(folder: Path, formats: Sequence[str], alignment: Alignment) -> None:
    name = f"sentence{alignment.id:04d}"
    for suffix in formats:
        if suffix == "text":
            write_text(folder / f"{name}.txt", text_heatmap(alignment, TEXT_WIDTH) + "\n")
        else:
            path = folder / f"{name}.{suffix}"
            save_heatmap(path, alignment.source, alignment.target, alignment.weights)
