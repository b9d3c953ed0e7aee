"""The processes of ``--num-workers``: when they end, and what they say then."""

import atexit
import functools
import os
import signal
import threading

import torch
from fairseq.data.iterators import EpochBatchIterator

from fairseq_rnnsearch.compat.signals import STATUS


def mend_data_loading() -> None:
    """Let these processes live until the training that they serve has saved, and no longer."""
    iterator = torch.utils.data.dataloader._MultiProcessingDataLoaderIter
    _keep_signals_from_them(iterator)
    _end_them_with_the_last_batch(iterator)
    _end_in_silence(iterator)


def _keep_signals_from_them(iterator: type) -> None:
    """Ctrl-C reaches a terminal's processes, and a service manager's SIGTERM all of a service."""
    start = iterator.__init__

    @functools.wraps(start)
    def start_without_signals(self, loader) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STATUS)
        try:
            start(self, loader)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for worker in self._workers:  # torch and Python end it by a SIGTERM, and wait for that
            worker._popen.terminate = worker._popen.kill

    def expect_killed_processes() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler raises

    iterator.__init__ = start_without_signals
    atexit.register(expect_killed_processes)


def _end_them_with_the_last_batch(iterator: type) -> None:
    """End them when nothing is left to load; the next epoch begins new ones.

    fairseq asks torch to keep them, makes new ones all the same, and counts batches instead of
    asking for one after the last. They would live until a garbage collection, which closes what
    they are told to end by before it tells them: torch then waits 5 s for each.
    """
    start_batches, following = EpochBatchIterator.__init__, iterator._next_data

    @functools.wraps(start_batches)
    def start_without_keeping(self, *args, **options) -> None:
        start_batches(self, *args, **options)
        self.persistent_workers = False

    @functools.wraps(following)
    def next_data_and_end(self) -> object:
        data = following(self)
        if self._rcvd_idx == self._send_idx and not self._persistent_workers:
            self._shutdown_workers()
        return data

    EpochBatchIterator.__init__ = start_without_keeping
    iterator._next_data = next_data_and_end


def _end_in_silence(iterator: type) -> None:
    """Keep `can only test a child process` off standard error.

    A data-loading process inherits what is left of the iterators before it; when they are
    cleared away there, they ask after processes that are not its own.
    """
    shut_down = iterator.__del__

    @functools.wraps(shut_down)
    def shut_down_own_workers(self) -> None:
        workers = getattr(self, "_workers", [])
        if all(worker._parent_pid == os.getpid() for worker in workers):
            shut_down(self)

    iterator.__del__ = shut_down_own_workers
