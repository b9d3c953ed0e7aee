"""What an interrupted training run must find again."""

import copy
import functools
import logging
import os
import sys
from pathlib import Path
from types import ModuleType

from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.file_io import PathManager
from fairseq.logging import metrics
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer

from fairseq_rnnsearch.compat.checkpoints import ADVICE, progress, verify
from fairseq_rnnsearch.compat.processes import decided_by_first, refuse_in_all
from fairseq_rnnsearch.compat.saving import remove_unfinished
from fairseq_rnnsearch.errors import UserError

logger = logging.getLogger(__name__)


def let_patience_survive_a_resume() -> None:
    """Keep --patience's count in the checkpoint; fairseq begins anew whenever it is resumed."""
    save, load = Trainer.save_checkpoint, checkpoint_utils.load_checkpoint

    @functools.wraps(save)
    def save_with_count(self, filename, extra_state) -> None:
        return save(self, filename, {**extra_state, "patience": dict(_patience() or {})})

    @functools.wraps(load)
    def load_with_count(cfg, trainer, **iterator_options) -> tuple:
        extra_state, iterator = load(cfg, trainer, **iterator_options)
        count = (extra_state or {}).get("patience", {})
        if _patience() is not None and not (cfg.reset_meters or cfg.reset_optimizer):
            _patience().update(
                {name: count[name] for name in ("best", "num_runs") if name in count}
            )
        return extra_state, iterator

    Trainer.save_checkpoint, checkpoint_utils.load_checkpoint = save_with_count, load_with_count


def let_schedules_survive_a_resume() -> None:
    """Tell a schedule of the loss of the epoch that a checkpoint ends, as an unbroken run does.

    fairseq saves before it tells; resumed, it does not tell any more. And reduce_lr_on_plateau
    leaves out of the checkpoint for how many epochs nothing has improved.
    """
    load = checkpoint_utils.load_checkpoint

    @functools.wraps(load)
    def load_and_tell(cfg, trainer, **iterator_options) -> tuple:
        trainer.lr_step = lambda epoch: None  # what fairseq does here comes below
        try:
            extra_state, iterator = load(cfg, trainer, **iterator_options)
        finally:
            del trainer.lr_step
        reset = cfg.reset_dataloader or cfg.reset_lr_scheduler or cfg.reset_optimizer
        if extra_state and not reset and iterator.epoch > 1 and not iterator.iterations_in_epoch:
            trainer.lr_step(iterator.epoch - 1, extra_state.get("val_loss"))
        else:
            trainer.lr_step(iterator.epoch)
        return extra_state, iterator

    checkpoint_utils.load_checkpoint = load_and_tell
    _keep_in_checkpoints(ReduceLROnPlateauLRSchedule, ("num_bad_epochs", "cooldown_counter"))


def _keep_in_checkpoints(schedule: type, counts: tuple[str, ...]) -> None:
    """Add these, of the torch schedule inside it, to the state of one of fairseq's schedules."""
    state_dict, load_state_dict = schedule.state_dict, schedule.load_state_dict

    def with_counts(self) -> dict:
        return {**state_dict(self), **{name: getattr(self.lr_scheduler, name) for name in counts}}

    def load_with_counts(self, state: dict) -> None:
        load_state_dict(self, state)
        for name in counts:
            setattr(self.lr_scheduler, name, state.get(name, getattr(self.lr_scheduler, name)))

    schedule.state_dict, schedule.load_state_dict = with_counts, load_with_counts


def _patience() -> dict | None:
    """fairseq keeps the count as attributes of a function."""
    program = sys.modules.get("fairseq_cli.train")
    return vars(program.should_stop_early) if program else None


def let_finished_runs_stay_finished(program: ModuleType) -> None:
    """Train no further when a run that has met its end is started again; fairseq adds an update.

    Args:
        program: ``fairseq_cli.train``.
    """
    train = program.train

    def reason(cfg, trainer: Trainer) -> str | None:
        updates, most = trainer.get_num_updates(), cfg.optimization.max_update
        if most and updates >= most:
            return f"num_updates: {updates} >= max_update: {most}"
        patience, runs = cfg.checkpoint.patience, (_patience() or {}).get("num_runs", 0)
        if 0 < patience <= runs:
            return f"valid performance hasn't improved for last {patience} runs"
        return None

    @functools.wraps(train)
    def train_unless_finished(cfg, trainer, task, epoch_itr) -> tuple[list, bool]:
        if met := reason(cfg, trainer):
            logger.info(f"Stopping training due to {met}")
            return [None], True
        return train(cfg, trainer, task, epoch_itr)

    program.train = train_unless_finished


def explain_what_does_not_fit_the_epoch() -> None:
    """One line where an epoch has fewer batches than were used of it; fairseq asks for a report."""
    load = EpochBatchIterator.load_state_dict

    @functools.wraps(load)
    def load_or_explain(self, state_dict: dict) -> None:
        try:
            load(self, state_dict)
        except RuntimeError:
            used = state_dict["iterations_in_epoch"]
            refuse_place(self, f"{used} of its batches have been used, and it has {len(self)} now")

    EpochBatchIterator.load_state_dict = load_or_explain


