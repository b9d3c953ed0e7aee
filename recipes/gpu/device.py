"""Where the measurements run, at what sizes, and how they are timed."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from search import model_of, task_of
from sizes import SIZES, Size, dictionary, sample
from torch import Tensor
from torch.utils._pytree import tree_map_only

from fairseq_rnnsearch.kernels import BACKENDS
from fairseq_rnnsearch.kernels.gpu import GPU
from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterion
from fairseq_rnnsearch.plugin.model import RNNSearchModel

# a number, one of ``bounded``, or several of them by name
Measured = float | dict[str, "Measured | str"]
Measurements = dict[str, Callable[[], Measured]]
OPERANDS = {
    "float32": (torch.float32, "highest"),
    "tf32": (torch.float32, "high"),
    "bfloat16": (torch.bfloat16, "highest"),
}


class Device:
    """A GPU, or a CPU to try the programs.

    Args:
        name: ``cuda``, or ``cpu`` for tiny sizes without what only a GPU has.
        out: where results go.
    """

    def __init__(self, name: str, out: Path) -> None:
        self.torch, self.out = torch.device(name), out
        self.is_gpu = name == "cuda"
        self.size: Size = SIZES["paper" if self.is_gpu else "tiny"]
        self.task = task_of(self.size)
        self.kernels = "gpu" if self.is_gpu else "auto"  # those to be measured
        self.operands = [name for name in OPERANDS if self.is_gpu or name != "tf32"]

    def __str__(self) -> str:
        return torch.cuda.get_device_name() if self.is_gpu else "a CPU, tiny sizes"

    def wait(self) -> None:
        """Wait until the device has done all its work."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def seconds(self, function: Callable[[], object], times: int = 10, rounds: int = 5) -> float:
        """Return the seconds of one call: the median of rounds of ``times`` calls.

        Three calls before are not counted: they compile kernels and record loops.
        """
        for _ in range(3):
            function()
        durations = []
        for _ in range(rounds):
            self.wait()
            start = time.perf_counter()
            for _ in range(times):
                function()
            self.wait()
            durations.append((time.perf_counter() - start) / times)
        return statistics.median(durations)

    def model(self, **options: str) -> RNNSearchModel:
        """Return the model of these options on the CPU, with the same parameters at each call."""
        torch.manual_seed(0)
        return model_of(self.size, self.task, **options)

    def batch(self) -> dict:
        """Return a batch of the size's sentences, on the CPU."""
        return sample(self.size, dictionary(self.size))

    def criterion(self) -> AlignmentHeatmapCriterion:
        """Return the cost that is trained with."""
        return AlignmentHeatmapCriterion(self.task, "sum", 0.0)


def bounded(value: float, bound: float, where: str = "") -> Measured:
    """Return a number with its upper bound, and where it was found."""
    return {"value": float(value), "bound": float(bound), "where": where}


def moved(x: object, device: torch.device) -> object:
    """Return a tensor, or those in a dictionary, on a device."""
    return tree_map_only(Tensor, lambda tensor: tensor.to(device), x)


@contextmanager
def products_in(operands: str) -> Iterator[torch.dtype]:
    """Let products of float32 be those of a type of operands; yields the type of the tensors.

    What was recorded before is forgotten: tensors do not tell whether their products are TF32's.
    """
    BACKENDS["gpu"] = GPU()
    dtype, precision = OPERANDS[operands]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield dtype
    finally:
        torch.set_float32_matmul_precision(before)
