"""``--compute-dtype``: the type of the operands of matrix products.

With bfloat16, the model runs under ``torch.autocast``: parameters, their gradients, the optimizer's
averages and checkpoints stay float32, each matrix is rounded once per update, and long sums
(states, their gradients, softmaxes, the cost) are in float32. With tf32, the GPU itself rounds the
operands of float32 products to ten bits, in the whole process.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import cache, wraps

import torch
from torch import nn

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def computing(side: nn.Module) -> Iterator[None]:
    """Compute in the type of an encoder's or decoder's ``compute_dtype`` within the block.

    With float32, and with parameters that were cast to float16, which do not fit bfloat16's
    autocast, an autocast that surrounds the model is left alone.
    """
    weight = side.embedding.weight
    device = weight.device.type
    if side.compute_dtype == "tf32" and device == "cuda":
        torch.set_float32_matmul_precision("high")
    if side.compute_dtype != "bfloat16" or weight.dtype == torch.float16:
        yield
        return
    if side.training and device == "cpu":  # a trained model runs anywhere
        _warn_of_a_slow_processor()
    with torch.autocast(device, torch.bfloat16):
        yield


def in_compute_dtype(method: Callable) -> Callable:
    """Run a method of an encoder or decoder as `computing` says."""

    @wraps(method)
    def run(self: nn.Module, *args: object, **kwargs: object) -> object:
        with computing(self):
            return method(self, *args, **kwargs)

    return run


def prepare_to_translate(side: nn.Module) -> None:
    """Let a side translate in float32 where bfloat16 is not faster.

    So it is on a processor without instructions for it, and on a GPU, whose products take less time
    than launching one operation, and rounding adds operations.
    """
    on_cpu = side.embedding.weight.device.type == "cpu"
    if side.compute_dtype == "bfloat16" and not (on_cpu and _has_bfloat16()):
        side.compute_dtype = "float32"


def _has_bfloat16() -> bool:
    """Return whether the processor multiplies in bfloat16, as far as torch can say."""
    # these torch functions are private, and may be missing in another version
    questions = (f"_is_{name}_supported" for name in ("avx512_bf16", "amx_tile"))
    answers = [getattr(torch.cpu, name)() for name in questions if hasattr(torch.cpu, name)]
    return any(answers) or not answers


@cache
def _warn_of_a_slow_processor() -> None:
    if not _has_bfloat16():
        logger.warning(
            "--compute-dtype bfloat16: this processor has no instructions for it; float32 is faster"
        )
