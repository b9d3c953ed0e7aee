"""Where a training begins or goes on, and how it goes on there.

It goes on from the newest whole checkpoint in --save-dir, or begins at one that the user names, or
anew.
"""

import atexit
import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from fairseq_rnnsearch.errors import UserError, option_of
from fairseq_rnnsearch.files import lock, remove_unfinished
from fairseq_rnnsearch.runs.checkpoint import OwnFields, progress, read_checkpoint
from fairseq_rnnsearch.runs.checkpoint_file import ADVICE, copy_whole, verify
from fairseq_rnnsearch.runs.options import read_overrides
from fairseq_rnnsearch.runs.processes import check_equal, decided_by_first, refuse_in_all
from fairseq_rnnsearch.runs.trainer import patience_count

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default of --restore-file
LOCK = ".fairseq_rnnsearch.lock"
_RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


def lock_and_verify(verify: Callable[[str], None], save_dir: str) -> None:
    """Lock ``--save-dir`` until this process ends, before anything is done there.

    Args:
        verify: fairseq's check that the folder can be written.
    """
    os.makedirs(save_dir, exist_ok=True)
    try:
        _lock_once(Path(save_dir).resolve() / LOCK)
    except BlockingIOError:
        raise UserError(
            f"--save-dir {save_dir} is in use by another training: wait for its end, or name "
            "another --save-dir"
        ) from None
    verify(save_dir)


@functools.cache
def _lock_once(path: Path) -> None:
    """Lock a file until this process ends; later trainings in this process share the lock."""
    held = [lock(path)]
    # data-loading processes may outlive a killed training by seconds
    os.register_at_fork(after_in_child=lambda: held and os.close(held.pop()))
    atexit.register(lambda: held and path.unlink(missing_ok=True))


def choose_beginning(cfg: CheckpointConfig) -> dict[str, object]:
    """Choose to begin at the newest checkpoint in --save-dir, or where the options say.

    Returns:
        The changes to ``cfg`` that leave fairseq no choice.

    Raises:
        UserError: if a file that the user named, or every existing checkpoint, is unusable, or if a
            new training would overwrite what is in --save-dir.
    """
    other = cfg.finetune_from_model
    if cfg.restore_file != LAST:
        if other:
            raise UserError("--restore-file and --finetune-from-model exclude each other")
        _check_named(cfg)
        return {}
    resets = [option_of(name) for name in _RESETS if getattr(cfg, name)]
    if other and resets:
        raise UserError(f"--finetune-from-model and {resets[0]} exclude each other")
    newest = _newest_in(cfg)
    if newest:
        if other and _is_same(other, newest):
            raise UserError(
                f"--finetune-from-model {other} is in --save-dir {cfg.save_dir}, so this would "
                "resume that training instead: name another --save-dir"
            )
        if resets:
            logger.warning(
                f"{' '.join(resets)} with {newest}, a checkpoint of this training: leave out the "
                "options that reset when you start it again, or it is reset again"
            )
        return {"restore_file": newest, "finetune_from_model": None, "continue_once": None}
    named = cfg.continue_once or other
    if not named:
        return {}
    if not os.path.exists(named):
        option = "--continue-once" if cfg.continue_once else "--finetune-from-model"
        raise UserError(f"{option} {named} does not exist")
    # fairseq would look for the default name in another folder
    changes = {"restore_file": os.path.join(".", named) if named == LAST else named}
    changes |= {"finetune_from_model": None, "continue_once": None}
    if not cfg.continue_once:
        logger.info(f"fine-tuning {named}: its optimizer, meters and place in the data are left")
        changes |= dict.fromkeys(_RESETS, True)
    return changes


def _check_named(cfg: CheckpointConfig) -> None:
    """Refuse a --restore-file that is unusable, or that would overwrite what there is.

    A command may go back to a checkpoint in --save-dir, but not when it is started again.
    """
    named = cfg.restore_file
    if not os.path.exists(named):
        raise UserError(f"--restore-file {named} does not exist")
    verify(named)
    there = _checkpoints(cfg.save_dir)
    if not there or cfg.no_save:
        return
    if _is_same(os.path.dirname(named) or ".", cfg.save_dir):
        try:
            newest = _newest_in(cfg)
        except UserError:
            return  # only the named checkpoint is intact
        # names, because the folder may have been moved, or the command run from elsewhere
        of_newest = read_checkpoint(newest).get("cfg")
        begun_from = os.path.basename(
            of_newest["checkpoint"]["restore_file"] if of_newest else LAST
        )
        if _is_same(newest, named) or begun_from != os.path.basename(named):
            return
        problem = f"has begun the training of {newest} already"
    else:
        problem = f"is not in --save-dir {cfg.save_dir}, which holds checkpoints"
    raise UserError(
        f"--restore-file {named} {problem}: leave out --restore-file and --reset-* to go on from "
        "what is there; to begin anew on purpose, name another --save-dir or remove what is there"
    )


