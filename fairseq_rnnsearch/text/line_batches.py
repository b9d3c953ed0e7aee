"""Batches of lines from a file, a pipe or a terminal."""

import contextlib
import os
import select
from collections.abc import Callable, Iterable, Iterator

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.corpus import lines_as_they_come

_AT_ONCE = 1 << 16  # bytes


def line_batches(
    path: str,
    counts: Iterable[int],
    before_waiting: Callable[[], None] = lambda: None,
    *,
    fills: bool = False,
    has_symbols: bool = False,
) -> Iterator[list[str]]:
    """Yield the lines of a file without the spaces around them, as many at a time as are there.

    Args:
        path: a file, or "-" for standard input.
        counts: the most lines of the first batch, the second, and so on without end.
        before_waiting: called before waiting for a line.
        fills: whether to wait until a batch has as many lines as it may.
        has_symbols: as for `lines_as_they_come`.

    Raises:
        UserError: as from `lines_as_they_come`; the lines before are yielded first.
    """
    name = "standard input" if path == "-" else path
    counts = iter(counts)
    batch, most = [], next(counts)
    with _opened(path) as stream:
        lines = lines_as_they_come(stream, name, has_symbols)
        try:
            while True:
                if not stream.has_more():
                    before_waiting()
                line = next(lines, None)
                if line is None:
                    break
                batch.append(line.strip())
                if len(batch) >= most or not (fills or stream.has_more()):
                    yield batch
                    batch, most = [], next(counts)
        except UserError:
            yield from [batch] * bool(batch)
            raise
    yield from [batch] * bool(batch)


class _Stream:
    """A stream of lines that can tell whether more input is available.

    Python's own files cannot tell, as they read ahead.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._held = descriptor, b""

    def readline(self) -> bytes:
        """Wait for a line and return it; nothing at the end."""
        while b"\n" not in self._held:
            if not (piece := os.read(self._descriptor, _AT_ONCE)):
                break
            self._held += piece
        end = self._held.find(b"\n") + 1 or len(self._held)
        line, self._held = self._held[:end], self._held[end:]
        return line

    def has_more(self) -> bool:
        """Tell whether a line, or the end, can be read without waiting for the writer."""
        if b"\n" in self._held:
            return True
        return bool(select.select([self._descriptor], [], [], 0)[0])


@contextlib.contextmanager
def _opened(path: str) -> Iterator[_Stream]:
    if path == "-":
        yield _Stream(0)
        return
    with open(path, "rb", buffering=0) as file:
        yield _Stream(file.fileno())