def refuse_place(iterator: EpochBatchIterator, why: str) -> None:
    """End the training, because it cannot go on in the middle of an epoch."""
    mistake = UserError(
        f"cannot go on in the middle of epoch {iterator.epoch}: {why}; give --batch-size, "
        "--max-tokens, --seed, --max-train-words, --batch-order and the data as they were before, "
        "or begin the epoch anew with --reset-dataloader"
    )
    refuse_in_all(mistake, iterator.shard_id)


def let_the_epoch_begin_anew() -> None:
    """Begin the epoch of the checkpoint anew with --reset-dataloader; fairseq begins the first.

    It would count epochs from 1 again, and write the first epochs' checkpoints again. With
    --reset-optimizer another training begins, which counts its own.
    """
    load = checkpoint_utils.load_checkpoint

    @functools.wraps(load)
    def load_at_the_beginning(cfg, trainer, **iterator_options) -> tuple:
        if not cfg.reset_dataloader or cfg.reset_optimizer:
            return load(cfg, trainer, **iterator_options)

        def load_without_place(*args, **options) -> dict | None:
            extra_state = Trainer.load_checkpoint(trainer, *args, **options)
            if extra_state:
                place = extra_state["train_iterator"]
                place["iterations_in_epoch"] = 0
                metrics.reset_meters("train")
                logger.info(f"epoch {place['epoch']} begins anew (--reset-dataloader)")
            return extra_state

        trainer.load_checkpoint = load_without_place
        try:
            return load(_changed(cfg, reset_dataloader=False), trainer, **iterator_options)
        finally:
            del trainer.load_checkpoint

    checkpoint_utils.load_checkpoint = load_at_the_beginning


def let_averages_begin_on_a_resume() -> None:
    """Begin --store-ema with the parameters of a checkpoint without averages.

    fairseq means to, but has deleted them by then. And it leaves out of the checkpoint how many
    updates have passed since the last that --ema-update-freq counts.
    """
    save, load = Trainer.save_checkpoint, Trainer.load_checkpoint

    @functools.wraps(save)
    def save_with_count(self, filename, extra_state) -> str | None:
        if self.cfg.ema.store_ema:
            extra_state = {**extra_state, "ema_updates": self.ema.update_freq_counter}
        return save(self, filename, extra_state)

    @functools.wraps(load)
    def load_with_averages(self, filename, *args, **options) -> dict | None:
        if not self.cfg.ema.store_ema:
            return load(self, filename, *args, **options)
        read = checkpoint_utils.load_checkpoint_to_cpu

        def read_with_averages(*args, **options) -> dict:
            state = read(*args, **options)
            if "ema" not in state["extra_state"]:
                logger.info(f"--store-ema: the averages begin with the parameters of {filename}")
                state["extra_state"]["ema"] = dict(state["model"])
            return state

        checkpoint_utils.load_checkpoint_to_cpu = read_with_averages
        try:
            extra_state = load(self, filename, *args, **options)
        finally:
            checkpoint_utils.load_checkpoint_to_cpu = read
        if extra_state:
            self.ema.update_freq_counter = extra_state.get("ema_updates", 0)
        return extra_state

    Trainer.save_checkpoint, Trainer.load_checkpoint = save_with_count, load_with_averages


def begin_at_the_newest_checkpoint() -> None:
    """Go on from the newest checkpoint in --save-dir that is whole, if there is any.

    Every checkpoint is compared with its check sums before a training goes on from it. Where
    ``checkpoint_last.pt`` is missing or damaged, others take its place, and a warning says so.
    fairseq looks for that file alone: without it, it begins from scratch, or with
    --finetune-from-model once more from the other model, without a word.
    """
    load = checkpoint_utils.load_checkpoint

    @functools.wraps(load)
    def load_newest(cfg, trainer, **iterator_options) -> tuple:
        if not trainer.checkpoint_suffix:  # otherwise it is one of several parts

            def decide() -> dict:
                remove_unfinished(cfg.save_dir)
                return choose_beginning(cfg)

            cfg = _changed(cfg, **decided_by_first(trainer, decide))
        return load(cfg, trainer, **iterator_options)

    checkpoint_utils.load_checkpoint = load_newest


def _changed(cfg: CheckpointConfig, **options: object) -> CheckpointConfig:
    """A copy with other values: checkpoints keep what the user has asked for."""
    cfg = copy.copy(cfg)
    for name, value in options.items():
        setattr(cfg, name, value)
    return cfg


_LAST = "checkpoint_last.pt"  # the default of --restore-file
_RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


