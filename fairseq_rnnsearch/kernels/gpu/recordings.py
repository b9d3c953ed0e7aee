"""Loops that are recorded once and launched as a whole: CUDA graphs.

A recording is valid for one shape and for the memory that it was made with. So lengths are rounded
up to a multiple of ``STEP``, inputs are copied into the recording's tensors before a launch, and
results are copied out, as the next launch may reuse their memory. A shape is recorded when it
comes a second time, if there is room; others run step by step, with the same result.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

STEP = 8  # positions: a batch of 30 words is computed as one of 32

Function = Callable[..., tuple[Tensor | None, ...]]


class CudaRecording:
    """A CUDA graph of a function of tensors, and the memory of its result, ``returned``."""

    def __init__(self, function: Callable[[], tuple[Tensor | None, ...]]) -> None:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries allocate memory at their first call
            for _ in range(2):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        # the backward pass has its own thread, beside those that load data
        with torch.cuda.graph(self._graph, pool=_pool(), capture_error_mode="thread_local"):
            self.returned = function()

    @staticmethod
    def has_room() -> bool:
        """Tell whether another one fits; a quarter of the GPU's memory is for the batches."""
        free, whole = torch.cuda.mem_get_info()
        return free > whole / 4

    def launch(self) -> None:
        """Recompute ``returned`` from the current contents of the function's tensors."""
        self._graph.replay()


@cache
def _pool() -> tuple[int, int]:
    """Return the memory that all recordings share: each one's result is copied out at once."""
    return torch.cuda.graph_pool_handle()


class Recordings:
    """All recordings.

    Args:
        record: the class that makes one.
        kind: the device type that can record.
    """

    def __init__(self, record: type[CudaRecording], kind: str = "cuda") -> None:
        self._record, self._kind = record, kind
        self._seen: set[tuple] = set()
        self._made: dict[tuple, tuple[list[Tensor], CudaRecording]] = {}

    def padding(self, like: Tensor, length: int) -> int:
        """Return how many positions to add to a length on the tensor's device."""
        return -length % STEP if like.device.type == self._kind else 0

    def run(self, function: Function, *args: object) -> tuple[Tensor | None, ...]:
        """Return a function's result, in memory that nothing else uses.

        Args:
            args: tensors, None and other hashable values.
        """
        tensors = [x for x in args if isinstance(x, Tensor)]
        if tensors[0].device.type != self._kind:
            return function(*args)
        # a recording repeats products in the precision it was made with
        key = function, torch.get_float32_matmul_precision(), *map(_description, args)
        if key not in self._seen:
            self._seen.add(key)
            return function(*args)
        if key not in self._made:
            if not self._record.has_room():
                return function(*args)
            self._made[key] = self._make(function, args)
        given, recording = self._made[key]
        for place, tensor in zip(given, tensors, strict=True):
            place.copy_(tensor)
        recording.launch()
        return tree_map_only(Tensor, torch.clone, recording.returned)

    def _make(self, function: Function, args: tuple) -> tuple[list[Tensor], CudaRecording]:
        given = tree_map_only(Tensor, lambda x: x.detach().clone(), args)
        with torch.no_grad():
            recording = self._record(lambda: function(*given))
        return [x for x in given if isinstance(x, Tensor)], recording


def _description(x: object) -> object:
    """Return the properties of an argument that a recording depends on."""
    return (x.shape, x.dtype, x.device) if isinstance(x, Tensor) else x
