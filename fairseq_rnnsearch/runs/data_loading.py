"""The processes of ``--num-workers``: when they end, and their messages then."""

import os
import signal
import threading

from torch.utils.data import dataloader

from fairseq_rnnsearch.runs.signals import STATUS


class EndingIterator(dataloader._MultiProcessingDataLoaderIter):
    """torch's iterator, whose processes live exactly until their training has saved."""

    def __init__(self, loader: dataloader.DataLoader) -> None:
        """Keep signals from the processes.

        Ctrl-C reaches a terminal's processes, and a service manager's SIGTERM all of a service.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STATUS)
        try:
            super().__init__(loader)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for worker in self._workers:  # torch and Python end it by a SIGTERM, and wait for that
            worker._popen.terminate = worker._popen.kill

    def _next_data(self) -> object:
        """End the processes when nothing is left to load; the next epoch starts new ones.

        fairseq counts batches and never asks for one after the last, so they would live until a
        garbage collection. That closes the channel by which they are told to end before it tells
        them, and torch waits 5 s for each.
        """
        data = super()._next_data()
        if self._rcvd_idx == self._send_idx and not self._persistent_workers:
            self._shutdown_workers()
        return data

    def __del__(self) -> None:
        """Keep `can only test a child process` off standard error.

        A process that loads data inherits the remains of earlier iterators. When it collects them,
        they ask about processes that are not its children.
        """
        workers = vars(self).get("_workers", [])
        if all(worker._parent_pid == os.getpid() for worker in workers):
            super().__del__()


def expect_killed_processes() -> None:
    """Remove torch's handler for ended processes, which raises; for the end of a program."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
