"""What is made of weights, kept until they change."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

Made = TypeVar("Made")


@cache
def _made() -> WeakIdKeyDictionary:
    """The cache, outside all modules; an entry goes when the first of its weights goes."""
    return WeakIdKeyDictionary()


def cached_by_weights(
    make: Callable[..., Made], weights: Sequence[Tensor], *settings: object
) -> Made:
    """Return ``make(weights, *settings)``, cached for these until torch counts a weight's change.

    It counts none through ``weight.data`` or NumPy: callers must call ``forget`` after these.
    """
    state = [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights]
    made_of, result = _made().get(weights[0], (None, None))
    if made_of != (make, settings, state):
        with torch.inference_mode(False), torch.no_grad():
            result = make([w.detach() for w in weights], *settings)
        _made()[weights[0]] = (make, settings, state), result
    return result


def forget(weights: Iterable[Tensor]) -> None:
    """Drop whatever is cached for these weights."""
    for weight in weights:
        _made().pop(weight, None)
