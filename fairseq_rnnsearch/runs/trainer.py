"""fairseq's trainer, extended so that an interrupted training can resume exactly.

Each method says what fairseq does without it.
"""

import argparse
import ctypes
import logging
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from fairseq.data.iterators import EpochBatchIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer
from fairseq.utils import move_to_cpu
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch import Tensor, nn

from fairseq_rnnsearch.errors import UserError, option_of, reason
from fairseq_rnnsearch.kernels.devices import CopiedNumbers
from fairseq_rnnsearch.runs import checkpoint
from fairseq_rnnsearch.runs.checkpoint import OwnFields
from fairseq_rnnsearch.runs.options import check_configuration
from fairseq_rnnsearch.runs.signals import StopRequest, end_training

logger = logging.getLogger("fairseq.trainer")  # fairseq's logger

# glibc's names of what its ``mallopt`` sets, and the values
_KEEPING = {
    -4: 0,  # M_MMAP_MAX: no separate mappings, which are returned to the system when freed
    -1: 2**31 - 1,  # M_TRIM_THRESHOLD: do not return the end of the heap either
    -2: 2**26,  # M_TOP_PAD: request this much more at a time
}

# What a checkpoint's options are made of when one process sends it to the others.
_SENT = {
    *(argparse.Namespace, distributed_utils._TensorPlaceholder, DictConfig, ListConfig),
    *(ContainerMetadata, Metadata, AnyNode, defaultdict, dict, list, int, Any),
}


@runtime_checkable
class AlignmentTask(Protocol):
    """A task that knows the sentences of an update, and draws alignments of validations.

    Attributes:
        batches_in_an_update: of each process, by ``--update-freq``; one trainer says so.
    """

    batches_in_an_update: int

    def explain_update(self) -> str:
        """Describe what is not finite in the current update."""

    def collect_alignments(
        self, ids: Tensor, source: Tensor, target: Tensor, attention: Tensor
    ) -> None:
        """Keep a batch's alignments to draw.

        Args:
            ids: numbers of the sentences in their data set, ``(batch,)``.
            source, target: words, ``(batch, source)`` and ``(batch, target)``.
            attention: alignment weights, ``(batch, target, source)``.
        """


@runtime_checkable
class NonfiniteHandler(Protocol):
    """An optimizer that handles gradients that are not finite."""

    def begin_update(self, explain: Callable[[], str]) -> None:
        """Store the function that explains an update whose gradient is not finite."""

    def handles_nonfinite(self) -> bool:
        """Tell whether clipping handles an update whose norm is not finite."""

    def check_last_norm(self) -> None:
        """Read the norms that are still on the GPU, and handle non-finite ones.

        Raises:
            UserError: if that ends the training.
        """


def unwrapped(model: nn.Module) -> nn.Module:
    """Return a model without the wrappers that share its gradients with other processes."""
    while hasattr(model, "module"):  # the name in torch's and fairseq's wrappers
        model = model.module
    return model


def patience_count() -> dict:
    """Return the mutable count of ``--patience``, which fairseq keeps as a function's attributes.

    It has the best validation, and the number since; without any it is empty.
    """
    program = sys.modules.get("fairseq_cli.train")
    return {} if program is None else vars(program.should_stop_early)


