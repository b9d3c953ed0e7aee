"""fairseq's reading of checkpoints: safely, and what is wrong with one in a line."""

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from omegaconf import OmegaConf

from fairseq_rnnsearch.compat import checkpoint_files
from fairseq_rnnsearch.compat.checkpoint_format import check_format
from fairseq_rnnsearch.compat.plain_pickle import parts_of
from fairseq_rnnsearch.data.zip_files import Refused
from fairseq_rnnsearch.errors import UserError, first_sentence, is_defect, reason, user_error

_NAMED = 5  # checkpoints of a folder in a message; checkpoint_best.pt and _last.pt come last
SIZES = {
    "encoder_embed_dim",
    "encoder_hidden_size",
    "decoder_embed_dim",
    "decoder_hidden_size",
    "attention_size",
    "maxout_size",
}
LARGE = 2000  # a model whose sizes are all as small can be built anywhere
ADVICE = "; an older checkpoint can be named with --path or --restore-file"


def read_checkpoint(path: str | os.PathLike[str], *, tensors: bool = True) -> object:
    """Return what a checkpoint holds; every other reader in this package goes through here.

    Args:
        tensors: without them, None stands for each.

    Raises:
        UserError: when the file is damaged, no checkpoint, or holds more than tensors and plain
            values.
    """
    with _explained(path), open(path, "rb") as file:
        return checkpoint_files.read(file, tensors)


def load_as_data(
    path: str, arg_overrides: dict | None = None, load_on_all_ranks: bool = False
) -> dict:
    """Load a checkpoint of tensors and plain values, and refuse all else.

    This takes the place of fairseq's ``load_checkpoint_to_cpu``. What is done beside, for old
    checkpoints and for options that override those of the file, is as there.

    Raises:
        UserError: when the file is damaged, no checkpoint, or holds more.
    """
    with _explained(path):
        with open(_local(path, load_on_all_ranks), "rb") as file:
            state = checkpoint_files.read(file)
        _refuse_references([state.get("cfg"), state.get("args")])
        _refuse_sizes(state)
        if arg_overrides and state.get("args") is not None:
            vars(state["args"]).update(arg_overrides)
        if state.get("cfg") is not None:
            state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
            if arg_overrides:
                checkpoint_utils.overwrite_args_by_name(state["cfg"], arg_overrides)
        state = checkpoint_utils._upgrade_state_dict(state)
    model = state.get("model")
    if not isinstance(model, dict) or not all(isinstance(v, torch.Tensor) for v in model.values()):
        raise UserError(f"checkpoint {path} holds no parameters of a model; is it fairseq's?")
    check_format(path, state)
    return state


def _local(path: str, load_on_all_ranks: bool) -> str:
    """Return a file of this machine; of an object store a new copy, as fairseq makes it."""
    local = PathManager.get_local_path(path)
    if local != path and PathManager.path_requires_pathmanager(path):
        with contextlib.suppress(FileNotFoundError):
            os.remove(local)
        if load_on_all_ranks:
            torch.distributed.barrier()
        local = PathManager.get_local_path(path)
    return local


def task_state_of(path: str) -> dict:
    """Return what a task has left in a checkpoint, such as its words; read without tensors."""
    state = read_checkpoint(PathManager.get_local_path(path), tensors=False)
    return (state.get("task_state") if isinstance(state, dict) else None) or {}


def _refuse_references(options: object) -> None:
    """Refuse options with ``${...}``, which fairseq would follow, and never saves.

    One that names another twice, which names a third twice and so on, becomes a text without end.
    """
    waiting = [options]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and "${" in value:
            raise Refused(f"its option {value!r:.60} refers to others")
        waiting += parts_of(value)


