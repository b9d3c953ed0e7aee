"""Checkpoints: read as data only, verified, with one-line errors, and written whole.

``torch.load(weights_only=True)`` reads tensors and plain values and nothing that could run code.
Only this file reads what older checkpoints of fairseq also hold: options in a ``Namespace``, and
the counts of ``--eval-bleu`` in arrays of numpy, which become lists. A crafted file can exhaust the
memory; the manual's page on security says so.

fairseq renames a checkpoint into place without flushing it, and writes the copies,
``checkpoint_last.pt`` and ``checkpoint_best.pt``, over the previous ones: a process or a machine
that dies meanwhile leaves only a truncated file. Here they appear whole or not at all.
"""

import argparse
import contextlib
import os
import pickletools
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from omegaconf import OmegaConf

from fairseq_rnnsearch.errors import UserError, first_sentence, reason, user_error
from fairseq_rnnsearch.files import replacing
from fairseq_rnnsearch.network.removed_options import drop_removed
from fairseq_rnnsearch.network.translation_model import current_names

_LONGEST_NAME = 500  # characters of a class, with its module
ADVICE = "; an older checkpoint may be whole"

# what a trainer compares of the configuration with which a checkpoint was trained
JUDGEMENT = (  # of validations
    *("checkpoint.best_checkpoint_metric", "checkpoint.maximize_best_checkpoint_metric"),
    "criterion.cost_scale",
)
OF_CONFIGURATION = ("model.decoder_order", "lr_scheduler._name", *JUDGEMENT)


def read_checkpoint(path: str | os.PathLike[str], *, whole: bool = True) -> Any:
    """Return what a checkpoint holds; every other reader in this package goes through here.

    Args:
        whole: compare its parts with their checksums; otherwise tensors are read when first used.

    Raises:
        UserError: if the file is damaged, not a checkpoint, or holds more than tensors and plain
            values.
    """
    if whole:
        verify(path)
    with _explained(path), torch.serialization.safe_globals(_OLDER):
        mapped = not whole and zipfile.is_zipfile(path)
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        return _with_current_names(state) if isinstance(state, dict) else state


def _with_current_names(state: dict[str, Any]) -> dict[str, Any]:
    """Rename the parameters of a checkpoint of this package's models, in place."""
    extra_state = state.get("extra_state")
    for parts, name in ((state, "model"), (extra_state, "ema")):
        if isinstance(parts, dict) and isinstance(parts.get(name), dict):
            parts[name] = current_names(parts[name])
    return state


def verify(path: str | os.PathLike[str]) -> None:
    """Compare every part of a checkpoint with its checksum; torch does not.

    Raises:
        UserError: when the file cannot be read, or a part is not what was written.
    """
    with _explained(path), open(path, "rb") as file:
        if file.read(4) == b"PK\3\4":  # a zip archive, as torch's are since 1.6
            with zipfile.ZipFile(file) as archive:
                if name := archive.testzip():
                    raise UserError(
                        f"checkpoint {path} is damaged: its part {name} is not what was written"
                        f"{ADVICE}"
                    )
                for name in archive.namelist():
                    if name.endswith("data.pkl"):
                        _refuse_long_names(archive.read(name))


def _refuse_long_names(description: bytes) -> None:
    """Refuse a class with a name that no class has: torch's message about it may take days."""
    for opcode, argument, _ in pickletools.genops(description):
        if opcode.name == "GLOBAL" and len(argument) > _LONGEST_NAME:
            raise ValueError(f"it holds a class with a name of {len(argument):,} characters")


def load_as_data(
    path: str, arg_overrides: dict | None = None, load_on_all_ranks: bool = False
) -> dict:
    """Load a checkpoint of tensors and plain values, and refuse all else.

    This replaces fairseq's ``load_checkpoint_to_cpu``, and treats old checkpoints and options that
    override those of the file in the same way. ``extra_state`` gets what fairseq's trainer loses:
    the ``task_state``, the parameters with which the averages of ``--store-ema`` begin, whether
    there is an optimizer's state, and the options of ``OF_CONFIGURATION``, on which no parameter's
    shape depends.

    Raises:
        UserError: if the file is damaged, is not a checkpoint, or holds anything else.
    """
    return as_fairseq_has_it(read_checkpoint(path), path, arg_overrides)


def as_fairseq_has_it(state: Any, path: str, arg_overrides: dict | None = None) -> dict:
    """Turn the result of `read_checkpoint` for a path into that of `load_as_data`, in place."""
    with _explained(path):
        if arg_overrides and state.get("args") is not None:
            vars(state["args"]).update(arg_overrides)
        if state.get("cfg") is not None:
            state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
            if arg_overrides:
                checkpoint_utils.overwrite_args_by_name(state["cfg"], arg_overrides)
        state = checkpoint_utils._upgrade_state_dict(state)
        model = state.get("model")
        if not isinstance(model, dict) or not all(map(torch.is_tensor, model.values())):
            raise UserError(f"checkpoint {path} holds no parameters of a model; is it fairseq's?")
        extra_state = state["extra_state"]
        extra_state["task_state"] = state.get("task_state") or {}
        cfg = state.get("cfg")
        if cfg and "decoder_order" in (options := cfg.get("model") or {}):  # a model of ours
            drop_removed(options)
        for name in OF_CONFIGURATION:
            extra_state[name] = cfg and OmegaConf.select(cfg, name)
        extra_state["has_optimizer"] = bool(state.get("last_optimizer_state"))
        extra_state["ema_is_new"] = "ema" not in extra_state
        extra_state.setdefault("ema", dict(model))
        return state