def choose_beginning(cfg: CheckpointConfig) -> dict[str, object]:
    """Where a training begins: at the newest checkpoint in --save-dir, or where it is told to.

    Returns:
        What to change in ``cfg``, so that fairseq has no choice.

    Raises:
        UserError: when a file named by the user, or every checkpoint there is, cannot be used, or
            when what is in --save-dir would be overwritten by a training that begins anew.
    """
    other = cfg.finetune_from_model
    if cfg.restore_file != _LAST:
        if other:
            raise UserError("--restore-file and --finetune-from-model exclude each other")
        _check_named(cfg)
        return {}
    resets = [f"--{name.replace('_', '-')}" for name in _RESETS if getattr(cfg, name)]
    if other and resets:
        raise UserError(f"--finetune-from-model and {resets[0]} exclude each other")
    newest = _newest_in(cfg)
    if newest:
        if other and _is_same(other, newest):
            raise UserError(
                f"--finetune-from-model {other} is in --save-dir {cfg.save_dir}, where it would be "
                "gone on from: name another --save-dir"
            )
        if resets:
            logger.warning(
                f"{' '.join(resets)} with {newest}, a checkpoint of this training: leave out what "
                "resets when it is started again, which would do so once more"
            )
        return {"restore_file": newest, "finetune_from_model": None, "continue_once": None}
    named = cfg.continue_once or other
    if not named:
        return {}
    if not PathManager.exists(named):
        option = "--continue-once" if cfg.continue_once else "--finetune-from-model"
        raise UserError(f"{option} {named} does not exist")
    # a name that fairseq takes for a file in another folder when it is the default
    changes = {"restore_file": os.path.join(".", named) if named == _LAST else named}
    changes |= {"finetune_from_model": None, "continue_once": None}
    if not cfg.continue_once:
        logger.info(f"fine-tuning {named}: its optimizer, meters and place in the data are left")
        changes |= dict.fromkeys(_RESETS, True)
    return changes


def _check_named(cfg: CheckpointConfig) -> None:
    """Refuse a --restore-file that is unusable, or that would overwrite what there is.

    A checkpoint in --save-dir may be gone back to, but not by a command that is started again.
    """
    named = cfg.restore_file
    if not PathManager.exists(named):
        raise UserError(f"--restore-file {named} does not exist")
    if os.path.exists(named):
        verify(named)
    there = _checkpoints(cfg.save_dir)
    if not there or cfg.no_save:
        return
    if _is_same(os.path.dirname(named) or ".", cfg.save_dir):
        try:
            newest = _newest_in(cfg)
        except UserError:
            return  # what is named is the only one that is whole
        if _is_same(newest, named) or not _is_same(_named_for(newest), named):
            return
        found = f"has begun the training of {newest} already"
    else:
        found = f"is not in --save-dir {cfg.save_dir}, which holds checkpoints"
    raise UserError(
        f"--restore-file {named} {found}: leave out --restore-file and --reset-* to go on from "
        "what is there; to begin anew on purpose, name another --save-dir or remove what is there"
    )


def _named_for(checkpoint: str) -> str:
    """The --restore-file of the command that has saved a checkpoint."""
    state = checkpoint_utils.load_checkpoint_to_cpu(checkpoint)
    return state["cfg"]["checkpoint"]["restore_file"] if state.get("cfg") else _LAST


def _is_same(one: str, other: str) -> bool:
    """Whether two paths lead to the same file or folder."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _checkpoints(folder: str) -> list[str]:
    names = sorted(path.name for path in Path(folder).glob("checkpoint*.pt"))
    return [os.path.join(folder, name) for name in names]  # "./" and "//" remain


def _newest_in(cfg: CheckpointConfig) -> str | None:
    """The checkpoint in --save-dir to go on from; None: there is none yet.

    Raises:
        UserError: when none of those that are there can be used.
    """
    last = os.path.join(cfg.save_dir, _LAST)
    candidates, problems = _checkpoints(cfg.save_dir), []
    if not candidates:  # the folder of an object store is not listed
        return last if PathManager.exists(last) else None
    if cfg.no_last_checkpoints:
        return _newest(candidates, problems)
    if last not in candidates:
        problems.append(f"checkpoint {last} does not exist")
        return _newest(candidates, problems)
    try:
        verify(last)
        return last
    except UserError as problem:
        problems.append(str(problem).removesuffix(ADVICE))
        candidates.remove(last)
        return _newest(candidates, problems)


def _newest(candidates: list[str], problems: list[str]) -> str:
    """The usable one that was saved last.

    Args:
        problems: what is wrong with those before; said in a warning, or in the error.
    """
    reached = {}
    for path in candidates:
        try:
            reached[path] = progress(path)
        except UserError as problem:
            problems.append(str(problem).removesuffix(ADVICE))
    for path in sorted(reached, key=lambda path: (reached[path], path), reverse=True):
        try:
            verify(path)
        except UserError as problem:
            problems.append(str(problem).removesuffix(ADVICE))
            continue
        if problems:
            problems.append(f"going on from {path} instead (@ {reached[path][1]} updates)")
            logger.warning("; ".join(problems))
        return path
    raise UserError(
        "; ".join(problems) + ". There is no other checkpoint to go on from: remove what is there "
        "to train from the beginning"
    )