def _refuse_sizes(state: dict) -> None:
    """Refuse sizes that the parameters are too few for.

    fairseq builds a model as large as the options say before it looks at the parameters."""
    cfg, model = state.get("cfg"), state.get("model")
    options = cfg.get("model") if isinstance(cfg, dict) else state.get("args")
    options = vars(options) if isinstance(options, argparse.Namespace) else options
    if not isinstance(options, dict) or not isinstance(model, dict):
        return
    numbers = sum(value.numel() for value in model.values() if isinstance(value, torch.Tensor))
    for name in SIZES & options.keys():
        size = options[name]
        # matrices have about as many rows as columns
        if isinstance(size, int) and size > LARGE and size * size > 4 * numbers:
            raise Refused(
                f"its option {name} is {size:,}, and its parameters are {numbers:,} numbers in all"
            )


def load_models_or_explain(
    load_models: Callable[..., tuple], filenames: list[str], *args, **kwargs
) -> tuple:
    """Let ``load_model_ensemble_and_task`` name the checkpoint in what it raises."""
    with naming_checkpoint(*map(str, filenames)):
        return load_models(filenames, *args, **kwargs)


@contextlib.contextmanager
def naming_checkpoint(*paths: str) -> Iterator[None]:
    """Say in one line, with the file's name, what fairseq raises without it."""
    path = ", ".join(paths)
    try:
        yield
    except Exception as problem:
        mistake = user_error(problem)
        if mistake is None and is_defect(problem):
            raise
        said = reason(problem) if mistake is None else str(mistake)
        if mistake is None and not isinstance(problem, OSError):
            # fairseq raises a new exception in the place of the one that says what is wrong
            said = reason(problem.__context__ or problem)
            said = f"does not fit the model, the options or the data ({said})"
            said = f"checkpoint {path} {said}; give those that it was trained with"
        is_named = any(one in said for one in paths)
        raise UserError(said if is_named else f"checkpoint {path}: {said}") from problem


@contextlib.contextmanager
def _explained(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise errors of reading a checkpoint as `UserError`."""
    try:
        yield
    except UserError:
        raise
    except Refused as problem:
        raise UserError(f"checkpoint {path} refused: {problem}") from problem
    except checkpoint_files.Damaged as problem:
        raise UserError(
            f"checkpoint {path} is damaged: its part {problem} is not what was written{ADVICE}"
        ) from problem
    except Exception as problem:  # damage can be anywhere, and then raises anything
        if not os.path.exists(path):
            raise UserError(f"checkpoint {path} does not exist") from problem
        if os.path.isdir(path):
            raise UserError(f"checkpoint {path} is a folder; {_checkpoints_in(path)}") from problem
        raise UserError(
            f"checkpoint {path} cannot be read ({os.path.getsize(path):,} bytes; "
            f"{first_sentence(problem):.200}): it may be truncated or no checkpoint{ADVICE}"
        ) from problem


def _checkpoints_in(folder: str) -> str:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".pt"))
    if not names:
        return "it holds no file named like checkpoint_best.pt"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"name one of those that it holds: {', '.join(names[-_NAMED:])}{more}"


def progress(path: str) -> tuple[int, int]:
    """Tell how far a training had come at a checkpoint, read without its tensors.

    Returns:
        How often it had begun or gone on, and the update. The first counts more: with
        --reset-optimizer updates begin again at 0.

    Raises:
        UserError: when the file cannot be read, or no training can go on from it.
    """
    state = read_checkpoint(path, tensors=False)
    if isinstance(state, dict) and "optimizer_history" in state:
        check_format(path, {"optimizer_history": state["optimizer_history"]})
    try:
        if "train_iterator" in state["extra_state"] and state["last_optimizer_state"]:
            history = state["optimizer_history"]
            return len(history), history[-1]["num_updates"]
    except (KeyError, IndexError, TypeError):
        pass
    raise UserError(
        f"checkpoint {path} holds no training to go on with (it lacks the optimizer's state or the "
        "place in the data)"
    )


def verify(path: str) -> None:
    """Compare every part of a checkpoint with its check sum; torch does not.

    Raises:
        UserError: when the file cannot be read, or a part is not what was written.
    """
    with _explained(path), open(path, "rb") as file:
        checkpoint_files.verify(file)
