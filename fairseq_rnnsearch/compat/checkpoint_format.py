"""What each field of a checkpoint must be; fairseq uses whatever is there.

Fields that are missing are fairseq's to ask for: a checkpoint may hold a model alone.
"""

import numbers
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from fairseq.logging import meters

from fairseq_rnnsearch.errors import UserError

_Check = Callable[[object], bool]

_LARGEST = 2**53  # nothing that is counted or measured here comes near


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    return _is_number(value) and 0 <= value <= _LARGEST


def _is_count(value: object) -> bool:
    return isinstance(value, numbers.Integral) and _is_finite(value)


def _is_meter(value: object) -> bool:
    """Tell whether it is a priority, a name, a class of fairseq's and the state of its object."""
    if not (isinstance(value, list | tuple) and len(value) == 4 and isinstance(value[3], dict)):
        return False
    priority, name, kind, state = value
    return (
        _is_number(priority)
        and isinstance(name, str)
        and isinstance(kind, str)
        and isinstance(getattr(meters, kind, None), type)
        and all(_METER_STATE.get(key, _is_quantity)(item) for key, item in state.items())
        # what is added to from now on: an array has been saved as a list
        and all(key in state for key in _NEEDED.get(kind, ()))
    )


def _is_quantity(value: object) -> bool:
    """Tell whether it is a number, or several: the counts of --eval-bleu."""
    if isinstance(value, list):
        return bool(value) and all(_is_number(item) for item in value)
    return _is_number(value) or isinstance(value, torch.Tensor | np.ndarray | np.generic)


_METER_STATE: dict[str, _Check] = {
    "val": lambda value: value is None or _is_quantity(value),
    "round": lambda value: value is None or _is_count(value),
    **dict.fromkeys(("count", "n"), lambda value: _is_quantity(value) and bool(value >= 0)),
}
_NEEDED = {
    "AverageMeter": ("val", "sum", "count"),
    "SumMeter": ("sum",),
    "TimeMeter": ("init", "n"),
    "StopwatchMeter": ("sum", "n"),
}

_COUNT = "a whole number of 0 or more", _is_count
_TIME = "a finite number of 0 or more", _is_finite
_TEXT = "a name", lambda value: isinstance(value, str)
_SWITCH = "true or false", lambda value: isinstance(value, bool)
_NUMBER = "a number", _is_number
# a cost may have been infinite or no number: it is what the training found
_COST = "a number, or none", lambda value: value is None or _is_number(value)
_METER = "a meter of fairseq's", _is_meter

# A star stands for each other name in a dictionary. A list has items of one kind.
_FORMAT = {
    "optimizer_history": [
        {
            "criterion_name": _TEXT,
            "optimizer_name": _TEXT,
            "num_updates": _COUNT,
            "lr_scheduler_state": {"lr": _TIME, "*": _COST},
        }
    ],
    "last_optimizer_state": {"loss_scale": _TIME},
    "task_state": {"*": {}},
    "extra_state": {
        "train_iterator": {
            "version": _COUNT,
            "epoch": _COUNT,
            "iterations_in_epoch": _COUNT,
            "shuffle": _SWITCH,
        },
        "val_loss": _COST,
        "best": _NUMBER,
        "previous_training_time": _TIME,
        "patience": {"best": _NUMBER, "num_runs": _COUNT},
        "loss_scaler": {"*": _NUMBER},
        "metrics": {"*": [_METER]},
    },
}


def check_format(path: str, state: Mapping) -> None:
    """Check what there is of the state of a training.

    Raises:
        UserError: naming the first field that is not what it must be.
    """
    # some checkpoints say that the optimizer's state is not saved
    there = {k: v for k, v in state.items() if v is not None or k != "last_optimizer_state"}
    _check(path, "", there, _FORMAT)


def _check(path: str, place: str, value: object, form: dict | list | tuple[str, _Check]) -> None:
    """Check a field, and the fields within."""
    if isinstance(form, dict):
        what, is_valid = "a dictionary", isinstance(value, Mapping)
    elif isinstance(form, list):
        what, is_valid = "a list", isinstance(value, list | tuple)
    else:
        what, is_valid = form[0], form[1](_plain(value))
    if not is_valid:
        raise UserError(
            f"checkpoint {path}: its {place[1:]} is {_shown(value)}, and must be {what}; take "
            "another checkpoint"
        )
    if isinstance(form, dict):
        for name, part in value.items():
            inner = form.get(name, form.get("*"))
            if inner is not None:
                _check(path, f"{place}.{name}", part, inner)
    elif isinstance(form, list):
        for number, part in enumerate(value):
            _check(path, f"{place}.{number}", part, form[0])


def _shown(value: object) -> str:
    """Return a value as one line; tensors are written in several."""
    return f"{' '.join(repr(value).split()):.80}"


def _plain(value: object) -> object:
    """Return the number in a tensor of one: several processes keep their sums so."""
    is_number = isinstance(value, torch.Tensor) and not value.dim()
    return value.item() if is_number else value


def check_optimizer(path: str, optimizer: torch.optim.Optimizer) -> None:
    """Check the state that an optimizer has loaded: each tensor must fit its parameter.

    Options must be of the kinds of the optimizer's own.

    Raises:
        UserError: naming the first value that does not fit.
    """
    for number, group in enumerate(optimizer.param_groups):
        for name, default in optimizer.defaults.items():
            if not _is_like(group.get(name), default):
                raise UserError(
                    f"checkpoint {path}: {name} of the optimizer's group {number} is "
                    f"{_shown(group.get(name))}, and must be like {_shown(default)}; give "
                    "--reset-optimizer, or take another checkpoint"
                )
    # what is no dictionary has nothing by any name
    states = {p: s if isinstance(s, Mapping) else {} for p, s in optimizer.state.items()}
    names = {name for state in states.values() for name in state}
    counts = {name for name in names if all(_is_single(s.get(name)) for s in states.values())}
    for number, parameter in enumerate(p for g in optimizer.param_groups for p in g["params"]):
        for name in names if parameter in states else ():
            value = states[parameter].get(name)
            if not _fits(value, () if name in counts else parameter.shape):
                found = _shown(value)
                if torch.is_tensor(value):
                    found = f"shape {tuple(value.shape)}"
                raise UserError(
                    f"checkpoint {path}: {name} of the optimizer's parameter {number} is {found}, "
                    f"and does not fit the shape {tuple(parameter.shape)} or is not finite; give "
                    "--reset-optimizer, or take another checkpoint"
                )


def _is_single(value: object) -> bool:
    return _is_number(value) or (isinstance(value, torch.Tensor) and not value.dim())


def _is_like(value: object, default: object) -> bool:
    if isinstance(default, bool) or default is None:
        return value is None or isinstance(value, bool)
    if isinstance(default, tuple | list):
        return isinstance(value, tuple | list) and len(value) == len(default)
    if isinstance(default, torch.Tensor) or not _is_number(default):
        return True
    return _is_finite(value)


def _fits(value: object, whole: Sequence[int]) -> bool:
    """Tell whether it is finite: one number, the parameter's, or those of its rows or columns."""
    if not isinstance(value, torch.Tensor):
        return not whole and _is_finite(value)
    part = 0 < value.dim() < len(whole) and set(value.shape) <= set(whole)
    return (value.shape == tuple(whole) or part) and bool(torch.isfinite(value).all())
