"""How an interrupted training resumes; ``beginning`` says where."""

import functools
import logging
import os
from collections.abc import Callable

from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import remove_unfinished
from fairseq_rnnsearch.runs.beginning import LAST, choose_beginning
from fairseq_rnnsearch.runs.options import read_overrides
from fairseq_rnnsearch.runs.process_agreement import check_equal
from fairseq_rnnsearch.runs.processes import decided_by_first, refuse_in_all
from fairseq_rnnsearch.runs.trainer import patience_count

logger = logging.getLogger(__name__)


def begin_or_go_on(
    load: Callable[..., tuple], cfg: CheckpointConfig, trainer: Trainer, **iterator_options
) -> tuple[dict | None, EpochBatchIterator]:
    """Begin a training, or resume from the newest whole checkpoint in --save-dir.

    Every checkpoint is compared with its check sums before a training goes on from it. Where
    ``checkpoint_last.pt`` is missing or damaged, others take its place, and a warning says so.
    fairseq looks only for that file. Without it, it silently begins from scratch, or, with
    --finetune-from-model, again from the other model.

    Args:
        load: fairseq's ``load_checkpoint``; trainers of models in several parts keep it, because
            each part has its own checkpoint.
        iterator_options: for ``trainer.get_train_iterator``.

    Returns:
        What the checkpoint holds beside model and optimizer, and the training's batches.
    """
    if trainer.checkpoint_suffix:
        return load(cfg, trainer, **iterator_options)
    if trainer.data_parallel_rank == 0:
        remove_unfinished(cfg.save_dir)
    changes, path = decided_by_first(trainer, functools.partial(_beginning, cfg))
    cfg = OmegaConf.merge(cfg, changes)  # a copy: checkpoints keep what the user has asked for
    extra_state = trainer.load_checkpoint(
        path,
        cfg.reset_optimizer,
        cfg.reset_lr_scheduler,
        read_overrides(cfg.optimizer_overrides),
        reset_meters=cfg.reset_meters,
    )
    counts = {} if cfg.reset_optimizer or cfg.reset_meters else extra_state or {}
    # fairseq-hydra-train -m makes several trainings in one program
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    if "best" in counts:
        checkpoint_utils.save_checkpoint.best = counts["best"]
    patience_count().clear()
    patience_count().update(counts.get("patience", {}))
    iterator = _place_in_the_data(cfg, trainer, extra_state, iterator_options)
    check_equal(trainer, iterator)
    _step_schedule(cfg, trainer, extra_state, iterator)
    if met := _reason_to_stop(trainer):
        logger.info(f"Stopping training due to {met}")
        trainer.train_no_further()
    trainer.stop_request.listen()
    return extra_state, iterator


def _beginning(cfg: CheckpointConfig) -> tuple[dict[str, object], str]:
    """Return the changes to the options, and where the checkpoint would be."""
    changes = choose_beginning(cfg)
    path = str(changes.get("restore_file", cfg.restore_file))
    return changes, os.path.join(cfg.save_dir, path) if path == LAST else path


def _place_in_the_data(
    cfg: CheckpointConfig, trainer: Trainer, extra_state: dict | None, options: dict
) -> EpochBatchIterator:
    """Return the batches from where the checkpoint has left off.

    With --reset-dataloader its epoch begins anew. fairseq would count epochs from 1 again, and
    write the first epochs' checkpoints again. With --reset-optimizer another training begins,
    which counts its own.
    """
    anew = cfg.reset_dataloader
    if extra_state is None or (anew and cfg.reset_optimizer):
        return trainer.get_train_iterator(epoch=1, load_dataset=True, **options)
    place = extra_state["train_iterator"]
    if anew:
        place["iterations_in_epoch"] = 0
        metrics.reset_meters("train")
        logger.info(f"epoch {place['epoch']} begins anew (--reset-dataloader)")
    iterator = trainer.get_train_iterator(epoch=place["epoch"], load_dataset=True, **options)
    go_on_at(iterator, place)
    task = trainer.task
    if hasattr(task, "set_checkpoint_dict") and (state := extra_state.get(type(task).__name__)):
        task.set_checkpoint_dict(state)
    return iterator


def go_on_at(iterator: EpochBatchIterator, place: dict) -> None:
    """Let batches begin where a checkpoint left off, if there are that many.

    If not, fairseq asks for a bug report.

    Raises:
        UserError: as ``refuse_place``.
    """
    try:
        iterator.load_state_dict(place)
    except RuntimeError:
        used, held = place["iterations_in_epoch"], len(iterator)
        refuse_place(iterator, f"{used} of its batches have been used, and it has {held} now")


def _step_schedule(
    cfg: CheckpointConfig, trainer: Trainer, extra_state: dict | None, iterator: EpochBatchIterator
) -> None:
    """Pass the schedule the loss of the epoch that a checkpoint ends, as an uninterrupted run does.

    fairseq saves first, and skips this step after resuming.
    """
    reset = cfg.reset_dataloader or cfg.reset_lr_scheduler or cfg.reset_optimizer
    if extra_state and not reset and iterator.epoch > 1 and not iterator.iterations_in_epoch:
        trainer.lr_step(iterator.epoch - 1, extra_state.get("val_loss"))
    else:
        trainer.lr_step(iterator.epoch)


def _reason_to_stop(trainer: Trainer) -> str | None:
    """Tell why a restarted run is already finished; fairseq would add an update."""
    updates, most = trainer.get_num_updates(), trainer.cfg.optimization.max_update
    if most and updates >= most:
        return f"num_updates: {updates} >= max_update: {most}"
    hours, most_hours = trainer.hours_before, trainer.cfg.optimization.stop_time_hours
    if 0 < most_hours < hours:
        return f"cumulative_training_time: {hours} > stop_time_hours: {most_hours} hour(s)"
    limit, runs = trainer.cfg.checkpoint.patience, patience_count().get("num_runs", 0)
    if 0 < limit <= runs:
        return f"valid performance hasn't improved for last {limit} runs"
    return None


def refuse_place(iterator: EpochBatchIterator, why: str) -> None:
    """End the training, because it cannot go on in the middle of an epoch."""
    mistake = UserError(
        f"cannot go on in the middle of epoch {iterator.epoch}: {why}; give --batch-size (in the "
        "paper's order, that of all processes together), --max-tokens, --seed, --max-train-words, "
        "--batch-order and the data as they were before, or begin the epoch anew with "
        "--reset-dataloader"
    )
    refuse_in_all(mistake, iterator.shard_id)
