"""Numbers copied back from a GPU, and whether Triton runs there."""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten


class CopiedNumbers:
    """Numbers on a GPU, copied to the CPU as soon as the GPU has computed them.

    A caller that reads them one update later waits only if the CPU is already that far ahead, and
    the GPU has work meanwhile.

    Args:
        numbers: tensors of one number among anything else, in lists, tuples and dictionaries.
    """

    def __init__(self, numbers: Any) -> None:
        self._leaves, self._tree = tree_flatten(numbers)
        there: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for i, x in enumerate(self._leaves):
            if isinstance(x, Tensor) and x.device.type != "cpu":
                there.setdefault((x.device, x.dtype), []).append(i)
        self._copies, self._are_here = [], []
        for places in there.values():  # one copy of each type
            copied = torch.stack([self._leaves[i] for i in places])
            self._copies.append((places, copied.to("cpu", non_blocking=True)))
        for device in {device for device, _ in there}:
            self._are_here.append(torch.Event(device))
            self._are_here[-1].record()

    def read(self) -> Any:
        """Return what was given, with all numbers on the CPU."""
        for event in self._are_here:
            event.synchronize()
        for places, copied in self._copies:
            for i, number in zip(places, copied.unbind(), strict=True):
                self._leaves[i] = number
        return tree_unflatten(self._leaves, self._tree)


def runs_triton(tensor: Tensor) -> bool:
    """Tell whether kernels in Triton, which comes with torch's builds for CUDA, take a tensor."""
    return tensor.is_cuda and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