def check_registered(model: Any) -> None:
    """Refuse a model's configuration that nobody has registered.

    Raises:
        UserError: fairseq would miss one of its options.
    """
    name = getattr(model, "_name", None)
    if name and name not in ARCH_MODEL_REGISTRY and name not in MODEL_REGISTRY:
        raise UserError(
            f"the model is of --arch {name}, which nothing has registered: give the folder that "
            "does as --user-dir DIR (in Python user_dir)"
        )


def load_models_or_explain(
    load_models: Callable[..., tuple], filenames: list[str], *args, **kwargs
) -> tuple:
    """Let ``load_model_ensemble_and_task`` name the checkpoint in its errors."""
    with naming_checkpoint(*map(str, filenames)):
        return load_models(filenames, *args, **kwargs)


@contextlib.contextmanager
def naming_checkpoint(*paths: str) -> Iterator[None]:
    """Turn fairseq's errors into one line with the file's name."""
    path = ", ".join(paths)
    try:
        yield
    except Exception as problem:
        mistake = user_error(problem)
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
    except FileNotFoundError as problem:
        raise UserError(f"checkpoint {path} does not exist") from problem
    except Exception as problem:  # damaged files may raise anything
        if foreign := re.search(r"GLOBAL ([\w.]+)", str(problem)):
            raise UserError(
                f"checkpoint {path} refused: it holds {foreign[1]}, which is neither a tensor nor "
                "a plain value"
            ) from problem
        raise UserError(
            f"checkpoint {path} cannot be read ({os.path.getsize(path):,} bytes; "
            f"{first_sentence(problem):.200}): it may be truncated or no checkpoint{ADVICE}"
        ) from problem


class Progress(NamedTuple):
    """How far a training had come at a checkpoint; the later of two is the greater.

    Attributes:
        can_go_on: whether it holds the optimizer's state and the place in the data.
        starts: how often the training had started or resumed. It counts more than the updates,
            which begin again at 0 with --reset-optimizer.
        updates: how many it had made.
    """

    can_go_on: bool
    starts: int
    updates: int


def progress(path: str) -> Progress:
    """Return how far a training had come, without a look at the parameters.

    Raises:
        UserError: when the file cannot be read.
    """
    state = read_checkpoint(path, whole=False)
    with _explained(path):
        history = state["optimizer_history"]
        can_go_on = "train_iterator" in state["extra_state"] and state.get("last_optimizer_state")
        return Progress(bool(can_go_on), len(history), int(history[-1]["num_updates"]))


# --- writing -------------------------------------------------------------------------------------


def checkpoint_of_model(parameters: dict, options: dict, task: dict, task_state: dict) -> dict:
    """Return a checkpoint that holds a model but no training to resume.

    Args:
        options, task: those of the model and of the task, each with its ``_name``.
    """
    cfg = OmegaConf.to_container(OmegaConf.structured(FairseqConfig), enum_to_str=True)
    cfg["checkpoint"]["best_checkpoint_metric"] = "nll_loss"
    history = {"optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}
    return {
        "args": None,
        "cfg": cfg | {"model": options, "task": task, "criterion": {"_name": "alignment_heatmap"}},
        "model": parameters,
        "criterion": None,
        "optimizer_history": [history | {"num_updates": 0}],
        "task_state": task_state,
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }


def write_whole(state: dict, path: str) -> None:
    """Write a checkpoint under a temporary name in the same folder, flush it, and rename it."""
    with replacing(path, durable=True) as unfinished, open(unfinished, "wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as problem:
            # after "No space left on device", torch complains of a wrong position in the file
            of_the_disk = isinstance(problem.__context__, OSError)
            raise problem.__context__ if of_the_disk else problem from None


def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Write as ``write_whole`` does; this replaces fairseq's ``PathManager.copy``."""
    with replacing(dst_path, durable=True) as unfinished:
        shutil.copyfile(src_path, unfinished)
    return True


# --- numpy's values in older checkpoints ---------------------------------------------------------

_NUMBERS = "biuf"  # kinds of numpy's types; those of objects would be addresses in a forged file


class _Type:
    """Stands for ``numpy.dtype``, whose own unpickling trusts what a file says about its items."""

    def __init__(self, code: str, *_: object) -> None:
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple) -> None:
        self.order = "=" if state[1] == "|" else state[1]

    def values(self, content: bytes) -> np.ndarray:
        kind = np.dtype(str(self.code)).newbyteorder(self.order)
        if kind.kind not in _NUMBERS:
            raise ValueError(f"it holds an array of {kind!s:.40}")
        return np.frombuffer(content, kind)


class _Array(list):
    """Stands for ``numpy.ndarray``; becomes a list of its numbers."""

    def __init__(self, *_: object) -> None:
        super().__init__()

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, is_fortran, content = state
        order = "F" if is_fortran else "C"
        self[:] = kind.values(content).reshape(shape, order=order).tolist()


def _scalar(kind: _Type, content: bytes) -> int | float | bool:
    return kind.values(content)[0].item()


_OLDER = [
    argparse.Namespace,
    (_Type, "numpy.dtype"),
    (_Array, "numpy.ndarray"),
    *((_Array, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *((_scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]


def write_average(paths: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> None:
    """Write the last checkpoint with the mean of the parameters, without an optimizer's state."""
    *others, last = map(read_checkpoint, paths)
    for name, value in last["model"].items():
        total = sum((other["model"][name].double() for other in others), value.double())
        last["model"][name] = (total / len(paths)).to(value)
    torch.save(last | {"last_optimizer_state": None}, out)
