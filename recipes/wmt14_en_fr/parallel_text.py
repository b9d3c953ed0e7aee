"""Large parallel text: the files text.en and text.fr of a folder, in blocks, over processes.

Memory is bounded whatever the length of the text, and the order of the results is that of the
text whatever the number of processes.
"""

import os
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TypeVar

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.corpus import in_parallel

LANGUAGES = ("en", "fr")

Block = tuple[list[bytes], list[bytes]]
"""Lines of either language, equally many, without their line feeds."""
Given = TypeVar("Given")
Made = TypeVar("Made")

# Each process has so many items that wait for it: enough that none is idle, few enough to bound
# the memory.
_AHEAD = 3
_SECONDS_BETWEEN_LINES = 30


def sides(folder: Path, name: str = "text") -> tuple[Path, Path]:
    """Return the English and the French file of a folder."""
    return tuple(folder / f"{name}.{language}" for language in LANGUAGES)


@contextmanager
def new_sides(folder: Path, name: str = "text") -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open the English and the French file of a folder to write them anew."""
    english, french = sides(folder, name)
    with english.open("wb") as first, french.open("wb") as second:
        yield first, second


def read_blocks(source: Path, target: Path, lines: int = 2000) -> Iterator[Block]:
    """Read two text files together; a line ends at a line feed and nowhere else.

    Raises:
        UserError: the files have different numbers of lines, which is found at the end of the
            shorter one.
    """
    with source.open("rb") as first, target.open("rb") as second:
        pairs = in_parallel((source, target), first, second)
        while block := list(islice(pairs, lines)):
            yield tuple([line.rstrip(b"\n") for line in side] for side in zip(*block, strict=True))


def ordered_map(
    function: Callable[[Given], Made], items: Iterable[Given], processes: int = 0
) -> Iterator[Made]:
    """Do what ``map`` does, over processes: the same results in the same order.

    Unlike ``multiprocessing.Pool.imap`` it reads only a few items ahead. (From Python 3.14 on
    ``Executor.map`` can do that, too.)

    Args:
        function: a function of the top level of a module, so that it can be sent to a process, or
            a ``partial`` of one.
        processes: how many; 0 is as many as there are cores, 1 works without a second process.

    Raises:
        UserError: a process died, of too little memory for example.
    """
    processes = processes or os.cpu_count() or 1
    if processes == 1:
        yield from map(function, items)
        return
    with ProcessPoolExecutor(processes) as pool:
        waiting: deque = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) >= _AHEAD * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as problem:
            raise UserError(
                "a process was killed, perhaps because the memory was used up; take fewer"
                f" processes than {processes}"
            ) from problem
        except BaseException:  # also when nobody wants the rest
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class Progress:
    """Counts the pairs that are done, and says now and then how fast they come."""

    def __init__(self) -> None:
        self.pairs = 0
        self._started = self._said = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def add(self, pairs: int) -> None:
        """Count so many more pairs."""
        self.pairs += pairs
        if time.monotonic() - self._said > _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            print(f"  {self.pairs:,} pairs, {self._rate()}", file=sys.stderr, flush=True)

    def summary(self) -> str:
        """Return the rate of all pairs, and the memory of the largest process."""
        usage = [
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        # Linux counts in kilobytes, macOS in bytes.
        unit = 1e6 if sys.platform == "darwin" else 1e3
        memory = max(each.ru_maxrss for each in usage) / unit
        return f"{self._rate()}, at most {memory:,.0f} MB in a process"

    def _rate(self) -> str:
        return f"{self.pairs / max(self.seconds, 1e-3):,.0f} pairs/s"
