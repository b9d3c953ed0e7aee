"""What is made of weights, kept until they change."""

from collections.abc import Callable, Iterable
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


def cached_by_weights(make: Callable[..., Made], *weights: Tensor) -> Made:
    """Return ``make(*weights)``, cached until torch counts a change of one of the weights.

    It counts none through ``weight.data`` or NumPy: callers must call ``forget`` after these.
    """
    state = [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights]
    known = _made().setdefault(weights[0], {})
    made_of, result = known.get(make, (None, None))
    if made_of != state:
        with torch.inference_mode(False), torch.no_grad():
            result = make(*(w.detach() for w in weights))
        known[make] = state, result
    return result


def forget(weights: Iterable[Tensor]) -> None:
    """Drop whatever is cached for these weights."""
    for weight in weights:
        _made().pop(weight, None)
