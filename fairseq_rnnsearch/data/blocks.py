"""Large parallel text in blocks, over several processes, in bounded memory and fixed order."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import TypeVar

from fairseq_rnnsearch.errors import UserError

Block = tuple[list[bytes], list[bytes]]
"""Lines of either language, equally many, without their line feeds."""
Given = TypeVar("Given")
Made = TypeVar("Made")

# Waiting blocks per process: enough that none is idle, few enough to bound the memory.
_AHEAD = 3


def read_blocks(source: Path, target: Path, lines: int = 2000) -> Iterator[Block]:
    """Two text files together; a line ends at a line feed and nowhere else.

    Raises:
        UserError: for a file that cannot be read; for different numbers of lines, at the end of
            the shorter file.
    """
    try:
        with source.open("rb") as first, target.open("rb") as second:
            done = 0
            while True:
                block = tuple(
                    [line.rstrip(b"\n") for line in islice(file, lines)] for file in (first, second)
                )
                counts = [len(side) for side in block]
                if counts[0] != counts[1]:
                    totals = [
                        done + n + sum(1 for _ in f)
                        for n, f in zip(counts, (first, second), strict=True)
                    ]
                    raise UserError(
                        f"{source} has {totals[0]} lines and {target} has {totals[1]}; each line"
                        " must translate the same line of the other"
                    )
                if not counts[0]:
                    return
                done += counts[0]
                yield block
    except OSError as problem:
        raise UserError(f"cannot read {problem.filename}: {problem.strerror}") from problem


def ordered_map(
    function: Callable[[Given], Made],
    items: Iterable[Given],
    processes: int = 0,
    prepare: Callable[..., None] | None = None,
    arguments: tuple = (),
) -> Iterator[Made]:
    """``map`` over processes: same results, same order, whatever their number.

    Unlike ``multiprocessing.Pool.imap`` it reads only a few items ahead.

    Args:
        function: of the top level of a module, so that it can be sent to a process.
        processes: 0 means as many as there are cores; 1 works without a second process.
        prepare: called once in each process, with ``arguments``.

    Raises:
        UserError: when a process dies, of too little memory for example.
    """
    processes = processes or os.cpu_count() or 1
    if processes == 1:
        if prepare:
            prepare(*arguments)
        yield from map(function, items)
        return
    with ProcessPoolExecutor(processes, initializer=prepare, initargs=arguments) as pool:
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
