"""What an interrupted training run must find again."""

import functools
import logging
import os
import sys
import time
from pathlib import Path
from types import ModuleType

from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer

from fairseq_rnnsearch.compat.checkpoints import ADVICE, progress, verify
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


def fall_back_on_older_checkpoints() -> None:
    """Go on from the newest checkpoint that is whole.

    Every checkpoint is compared with its check sums before a training goes on from it. Where
    ``checkpoint_last.pt`` is missing or damaged, others in ``--save-dir`` take its place, and a
    warning says so; fairseq ends with a traceback or begins from scratch without a word.
    """
    load = Trainer.load_checkpoint

    @functools.wraps(load)
    def load_usable(self, filename, *args, **options) -> dict | None:
        if not self.checkpoint_suffix:  # otherwise it is one of several parts
            filename = _agree_on_checkpoint(self, filename)
        return load(self, filename, *args, **options)

    Trainer.load_checkpoint = load_usable


def _agree_on_checkpoint(trainer: Trainer, filename: str) -> str:
    """What the first process has chosen, in all of them."""
    cfg, chosen, mistake = trainer.cfg.checkpoint, None, None
    if trainer.data_parallel_rank == 0:
        remove_unfinished(cfg.save_dir)
        try:
            chosen = choose_checkpoint(cfg, filename)
        except UserError as problem:
            mistake = problem
    if trainer.data_parallel_world_size > 1:
        chosen = distributed_utils.broadcast_object(
            chosen,
            src_rank=0,
            group=trainer.data_parallel_process_group,
            dist_device=trainer.device,
        )
    if mistake is not None:
        raise mistake
    if chosen is None:
        time.sleep(2)  # the first process says why, before torchrun ends it because of this one
        raise SystemExit(1)
    return chosen


def choose_checkpoint(cfg: CheckpointConfig, filename: str) -> str:
    """The checkpoint to go on from instead of ``filename``; that itself where there is none yet.

    Raises:
        UserError: when a file named by the user, or every checkpoint there is, cannot be used.
    """
    if filename == cfg.restore_file:
        if not PathManager.exists(filename):
            raise UserError(f"--restore-file {filename} does not exist")
        if os.path.exists(filename):
            verify(filename)
        return filename
    if filename != os.path.join(cfg.save_dir, "checkpoint_last.pt"):
        return filename  # of --finetune-from-model
    names = sorted(path.name for path in Path(cfg.save_dir).glob("checkpoint*.pt"))
    candidates = [os.path.join(cfg.save_dir, name) for name in names]  # "./" and "//" remain
    problems = []
    if filename in candidates and not cfg.no_last_checkpoints:
        try:
            verify(filename)
            return filename
        except UserError as problem:
            problems.append(str(problem).removesuffix(ADVICE))
            candidates.remove(filename)
    elif candidates and not cfg.no_last_checkpoints:
        problems.append(f"checkpoint {filename} does not exist")
    return _newest(candidates, problems) if candidates or problems else filename


def _newest(candidates: list[str], problems: list[str]) -> str:
    """The usable one with the most updates.

    Args:
        problems: what is wrong with those before; said in a warning, or in the error.
    """
    updates = {}
    for path in candidates:
        try:
            updates[path] = progress(path)
        except UserError as problem:
            problems.append(str(problem).removesuffix(ADVICE))
    for path in sorted(updates, key=lambda path: (updates[path], path), reverse=True):
        try:
            verify(path)
        except UserError as problem:
            problems.append(str(problem).removesuffix(ADVICE))
            continue
        if problems:
            problems.append(f"going on from {path} instead (@ {updates[path]} updates)")
            logger.warning("; ".join(problems))
        return path
    raise UserError(
        "; ".join(problems) + ". There is no other checkpoint to go on from: remove what is there "
        "to train from the beginning"
    )
