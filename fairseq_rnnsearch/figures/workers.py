"""One piece of work after another, done by several forked processes.

Processes, because drawing holds Python's lock; no threads, because a program that is ending may
not start any. Each process gets its work through a pipe of its own, few pieces at a time, so that
memory stays bounded and an error stops everything soon.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from fairseq_rnnsearch.errors import UserError

# One that is done, and one to begin with meanwhile.
WAITING = 2


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Processes that call ``work(piece)``; what they return is lost, what they write remains.

    Args:
        work: a function; not pickled.
        count: how many processes.

    Raises:
        OSError, RuntimeError, ValueError: where processes cannot be forked: not this system, no
            memory, or a program that is ending (Python 3.12 and newer).
    """

    def __init__(self, work: Callable[[Any], None], count: int) -> None:
        self._pending: dict[Connection, list[str]] = {}
        self._processes = []
        context = multiprocessing.get_context("fork")
        try:
            for _ in range(count):
                ours, theirs = context.Pipe()
                inherited = [*self._pending, ours]
                process = context.Process(target=_serve, args=(work, theirs, inherited))
                process.daemon = True
                _start(process)
                theirs.close()  # so that a read from a process that died ends
                self._pending[ours] = []
                self._processes.append(process)
        except BaseException:
            self.stop()
            raise

    def submit(self, name: str, piece: Any) -> None:
        """Hand a piece of work to the process with the least to do; wait while all have enough.

        Args:
            name: of the piece, for what is said of errors.

        Raises:
            UserError: as `finish`.
        """
        self._collect(block=False)
        while min(map(len, self._pending.values())) >= WAITING:
            self._collect(block=True)
        free = min(self._pending, key=lambda connection: len(self._pending[connection]))
        self._pending[free].append(name)
        try:
            free.send((name, piece))
        except OSError:
            self._lost(free)

    def finish(self) -> None:
        """Wait until all is done.

        Raises:
            UserError: the first mistake that a process met.
        """
        while any(self._pending.values()):
            self._collect(block=True)
        self.stop()

    def stop(self) -> None:
        """End the processes, each after the pieces that it has, so that no file is half written."""
        for connection in self._pending:
            connection.close()
        for process in self._processes:
            process.join()

    def _collect(self, block: bool) -> None:
        busy = [connection for connection, pieces in self._pending.items() if pieces]
        for connection in wait(busy, None if block else 0):
            try:
                mistake = connection.recv()
            except (EOFError, OSError):
                self._lost(connection)
            self._pending[connection].pop(0)
            if mistake is not None:
                raise UserError(mistake)

    def _lost(self, connection: Connection) -> None:
        process = self._processes[list(self._pending).index(connection)]
        process.join()
        raise UserError(
            f"a process that draws ended with status {process.exitcode} at"
            f" {self._pending[connection][0]}: perhaps there is too little memory"
        ) from None


def _start(process: BaseProcess) -> None:
    """Start with Ctrl-C held back, until the process has said that it does not listen to it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(
    work: Callable[[Any], None], connection: Connection, inherited: list[Connection]
) -> None:
    """In the child: work until the parent closes its end, or is no more."""
    # Ctrl-C reaches all processes of a terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    warnings.simplefilter("ignore")  # the parent has said it
    for copy in inherited:
        copy.close()
    while True:
        try:
            name, piece = connection.recv()
        except (EOFError, OSError):
            return
        mistake = None
        try:
            work(piece)
        except UserError as problem:
            mistake = str(problem)
        except Exception as problem:
            mistake = f"{name} cannot be drawn: {type(problem).__name__}: {problem}"
        try:
            connection.send(mistake)
        except OSError:
            return