def keep_freed_memory() -> None:
    """Keep freed memory in the process, because each update needs as much as the last.

    glibc gives large pieces back to the system, which clears each page before it hands it out
    again. Other C libraries stay as they are.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        for name, value in _KEEPING.items():
            mallopt(name, value)


class ResumableTrainer(Trainer):
    """fairseq's trainer with complete state and one-line errors.

    Attributes:
        stop_request: the signal that this process has received.
        saved_at: the update of the last checkpoint, or None if there is none yet.
        is_ending: whether to end because of a signal, after the report of the epoch that has just
            been saved.
    """

    def __init__(self, cfg, task, model, criterion, quantizer=None) -> None:
        """Check options here too: fairseq-hydra-train loads plugins late."""
        check_configuration(cfg)
        self.stop_request = StopRequest()
        self.saved_at: int | None = None
        self.is_ending = False
        self._keeps_rate = False
        self._norm: Tensor | None = None
        self._unlogged: list[CopiedNumbers] = []
        super().__init__(cfg, task, model, criterion, quantizer)
        if not self.cuda:
            keep_freed_memory()

    # --- checkpoints ----------------------------------------------------------------------------

    def save_checkpoint(self, filename: str, extra_state: dict) -> str | None:
        """Save as fairseq does, with the counts that it forgets, and whole or not at all.

        fairseq counts ``--patience`` and ``--ema-update-freq`` anew whenever it is resumed.
        """
        self.log_updates()
        if not self.should_save_checkpoint_on_current_rank:
            return None
        path = os.path.abspath(filename)
        logger.info(f"Saving checkpoint to {path}")
        own = OwnFields(checkpoint.FORMAT, patience=dict(patience_count()))
        if self.cfg.ema.store_ema:
            own.ema_updates = self.ema.update_freq_counter
        if isinstance(self.lr_scheduler, ReduceLROnPlateauLRSchedule):
            schedule = self.lr_scheduler.lr_scheduler
            own.num_bad_epochs = schedule.num_bad_epochs
            own.cooldown_counter = schedule.cooldown_counter
        state = move_to_cpu(self.state_dict())
        checkpoint.write_checkpoint(state, extra_state, own, filename)
        logger.info(f"Finished saving checkpoint to {path}")
        self.saved_at = self.get_num_updates()
        return path

    def load_checkpoint(
        self,
        filename: str,
        reset_optimizer: bool = False,
        reset_lr_scheduler: bool = False,
        optimizer_overrides: dict | None = None,
        reset_meters: bool = False,
    ) -> dict | None:
        """Load as fairseq does, and report in one line what does not fit.

        fairseq compares the task's state (the words) only when it translates. It also steps the
        schedule, which ``resuming`` does as in an uninterrupted run.
        """
        self._keeps_rate = True
        # one process sends the others a checkpoint as a file of torch's
        new = list(_SENT - set(torch.serialization.get_safe_globals()))
        with checkpoint.naming_checkpoint(filename):
            with torch.serialization.safe_globals(new):
                try:
                    extra_state = super().load_checkpoint(
                        filename,
                        reset_optimizer,
                        reset_lr_scheduler,
                        optimizer_overrides,
                        reset_meters=True,
                    )
                except KeyError:
                    history = self._optim_history or [{}]
                    schedule = history[-1].get("lr_scheduler_state", {})
                    if not self.lr_scheduler.state_dict().keys() <= schedule.keys():
                        self._check_schedule("another schedule")
                    raise
            self._keeps_rate = False
            if extra_state is None:
                return None
            trained_with = extra_state.pop(checkpoint.LOST)
            keeps_schedule = not (reset_optimizer or reset_lr_scheduler)
            # with another order, parameters would mean something else although their shapes fit
            order = getattr(self.cfg.model, "decoder_order", None)
            its_order = trained_with["model.decoder_order"]
            if order and its_order and str(order) != str(its_order):
                raise UserError(f"--decoder-order {order}: it was trained with {its_order}")
            if keeps_schedule:
                self._check_schedule(trained_with["lr_scheduler._name"])
            if not (trained_with["has_optimizer"] or reset_optimizer):
                raise UserError(
                    f"checkpoint {filename} has weights but no optimizer state (as with "
                    "--no-save-optimizer-state): start from it with --finetune-from-model"
                )
            is_judged_anew = self._is_judged_anew(trained_with)
            if is_judged_anew:
                for count in ("best", "patience", "val_loss"):
                    extra_state.pop(count, None)
            self.task.load_state_dict(trained_with["task"])
            if reset_optimizer:  # another training begins
                self._previous_training_time = 0
            self._restore_counts(extra_state, reset_meters)
            if self.cfg.ema.store_ema and not trained_with["has_ema"]:
                logger.info(f"--store-ema: the averages begin with the parameters of {filename}")
            if keeps_schedule:
                self._load_plateau(is_judged_anew)
        return extra_state

    def _restore_counts(self, extra_state: dict, reset_meters: bool) -> None:
        """Restore the epoch's metrics and the averages of --store-ema."""
        at_beginning = extra_state["train_iterator"].get("iterations_in_epoch") == 0
        if "metrics" in extra_state and not reset_meters and not at_beginning:
            metrics.load_state_dict(checkpoint.metrics_of(extra_state))
            # fairseq would keep counting in the old one
            metrics._active_aggregators["default"] = metrics._aggregators["default"]
        if self.cfg.ema.store_ema:
            self.ema.update_freq_counter = OwnFields.of(extra_state).ema_updates or 0

    def _is_judged_anew(self, trained_with: dict) -> bool:
        """Return whether validations are measured differently from now on, and log it."""
        changes, metric = [], self.cfg.checkpoint.best_checkpoint_metric
        for name in checkpoint.JUDGEMENT:
            if name == "criterion.cost_scale" and metric != "loss":
                continue  # no other metric depends on it
            before, now = trained_with[name], OmegaConf.select(self.cfg, name)
            if before is not None and now is not None and str(before) != str(now):
                changes.append(f"{option_of(name.partition('.')[2])} was {before} and is {now}")
        if changes:
            changed = ", ".join(changes)
            logger.info(f"{changed}: the best validation and --patience are counted from here")
        return bool(changes)

    def _check_schedule(self, trained_with: str | None) -> None:
        name = OmegaConf.select(self.cfg, "lr_scheduler._name")
        if trained_with and name and trained_with != name:
            raise UserError(
                f"--lr-scheduler {name}: it was trained with {trained_with}; --reset-lr-scheduler "
                "begins the new one"
            )

    def _load_plateau(self, is_judged_anew: bool) -> None:
        if self._optim_history and isinstance(self.lr_scheduler, ReduceLROnPlateauLRSchedule):
            if is_judged_anew:
                self.lr_scheduler.lr_scheduler._reset()
                return
            own = OwnFields.of(self._optim_history[-1]["lr_scheduler_state"])
            vars(self.lr_scheduler.lr_scheduler).update(own.written())

    # --- updates --------------------------------------------------------------------------------

    def train_step(self, samples: list, raise_oom: bool = False) -> dict | None:
        """Make an update; name the sentences if its gradient is not finite.

        fairseq saves crash.pt and shows a traceback.
        """
        try:
            return super().train_step(samples, raise_oom)
        except FloatingPointError as problem:
            why = ""
            if isinstance(self.task, AlignmentTask):
                why = f" ({self.task.explain_update()})"
            raise UserError(
                f"update {self.get_num_updates() + 1}: {reason(problem)}{why};"
                " the checkpoints are as they were, and crash.pt beside them has the model: lower "
                "--lr or --clip-norm, or train with --optimizer rnnsearch_adadelta --nonfinite skip"
            ) from problem

    def _set_seed(self) -> None:
        """Seed each update's numbers as fairseq does, on the devices that draw any.

        ``torch.manual_seed`` formats a stack trace for each kind of device that is not in use.
        """
        seed = self.cfg.common.seed + self.get_num_updates()
        torch.default_generator.manual_seed(seed)
        if self.cuda:
            torch.cuda.manual_seed(seed)

    def clip_grad_norm(self, clip_norm: float) -> Tensor:
        """Clip as fairseq does, and return 0 for an update that the optimizer has dealt with.

        fairseq ends training if the norm is not finite, and waits for the GPU to report it. If the
        optimizer handles it, a norm on a GPU is kept for the log, and fairseq gets a 0.
        """
        norm = super().clip_grad_norm(clip_norm)
        optimizer = self.optimizer
        if not (isinstance(optimizer, NonfiniteHandler) and optimizer.handles_nonfinite()):
            return norm
        norm = torch.nan_to_num(norm, nan=0.0, posinf=0.0)
        if norm.device.type == "cpu" or self._grad_norm_buf is not None:  # which are compared
            return norm
        self._norm = norm
        return torch.zeros((), dtype=norm.dtype)

    def _reduce_and_log_stats(
        self, logging_outputs: list[dict], sample_size: float, grad_norm: Tensor | None = None
    ) -> dict:
        """Log as fairseq does, but read numbers from a GPU one update later, and for a log line.

        fairseq reads each number separately after every update, while the GPU has nothing to do.
        """
        if self.device.type == "cpu":
            return super()._reduce_and_log_stats(logging_outputs, sample_size, grad_norm)
        if grad_norm is None:  # of a validation
            return super()._reduce_and_log_stats(CopiedNumbers(logging_outputs).read(), sample_size)
        norm, self._norm = grad_norm if self._norm is None else self._norm, None
        self._unlogged.append(CopiedNumbers((logging_outputs, sample_size, norm)))
        # the first one starts fairseq's clocks
        is_first = metrics.get_meter("train", "ups") is None
        if is_first or self.get_num_updates() % self.cfg.common.log_interval == 0:
            self.log_updates()
        else:
            self._log_all_but(1)
        return {}

    def log_updates(self) -> None:
        """Log the pending updates, and handle non-finite ones."""
        with metrics.aggregate("train"), metrics.aggregate("train_inner"):
            self._log_all_but(0)
            if isinstance(self.optimizer, NonfiniteHandler):
                self.optimizer.check_last_norm()

    def _log_all_but(self, newest: int) -> None:
        while len(self._unlogged) > newest:
            super()._reduce_and_log_stats(*self._unlogged.pop(0).read())

    def lr_step(self, epoch: int, val_loss: float | None = None) -> float | None:
        """Step the schedule at the end of an epoch; end here if a signal has asked for it."""
        if self.is_ending:
            end_training(self)
        return None if self._keeps_rate else super().lr_step(epoch, val_loss)

    # --- data -----------------------------------------------------------------------------------

    def get_train_iterator(self, *args, **options) -> EpochBatchIterator:
        """Return fairseq's, whose processes end with the epoch and not with the training."""
        if isinstance(self.task, AlignmentTask):  # numbers may differ in later epochs
            self.task.batches_in_an_update = self.cfg.optimization.update_freq[0]
        return _without_keeping(super().get_train_iterator(*args, **options))

    def get_valid_iterator(self, *args, **options) -> EpochBatchIterator:
        """See ``get_train_iterator``."""
        return _without_keeping(super().get_valid_iterator(*args, **options))


def _without_keeping(iterator: EpochBatchIterator) -> EpochBatchIterator:
    iterator.persistent_workers = False
    return iterator
