"""Reading checkpoints: safely, and what is wrong with one in a line."""

import argparse
import collections
import contextlib
import functools
import os
import pickle
import re
import typing
import zipfile
from collections.abc import Iterator

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from fairseq_rnnsearch.errors import UserError, user_error

_last_read: dict = {}  # what this process has read of the last checkpoint
_verified: set[tuple] = set()  # those whose check sums agree

_NAMED = 5  # checkpoints of a folder in a message; checkpoint_best.pt and _last.pt come last

ADVICE = "; an older checkpoint can be named with --path or --restore-file"


def allow_plain_types_in_checkpoints() -> None:
    """Name the plain types that fairseq puts into files, so that ``weights_only`` can stay on."""
    dtype_classes = [getattr(np.dtypes, name) for name in np.dtypes.__all__]
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,  # options of fairseq's older models and optimizers
            # --eval-bleu keeps its counts as arrays
            np.ndarray,
            np.dtype,
            np._core.multiarray._reconstruct,
            np._core.multiarray.scalar,
            *dtype_classes,
            # several processes resume: rank 0 sends the loaded state through torch.save
            DictConfig,
            ListConfig,
            ContainerMetadata,
            Metadata,
            AnyNode,
            typing.Any,
            dict,
            list,
            int,
            collections.defaultdict,
            distributed_utils._TensorPlaceholder,
        ]
    )


def refuse_other_checkpoints_in_one_line() -> None:
    """One line instead of a traceback for a file that is damaged, no checkpoint, or holds more."""
    load = checkpoint_utils.load_checkpoint_to_cpu

    @functools.wraps(load)
    def load_or_explain(path, *args, **kwargs) -> dict:
        verify(path)
        with _explained(path):
            state = load(path, *args, **kwargs)
        _check_parts(path, state)
        _last_read["task_state"] = state.get("task_state")
        return state

    checkpoint_utils.load_checkpoint_to_cpu = load_or_explain


def explain_what_does_not_fit_a_checkpoint() -> None:
    """One line that names the checkpoint, where fairseq raises something without its name."""
    load_models = checkpoint_utils.load_model_ensemble_and_task
    resume = Trainer.load_checkpoint

    @functools.wraps(load_models)
    def load_models_or_explain(filenames, *args, **kwargs) -> tuple:
        with _named(*map(str, filenames)):
            return load_models(filenames, *args, **kwargs)

    @functools.wraps(resume)
    def resume_or_explain(self, filename, *args, **kwargs) -> dict | None:
        with _named(filename):
            _last_read.clear()
            extra_state = resume(self, filename, *args, **kwargs)
            # fairseq compares the task's state only where it translates
            self.task.load_state_dict(_last_read.get("task_state") or {})
            return extra_state

    checkpoint_utils.load_model_ensemble_and_task = load_models_or_explain
    Trainer.load_checkpoint = resume_or_explain


@contextlib.contextmanager
def _named(*paths: str) -> Iterator[None]:
    path = ", ".join(paths)
    try:
        yield
    except OSError as problem:
        # "Model file not found: ..."
        raise UserError(f"checkpoint {path}: {problem}") from problem
    except Exception as problem:
        mistake = user_error(problem)
        if mistake is not None:
            message = str(mistake)
            raise UserError(
                message if any(one in message for one in paths) else f"checkpoint {path}: {message}"
            ) from problem
        # fairseq raises a new exception in the place of the one that says what is wrong
        reason = first_sentence(problem.__context__ or problem)
        raise UserError(
            f"checkpoint {path} does not fit the model, the options or the data ({reason}); give "
            "those that it was trained with"
        ) from problem


def first_sentence(problem: Exception) -> str:
    """What torch says, without the place in its source and what it advises."""
    text = re.sub(r"^\[[^]]*\] ", "", str(problem).partition("\n")[0])
    return text.partition(". ")[0] or type(problem).__name__


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Errors of reading a checkpoint as `UserError`."""
    try:
        yield
    except pickle.UnpicklingError as problem:
        found = str(problem).partition("GLOBAL ")[2].split(" ")[0] or "an unreadable pickle"
        raise UserError(
            f"checkpoint {path} refused: it holds {found.rstrip('.')}, and only tensors and "
            "plain values are loaded, because anything else can run code"
        ) from problem
    except UserError:
        raise
    except Exception as problem:  # damage can be anywhere, and then raises anything
        if not os.path.exists(path):
            raise UserError(f"checkpoint {path} does not exist") from problem
        if os.path.isdir(path):
            raise UserError(f"checkpoint {path} is a folder; {_checkpoints_in(path)}") from problem
        reason = first_sentence(problem)
        raise UserError(
            f"checkpoint {path} cannot be read ({os.path.getsize(path):,} bytes; {reason}): "
            f"it may be truncated or no checkpoint{ADVICE}"
        ) from problem


def _checkpoints_in(folder: str) -> str:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".pt"))
    if not names:
        return "it holds no file named like checkpoint_best.pt"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"name one of those that it holds: {', '.join(names[-_NAMED:])}{more}"


def progress(path: str) -> tuple[int, int]:
    """How far a training had come at a checkpoint, read without its tensors.

    Returns:
        How often it had begun or gone on, and the update. The first counts more: with
        --reset-optimizer updates begin again at 0.

    Raises:
        UserError: when the file cannot be read, or no training can go on from it.
    """
    with _explained(path):
        # files of torch before 1.6 are no archives and cannot be mapped
        state = torch.load(
            path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
        )
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
    with _explained(path):
        if not zipfile.is_zipfile(path):
            torch.load(path, map_location="cpu", weights_only=True)
            return
        found = os.stat(path)
        version = os.path.abspath(path), found.st_ino, found.st_mtime_ns, found.st_size
        if version in _verified:  # a training that is resumed has chosen among its checkpoints
            return
        try:
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()
        except (zipfile.BadZipFile, NotImplementedError) as problem:
            raise EOFError(str(problem)) from problem
    if damaged:
        raise UserError(
            f"checkpoint {path} is damaged: its part {damaged} is not what was written{ADVICE}"
        )
    _verified.add(version)


def _check_parts(path: str, state: dict) -> None:
    model = state.get("model")
    if not isinstance(model, dict) or not all(isinstance(v, torch.Tensor) for v in model.values()):
        raise UserError(f"checkpoint {path} holds no parameters of a model; is it fairseq's?")
