"""What a checkpoint holds, and how it is read and written.

A checkpoint is fairseq's, a dictionary of these parts:

model                  parameters by name; those of ``--store-ema`` are ``extra_state["ema"]``
cfg                    all options of the training
optimizer_history      of each start: criterion, optimizer, updates, and the schedule's state
last_optimizer_state   the optimizer's averages by the parameter's number
task_state             what the task keeps
extra_state            the rest of a training: meters, the best validation, hours, and in
                       ``train_iterator`` the place in the data

`OwnFields` is what this package adds to them; everything else has fairseq's meaning.
``checkpoint_file`` reads and writes the file as such.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from omegaconf import OmegaConf
from torch.utils._pytree import tree_map

from fairseq_rnnsearch.errors import UserError, reason, user_error
from fairseq_rnnsearch.older_models import current_names, drop_removed
from fairseq_rnnsearch.runs.checkpoint_file import explained, read_data, write_whole

FORMAT = 1  # raised when a field changes its meaning, so that older programs refuse the checkpoint


def _about(part: str, since: str, why: str) -> dict[str, str]:
    return {"part": part, "since": since, "why": why}


_SCHEDULE, _PLACE = "optimizer_history[-1].lr_scheduler_state", "extra_state.train_iterator"


@dataclass
class OwnFields:
    """The fields that this package adds to a checkpoint, by their keys; None: not there.

    Whatever has a value to keep makes an object with it and hands over `written`; after a restart
    it finds the value with `of`.
    """

    rnnsearch_format: int | None = field(
        default=None,
        metadata=_about(
            *("extra_state", "2026-11-29"),
            "the version of these fields; a checkpoint of a later version is refused",
        ),
    )
    patience: dict[str, float] | None = field(
        default=None,
        metadata=_about(
            *("extra_state", "2026-11-21"),
            "`best` and `num_runs` of `--patience`, which fairseq counts anew after each start",
        ),
    )
    ema_updates: int | None = field(
        default=None,
        metadata=_about(
            *("extra_state", "2026-11-22"),
            "the updates since the last one of `--ema-update-freq`, which fairseq counts anew",
        ),
    )
    order: str | None = field(
        default=None,
        metadata=_about(
            *(_PLACE, "2026-11-28"),
            "digest of the epoch's pairs in order: with another order some would be repeated, "
            "others left out",
        ),
    )
    pairs: int | None = field(
        default=None,
        metadata=_about(
            *(_PLACE, "2026-11-28"),
            "the pairs of the epoch that all processes have used, which are the place to go on "
            "with any number of processes",
        ),
    )
    processes: int | None = field(
        default=None,
        metadata=_about(
            *(_PLACE, "until 2026-11-28"),
            "the number of processes, in checkpoints without `pairs`; only read",
        ),
    )
    num_bad_epochs: int | None = field(
        default=None,
        metadata=_about(
            *(_SCHEDULE, "2026-11-21"),
            "for how many epochs nothing has improved, by reduce_lr_on_plateau; fairseq forgets it",
        ),
    )
    cooldown_counter: int | None = field(
        default=None,
        metadata=_about(
            *(_SCHEDULE, "2026-11-21"),
            "for how many more epochs reduce_lr_on_plateau does not count",
        ),
    )
    dictionaries: dict[str, dict] | None = field(
        default=None,
        metadata=_about(
            *("task_state", "2026-11-21"),
            "of each side the number and SHA-256 of the dictionary's words, the language and the "
            "rules of the text: with others, numbers would mean other words",
        ),
    )
    length_limit: list[float] | None = field(
        default=None,
        metadata=_about(
            *("task_state", "2026-11-25"),
            "how long a translation may be, measured on the training pairs: target tokens for each "
            "source token, and further ones",
        ),
    )
    nonfinite: tuple[int, int] | None = field(
        default=None,
        metadata=_about(
            *("last_optimizer_state", "2026-11-21"),
            "the updates with a gradient that was not finite, all and those in a row, for "
            "`--nonfinite-limit`",
        ),
    )

    @classmethod
    def of(cls, part: Mapping[str, Any]) -> Self:
        """Return the fields that are in a part of a checkpoint."""
        return cls(**{one.name: part[one.name] for one in fields(cls) if one.name in part})

    def written(self, part: str = "") -> dict[str, Any]:
        """Return the fields that have a value, all or those of one part."""
        return {
            one.name: value
            for one in fields(self)
            if (value := getattr(self, one.name)) is not None and part in ("", one.metadata["part"])
        }


# --- reading -------------------------------------------------------------------------------------

# the options that a trainer compares with those of a checkpoint
JUDGEMENT = (  # of validations
    *("checkpoint.best_checkpoint_metric", "checkpoint.maximize_best_checkpoint_metric"),
    "criterion.cost_scale",
)
_OF_CONFIGURATION = ("model.decoder_order", "lr_scheduler._name", *JUDGEMENT)
LOST = "lost"  # by fairseq's trainer, which passes on only ``extra_state``


def read_checkpoint(path: str | os.PathLike[str], *, whole: bool = True) -> Any:
    """Return what a checkpoint holds; every other reader in this package goes through here.

    Parameters of this package's older models get the names of today.

    Raises:
        UserError: as `read_data`, whose ``whole`` it takes.
    """
    state = read_data(path, whole=whole)
    if isinstance(state, dict):
        for parts, name in ((state, "model"), (state.get("extra_state"), "ema")):
            if isinstance(parts, dict) and isinstance(parts.get(name), dict):
                parts[name] = current_names(parts[name])
    return state


def load_as_data(
    path: str, arg_overrides: dict | None = None, load_on_all_ranks: bool = False
) -> dict:
    """Load a checkpoint of tensors and plain values, and refuse all else.

    This replaces fairseq's ``load_checkpoint_to_cpu``, and treats old checkpoints and options that
    override those of the file in the same way. ``extra_state`` gets the parameters with which the
    averages of ``--store-ema`` begin, and as ``LOST`` what fairseq's trainer loses: the task's
    state, whether there are averages and an optimizer's state, and options on which no parameter's
    shape depends.

    Raises:
        UserError: if the file is damaged, is not a checkpoint, or holds anything else.
    """
    return to_fairseq_state(read_checkpoint(path), path, arg_overrides)


def to_fairseq_state(state: Any, path: str, arg_overrides: dict | None = None) -> dict:
    """Turn the result of `read_checkpoint` for a path into that of `load_as_data`, in place."""
    with explained(path):
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
        if (OwnFields.of(extra_state).rnnsearch_format or FORMAT) > FORMAT:
            raise UserError(f"checkpoint {path} is of a later version of fairseq_rnnsearch")
        cfg = state.get("cfg")
        if cfg and "decoder_order" in (options := cfg.get("model") or {}):  # a model of ours
            drop_removed(options)
        extra_state[LOST] = {
            "task": state.get("task_state") or {},
            "has_ema": "ema" in extra_state,
            "has_optimizer": bool(state.get("last_optimizer_state")),
            **{name: cfg and OmegaConf.select(cfg, name) for name in _OF_CONFIGURATION},
        }
        extra_state.setdefault("ema", dict(model))
        return state


def check_registered(model: Any) -> None:
    """Refuse the configuration of a model that is not registered.

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