def _is_same(one: str, other: str) -> bool:
    """Tell whether two paths lead to the same file or folder."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _checkpoints(folder: str) -> list[str]:
    names = sorted(path.name for path in Path(folder).glob("checkpoint*.pt"))
    return [os.path.join(folder, name) for name in names]  # "./" and "//" remain


def _newest_in(cfg: CheckpointConfig) -> str | None:
    """Return the checkpoint in --save-dir to go on from, or None where there is none yet.

    It is the one with the most updates, whatever its name: ``checkpoint_last.pt`` is old if the
    training has gone on with --no-last-checkpoints since.

    Raises:
        UserError: if there are some, but none is usable.
    """
    last = os.path.join(cfg.save_dir, LAST)
    candidates, problems, reached = _checkpoints(cfg.save_dir), {}, {}
    if not candidates:
        return None
    for path in dict.fromkeys([last, *candidates] if not cfg.no_last_checkpoints else candidates):
        with _noting(problems, path):
            reached[path] = progress(path)
    for path in sorted(reached, key=lambda path: (reached[path], path == last, path), reverse=True):
        with _noting(problems, path):
            if path != last and not reached[path].can_go_on:  # of the last one the trainer says so
                raise UserError(
                    f"checkpoint {path} cannot be resumed (it lacks the optimizer's "
                    "state or the place in the data)"
                )
            verify(path)
            if not cfg.no_last_checkpoints and path != last and last in reached:
                older = f"checkpoint {last} is older (@ {reached[last].updates} updates)"
                problems.setdefault(last, older)
            if problems and path != last:
                said = f"going on from {path} instead (@ {reached[path].updates} updates)"
                first = sorted(problems, key=lambda path: path != last)
                logger.warning("; ".join([*map(problems.get, first), said]))
            return path
    raise UserError(
        "; ".join(problems.values()) + ". There is no other checkpoint to go on from: remove what "
        "is there to train from the beginning"
    )


@contextlib.contextmanager
def _noting(problems: dict[str, str], path: str) -> Iterator[None]:
    """Record what is wrong with a checkpoint, and continue without it."""
    try:
        yield
    except UserError as problem:
        problems[path] = str(problem).removesuffix(ADVICE)


# --- how it goes on ------------------------------------------------------------------------------


def start_or_resume(
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
    cfg = OmegaConf.merge(cfg, changes)  # a copy: checkpoints keep the options that the user gave
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
    patience_count().update(OwnFields.of(counts).patience or {})
    iterator = _place_in_the_data(cfg, trainer, extra_state, iterator_options)
    check_equal(trainer, iterator)
    _step_schedule(cfg, trainer, extra_state, iterator)
    if met := _reason_to_stop(trainer):
        logger.info(f"Stopping training due to {met}")
        trainer.cfg.optimization.max_epoch = -1  # ends the program's loop before it begins
    trainer.stop_request.listen()
    return extra_state, iterator


def _beginning(cfg: CheckpointConfig) -> tuple[dict[str, object], str]:
    """Return the changes to the options, and where the checkpoint would be."""
    changes = choose_beginning(cfg)
    last = os.path.join(cfg.save_dir, LAST)
    path = str(changes.get("restore_file", cfg.restore_file))
    if path == LAST:
        return changes, last
    is_newest = path != last and _is_same(os.path.dirname(path), cfg.save_dir)
    if is_newest and cfg.restore_file == LAST and not (cfg.no_last_checkpoints or cfg.no_save):
        copy_whole(path, last)  # which a kill prevented; a finished training writes no other
    return changes, path


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
    """Step the schedule with the loss of the finished epoch, as an uninterrupted run does.

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
    hours = trainer._previous_training_time / 3600
    most_hours = trainer.cfg.optimization.stop_time_hours
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
