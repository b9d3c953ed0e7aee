"""What each field of a checkpoint must be; fairseq uses whatever is there.

Fields that are missing are fairseq's to ask for: a checkpoint may hold a model alone.
"""

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence

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

_MAPPING = "a dictionary", lambda value: isinstance(value, Mapping)
_LIST = "a list", lambda value: isinstance(value, list | tuple)
_COUNT = "a whole number of 0 or more", _is_count
_TIME = "a finite number of 0 or more", _is_finite
_TEXT = "a name", lambda value: isinstance(value, str)
# a cost may have been infinite or no number: it is what the training found
_COST = "a number, or none", lambda value: value is None or _is_number(value)

# Fields and what they must be; a star stands for each item of a list or dictionary.
_FORMAT: dict[str, tuple[str, _Check]] = {
    "optimizer_history": _LIST,
    "optimizer_history.*": _MAPPING,
    "optimizer_history.*.criterion_name": _TEXT,
    "optimizer_history.*.optimizer_name": _TEXT,
    "optimizer_history.*.num_updates": _COUNT,
    "optimizer_history.*.lr_scheduler_state": _MAPPING,
    "optimizer_history.*.lr_scheduler_state.*": _COST,
    "optimizer_history.*.lr_scheduler_state.lr": _TIME,
    "last_optimizer_state": (
        "a dictionary, or none",
        lambda v: v is None or isinstance(v, Mapping),
    ),
    "last_optimizer_state.loss_scale": _TIME,
    "task_state": _MAPPING,
    "task_state.*": _MAPPING,
    "extra_state": _MAPPING,
    "extra_state.train_iterator": _MAPPING,
    "extra_state.train_iterator.version": _COUNT,
    "extra_state.train_iterator.epoch": _COUNT,
    "extra_state.train_iterator.iterations_in_epoch": _COUNT,
    "extra_state.train_iterator.shuffle": ("true or false", lambda v: isinstance(v, bool)),
    "extra_state.val_loss": _COST,
    "extra_state.best": ("a number", _is_number),
    "extra_state.previous_training_time": _TIME,
    "extra_state.patience": _MAPPING,
    "extra_state.patience.best": ("a number", _is_number),
    "extra_state.patience.num_runs": _COUNT,
    "extra_state.loss_scaler": _MAPPING,
    "extra_state.loss_scaler.*": ("a number", _is_number),
    "extra_state.metrics": _MAPPING,
    "extra_state.metrics.*": _LIST,
    "extra_state.metrics.*.*": ("a meter of fairseq's", _is_meter),
}


def check_format(path: str, state: Mapping) -> None:
    """Check what there is of the state of a training.

    Raises:
        UserError: naming the first field that is not what it must be.
    """
    for field, (what, is_valid) in _FORMAT.items():
        for place, value in _items(state, "", field.split(".")):
            if not is_valid(_plain(value)):
                raise UserError(
                    f"checkpoint {path}: its {place} is {_shown(value)}, and must be {what}; take "
                    "another checkpoint"
                )


def _shown(value: object) -> str:
    """Return a value as one line; tensors are written in several."""
    return f"{' '.join(repr(value).split()):.80}"


def _plain(value: object) -> object:
    """Return the number in a tensor of one: several processes keep their sums so."""
    is_number = isinstance(value, torch.Tensor) and not value.dim()
    return value.item() if is_number else value


def _items(value: object, place: str, names: list[str]) -> Iterator[tuple[str, object]]:
    """Yield the values at a place, which earlier fields have shown to have the right parents."""
    if not names:
        yield place.removeprefix("."), value
        return
    name, *rest = names
    if name == "*":
        keys = list(value) if isinstance(value, Mapping) else range(len(value))
    else:
        keys = [name] if value is not None and name in value else []
    for key in keys:
        yield from _items(value[key], f"{place}.{key}", rest)


def check_optimizer(path: str, optimizer: torch.optim.Optimizer, defaults: Mapping) -> None:
    """Check the state that an optimizer has loaded: each tensor must fit its parameter.

    Args:
        defaults: the optimizer's own options, of the kinds that those of the file must be.

    Raises:
        UserError: naming the first value that does not fit.
    """
    for number, group in enumerate(optimizer.param_groups):
        for name, default in defaults.items():
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
