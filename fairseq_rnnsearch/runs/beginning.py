"""Where a training begins: at a checkpoint of its own, at one that the user names, or anew."""

import atexit
import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from fairseq.dataclass.configs import CheckpointConfig

from fairseq_rnnsearch.errors import UserError, option_of
from fairseq_rnnsearch.files import lock
from fairseq_rnnsearch.runs.checkpoints import ADVICE, progress, read_checkpoint, verify

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
    """Lock a file until this process ends; further trainings of it have the lock already."""
    held = [lock(path)]
    # processes that load data may outlive a killed training by seconds
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
    # a name that fairseq takes for a file in another folder when it is the default
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
            return  # the named one is the only whole one
        # names, because the folder may have been moved, or the command given from elsewhere
        begun_from = os.path.basename(_named_for(newest))
        if _is_same(newest, named) or begun_from != os.path.basename(named):
            return
        problem = f"has begun the training of {newest} already"
    else:
        problem = f"is not in --save-dir {cfg.save_dir}, which holds checkpoints"
    raise UserError(
        f"--restore-file {named} {problem}: leave out --restore-file and --reset-* to go on from "
        "what is there; to begin anew on purpose, name another --save-dir or remove what is there"
    )


def _named_for(checkpoint: str) -> str:
    """Return the --restore-file of the command that has saved a checkpoint."""
    cfg = read_checkpoint(checkpoint).get("cfg")
    return cfg["checkpoint"]["restore_file"] if cfg else LAST


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
                    f"checkpoint {path} holds no training to go on with (it lacks the optimizer's "
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
    """Note what is wrong with a checkpoint, and continue without it."""
    try:
        yield
    except UserError as problem:
        problems[path] = str(problem).removesuffix(ADVICE)
