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

from fairseq_rnnsearch.errors import UserError

logger = logging.getLogger(__name__)

STATUS = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129, signal.SIGUSR1: 0}

# Ctrl-C and Slurm reach both torchrun and its processes, and torchrun forwards what it gets: a
# repetition within this time, in seconds, does not count as a second signal.
ECHO = 1.0


class StopRequest:
    """The first signal that this process received.

    A thread waits for signals: Python runs no handler while the main thread waits for other
    processes.
    """

    def __init__(self) -> None:
        self.number = 0
        self._time = 0.0
        self._taken: set[int] = set()

    def listen(self) -> None:
        """Install handlers, except for signals that are ignored or already handled."""
        if threading.current_thread() is not threading.main_thread():
            return
        # fairseq-hydra-train -m makes several trainings in one program; the earlier ones have ended
        free = (signal.SIG_DFL, signal.default_int_handler, _leave_it_to_the_thread)
        for number in STATUS:
            if signal.getsignal(number) in free:
                signal.signal(number, _leave_it_to_the_thread)
                self._taken.add(number)
        if self._taken:
            reading, writing = os.pipe()
            os.set_blocking(writing, False)
            signal.set_wakeup_fd(writing)
            os.register_at_fork(after_in_child=_hear_nothing)
            threading.Thread(target=self._watch, args=(reading,), daemon=True).start()

    def _watch(self, reading: int) -> None:
        while number := os.read(reading, 1):
            if number[0] in self._taken:
                self._take(number[0])

    def _take(self, number: int) -> None:
        """Remember a signal; with the second one, end."""
        now = time.monotonic()
        if not self.number:
            self.number, self._time = number, now
            _say(f"{signal.Signals(number).name}: stopping after this update; again: at once")
        elif now - self._time > ECHO:
            os._exit(128 + number)

    def of_all(self, trainer: Trainer) -> int:
        """Return the signal that any process has received, the same in all; 0 for none."""
        if distributed_utils.get_global_world_size() == 1:
            return self.number
        number = torch.tensor(self.number, device=trainer.device)
        group = distributed_utils.get_global_group()
        return int(distributed_utils.all_reduce(number, group, op="max"))


def _leave_it_to_the_thread(number: int, frame: FrameType | None) -> None:
    """Do nothing: the thread that waits for the number gets it."""


def _hear_nothing() -> None:
    """Keep a forked process's signals from this process's thread."""
    signal.set_wakeup_fd(-1)


def _say(message: str) -> None:
    """Bypass Python's files, which a signal may have interrupted within a line."""
    os.write(2, f"fairseq_rnnsearch: {message}\n".encode())


def save_and_heed(
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

    Raises:
        UserError: if no metric has the name of --best-checkpoint-metric.
    """
    if end_of_epoch:
        trainer.log_updates()
    try:
        losses, should_stop = validate_and_save(
            cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch
        )
    except KeyError as problem:
        metric = cfg.checkpoint.best_checkpoint_metric
        if problem.args != (metric,):
            raise
        raise UserError(
            f"--best-checkpoint-metric {metric}: a validation has no such number; its line in the "
            "log has their names"
        ) from problem
    if not should_stop and trainer.stop_request.of_all(trainer):
        if trainer.saved_at != trainer.get_num_updates():
            _save_last(cfg.checkpoint, trainer, epoch_itr)
        if not end_of_epoch:
            end_training(trainer)
        trainer.end_after_the_report()
    return losses, should_stop


def _save_last(cfg, trainer: Trainer, epoch_itr) -> None:
    """Save ``checkpoint_last.pt`` without a validation, also under --no-last-checkpoints."""
    cfg = OmegaConf.merge(cfg, {"no_last_checkpoints": False})  # a copy: it is not what was asked
    checkpoint_utils.save_checkpoint(cfg, trainer, epoch_itr, None)


def end_training(trainer: Trainer) -> NoReturn:
    """End this process after the first has saved: torchrun would end that one too."""
    number, cfg = trainer.stop_request.of_all(trainer), trainer.cfg.checkpoint
    logger.info(
        f"Stopped by {signal.Signals(number).name} @ {trainer.get_num_updates()} updates; "
        + ("nothing is saved (--no-save)" if cfg.no_save else "the same command goes on from here")
    )
    raise SystemExit(STATUS[number])
