"""Many alignments to one folder, in the formats that a user asks for.

png, pdf, svg    one picture a sentence: ``sentence0017.png``
text             one file a sentence, drawn with characters: ``sentence0017.txt``
html             one page for all: ``index.html``
jsonl            the weights: ``alignments.jsonl``, see the module `jsonl`
pharaoh          the best source word of each target word: ``alignments.pharaoh``, one line a
                 sentence, ``0-0 1-2 ...`` with the source first, counted from 0

A PNG of 20 words takes some 10 ms and a PDF 300, so that a test set of 3,000 sentences is worth the
processes of `concurrent.futures`.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import TracebackType
from typing import IO

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.heatmap import save_heatmap
from fairseq_rnnsearch.figures.jsonl import json_line
from fairseq_rnnsearch.figures.layout import label_of
from fairseq_rnnsearch.figures.page import write_page
from fairseq_rnnsearch.figures.picture_files import FORMATS as PICTURES
from fairseq_rnnsearch.figures.styles import PLAIN, Look
from fairseq_rnnsearch.figures.terminal import text_heatmap
from fairseq_rnnsearch.files import remove_unfinished, replacing, write_text

TEXT_WIDTH = 120
# So many sentences are drawn before processes are started, which takes as long as a few pictures.
FEW = 16
# Each process has this many sentences waiting for it, so that memory stays bounded.
WAITING = 4

# The formats that put one line a sentence into one file.
LINES: dict[str, tuple[str, Callable[[Alignment], str]]] = {
    "jsonl": ("alignments.jsonl", json_line),
    "pharaoh": ("alignments.pharaoh", Alignment.pharaoh),
}
FORMATS = (*PICTURES, "text", "html", *LINES)


def parse_formats(text: str) -> tuple[str, ...]:
    """Read a list of formats such as ``"png,html"``.

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
        folder: is made if it is not there.
        formats: are some of ``FORMATS``.
        processes: is how many processes draw pictures, by default as many as there are cores. This
            one alone draws the first few, and all where processes cannot be forked. The files do
            not depend on it.
        look: is how pictures and the page look, and what the page is called.

    Raises:
        UserError: when something cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        formats: Sequence[str],
        processes: int | None = None,
        look: Look = PLAIN,
    ) -> None:
        self._folder = Path(folder)
        self._formats = tuple(formats)
        self._look = look
        write = functools.partial(_write_files, self._folder, style=look.style)
        self._pictures = _Pictures(write, self._formats, processes or _usable_cores())
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
        """Write one more alignment; that of a blank line is a line, and no picture.

        Raises:
            UserError: when it, or one before it, cannot be written; or for an id that is not
                larger than the last one's, because files are named and lines are ordered by it.
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
        if not alignment.has_words:
            return
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
                write_page(self._folder / "index.html", self._page, self._look)
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
        # The files are told of another error than the real one, whose OSError might be of another
        # file, and which they would take for their own.
        with contextlib.suppress(_AbandonedError):
            self._files.__exit__(_AbandonedError, _AbandonedError(), None)
        remove_unfinished(self._folder)  # of processes that were killed


def write_gallery(
    folder: Path,
    alignments: Iterable[Alignment],
    formats: Sequence[str],
    progress: Callable[[Sequence[Alignment]], Iterable[Alignment]] = iter,
    look: Look = PLAIN,
) -> None:
    """Write every alignment in every format, in the order of their ids.

    Args:
        folder: is made if it is not there.
        formats: are some of ``FORMATS``.
        progress: wraps the loop over sentences, such as ``tqdm``.
        look: is as for `Gallery`.

    Raises:
        UserError: when something cannot be written, and for two alignments with one id.
    """
    with Gallery(folder, formats, look=look) as gallery:
        for alignment in progress(sorted(alignments, key=lambda alignment: alignment.id)):
            gallery.add(alignment)


class _Pictures:
    """The files of single sentences: this process draws the first few, others draw the rest."""

    def __init__(self, write: Callable[..., None], formats: Sequence[str], processes: int) -> None:
        self._formats = tuple(name for name in formats if name in (*PICTURES, "text"))
        self._write = functools.partial(write, self._formats)
        self._processes = processes
        self._count = 0
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: deque[tuple[int, Future[None]]] = deque()

    def draw(self, alignment: Alignment) -> None:
        if not self._formats:
            return
        if self._formats != ("text",):
            for word in (*alignment.source, *alignment.target):
                label_of(word)  # warns here, and once, of characters without a font
        if self._count == FEW and self._processes > 1:
            self._pool = _forked(self._processes)
        self._count += 1
        if self._pool is None:
            self._write(alignment)
            return
        with _one_line(alignment.id):
            self._waiting.append((alignment.id, self._pool.submit(self._write, alignment)))
        while len(self._waiting) > WAITING * self._processes:
            self._wait_for_the_oldest()

    def finish(self) -> None:
        while self._waiting:
            self._wait_for_the_oldest()
        self.stop()

    def stop(self) -> None:
        """End the processes, each after its piece of work, so that no file is half written."""
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def _wait_for_the_oldest(self) -> None:
        sentence, drawn = self._waiting.popleft()
        with _one_line(sentence):
            drawn.result()


@contextlib.contextmanager
def _one_line(sentence: int) -> Iterator[None]:
    """Turn whatever went wrong in a process that draws into one line about a sentence."""
    try:
        yield
    except UserError:
        raise
    except BrokenProcessPool as problem:
        raise UserError(
            f"a process that draws was ended at sentence {sentence} or soon after it: perhaps there"
            " is too little memory"
        ) from problem
    except Exception as problem:
        raise UserError(
            f"sentence {sentence} cannot be drawn: {type(problem).__name__}: {problem}"
        ) from problem


def _forked(count: int) -> ProcessPoolExecutor | None:
    """Start processes to draw; return None where they cannot be forked.

    That is another system, too little memory, or a program that is ending. The processes inherit
    that Ctrl-C is held back, which reaches all processes of a terminal: this one decides what it
    means.
    """
    others = set(multiprocessing.active_children())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        pool = ProcessPoolExecutor(count, multiprocessing.get_context("fork"), _begin)
        pool.submit(os.getpid)  # the first call forks all of them
        return pool
    except (OSError, RuntimeError, ValueError):
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
            process.join()
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Prepare a process that draws: it is silent, and ends with the process that has forked it."""
    warnings.simplefilter("ignore")  # the parent has said it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def _usable_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _AbandonedError(Exception):
    """Ends the files of a gallery that are not to appear."""


@contextlib.contextmanager
def _unfinished(path: Path) -> Iterator[IO[str]]:
    """Open a text file that appears when the block ends; lone surrogates stand in it as in JSON."""
    with (
        replacing(path) as unfinished,
        unfinished.open("w", encoding="utf-8", errors="backslashreplace") as file,
    ):
        yield file


def _write_files(folder: Path, formats: Sequence[str], alignment: Alignment, style: str) -> None:
    name = f"sentence{alignment.id:04d}"
    for suffix in formats:
        if suffix == "text":
            write_text(folder / f"{name}.txt", text_heatmap(alignment, TEXT_WIDTH) + "\n")
        else:
            path = folder / f"{name}.{suffix}"
            words = alignment.source, alignment.target
            save_heatmap(path, *words, alignment.weights, style=style)
