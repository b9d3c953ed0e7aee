"""Signals that make a training save a checkpoint and end.

========  ===========  =======================================================
SIGTERM   status 143   from ``kill``, a service manager, ``scancel``
SIGINT    status 130   from Ctrl-C
SIGHUP    status 129   from a terminal that is closed
SIGUSR1   status 0     from Slurm before pre-emption (``--signal=USR1@120``)
========  ===========  =======================================================

They take effect after the current update, and after the validation and checkpoint that may be due
then, so that a resumed run equals an uninterrupted one. A second signal ends the process at once.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import dataloader

logger = logging.getLogger(__name__)

STATUS = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129, signal.SIGUSR1: 0}

# Ctrl-C and Slurm reach both torchrun and its processes, and torchrun forwards what it gets: a
# repetition within this time, in seconds, does not count as a second signal.
ECHO = 1.0


class StopRequest:
    """The first signal that this process received, 0 for none."""

    def __init__(self) -> None:
        self.number = 0
        self._time = 0.0

    def listen(self) -> None:
        """Install handlers, except for signals that are ignored or already handled."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in STATUS:
            there = signal.getsignal(number)
            # fairseq-hydra-train -m makes several trainings in one program
            is_earlier = getattr(there, "__func__", None) is StopRequest.take
            if is_earlier or there in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self.take)

    def take(self, number: int, frame: FrameType | None = None) -> None:
        """Remember a signal; with the second one, end."""
        now = time.monotonic()
        if not self.number:
            self.number, self._time = number, now
            name = signal.Signals(number).name
            # bypasses Python's buffered files, which the signal may have interrupted
            said = f"fairseq_rnnsearch: {name}: stopping after this update; again: at once\n"
            os.write(2, said.encode())
        elif now - self._time > ECHO:
            os._exit(128 + number)

    def of_all(self, trainer: Trainer) -> int:
        """Return the signal that any process has received, the same in all; 0 for none."""
        if distributed_utils.get_global_world_size() == 1:
            return self.number
        number = torch.tensor(self.number, device=trainer.device)
        group = distributed_utils.get_global_group()
        return int(distributed_utils.all_reduce(number, group, op="max"))


def checkpoint_then_stop(
    validate_and_save: Callable[..., tuple],
    cfg: DictConfig,
    trainer: Trainer,
    task: FairseqTask,
    epoch_itr: EpochBatchIterator,
    valid_subsets: list[str],
    end_of_epoch: bool,
) -> tuple[list, bool]:
    """Save and end after the update in which a signal came.

    Args:
        validate_and_save: what ``fairseq_cli.train`` does after each update.
    """
    if end_of_epoch:
        trainer.log_updates()
    losses, should_stop = validate_and_save(
        cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch
    )
    if not should_stop and trainer.stop_request.of_all(trainer):
        if trainer.saved_at != trainer.get_num_updates():  # without a validation
            also_last = {"no_last_checkpoints": False}  # in a copy: it is not what was asked
            to_save = OmegaConf.merge(cfg.checkpoint, also_last)
            checkpoint_utils.save_checkpoint(to_save, trainer, epoch_itr, None)
        if not end_of_epoch:
            end_training(trainer)
        trainer.is_ending = True
    return losses, should_stop


def end_training(trainer: Trainer) -> NoReturn:
    """End this process once the first one has saved; torchrun would kill that one too."""
    number, cfg = trainer.stop_request.of_all(trainer), trainer.cfg.checkpoint
    logger.info(
        f"Stopped by {signal.Signals(number).name} @ {trainer.get_num_updates()} updates; "
        + ("nothing is saved (--no-save)" if cfg.no_save else "the same command goes on from here")
    )
    raise SystemExit(STATUS[number])


class EndingIterator(dataloader._MultiProcessingDataLoaderIter):
    """torch's iterator whose processes live until the training has saved."""

    def __init__(self, loader: dataloader.DataLoader) -> None:
        """Keep signals from the processes.

        Ctrl-C reaches a terminal's processes, and a service manager's SIGTERM all of a service.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STATUS)
        try:
            super().__init__(loader)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for worker in self._workers:  # torch and Python send a SIGTERM and wait for its effect
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


def expect_killed_processes() -> None:
    """Remove torch's handler for ended processes, which raises; for the end of a program."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