@contextmanager
def naming_checkpoint(*paths: str) -> Iterator[None]:
    """Turn fairseq's errors into one line with the file's name."""
    path = ", ".join(paths)
    try:
        yield
    except Exception as problem:
        mistake = user_error(problem)
        said = reason(problem) if mistake is None else str(mistake)
        if mistake is None and not isinstance(problem, OSError):
            # fairseq replaces the exception that says what is wrong
            said = reason(problem.__context__ or problem)
            said = f"does not fit the model, the options or the data ({said})"
            said = f"checkpoint {path} {said}; give those that it was trained with"
        is_named = any(one in said for one in paths)
        raise UserError(said if is_named else f"checkpoint {path}: {said}") from problem


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
    """Return how far a training had come, without reading the parameters.

    Raises:
        UserError: when the file cannot be read.
    """
    state = read_checkpoint(path, whole=False)
    with explained(path):
        history = state["optimizer_history"]
        can_go_on = "train_iterator" in state["extra_state"] and state.get("last_optimizer_state")
        return Progress(bool(can_go_on), len(history), int(history[-1]["num_updates"]))


def metrics_of(extra_state: dict) -> dict:
    """Return the state of fairseq's meters; they add arrays, which are stored as lists."""

    def state_of(meter: dict) -> dict:
        return {key: np.array(v) if isinstance(v, list) else v for key, v in meter.items()}

    return {
        group: [(*meter[:3], state_of(meter[3])) for meter in entries]
        for group, entries in extra_state["metrics"].items()
    }


# --- writing -------------------------------------------------------------------------------------


def write_checkpoint(state: dict, extra_state: dict, own: OwnFields, path: str) -> None:
    """Write the checkpoint of a training, with the fields that no part of it has added.

    Args:
        state: as fairseq's trainer has it.
        extra_state: what fairseq adds to that part when it saves.
    """
    there = state["extra_state"]
    there["metrics"] = tree_map(
        lambda value: value.tolist() if isinstance(value, np.ndarray | np.generic) else value,
        there["metrics"],
    )
    there |= extra_state | own.written("extra_state")
    state["optimizer_history"][-1]["lr_scheduler_state"] |= own.written(_SCHEDULE)
    write_whole(state, path)


def write_average(paths: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> None:
    """Write the last checkpoint with the mean of the parameters, without an optimizer's state."""
    *others, last = map(read_checkpoint, paths)
    for name, value in last["model"].items():
        total = sum((other["model"][name].double() for other in others), value.double())
        last["model"][name] = (total / len(paths)).to(value)
    write_whole(last | {"last_optimizer_state": None}, str(out))


def checkpoint_of_model(parameters: dict, options: dict, task: dict, own: OwnFields) -> dict:
    """Return a checkpoint that holds a model but no training to resume.

    Args:
        options, task: those of the model and of the task, each with its ``_name``.
        own: the fields of the task.
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
        "task_state": own.written(),
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}}
        | OwnFields(FORMAT).written(),
        "last_optimizer_state": None,
    }
