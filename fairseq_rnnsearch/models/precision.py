"""``--compute-dtype``: the type of the operands of matrix products.

With bfloat16 the model runs under ``torch.autocast``: parameters, their gradients, the optimizer's
averages and checkpoints stay float32, each matrix is rounded once an update, and sums that go on
for long (states, their gradients, softmaxes, the cost) are in float32.
"""

import logging
from collections.abc import Callable
from functools import cache, wraps

import torch
from torch import nn

from fairseq_rnnsearch.errors import UserError

COMPUTE_DTYPES = ("float32", "bfloat16")

logger = logging.getLogger(__name__)


def in_compute_dtype(method: Callable) -> Callable:
    """Run a method of a fairseq encoder or decoder in the type of its ``compute_dtype``.

    With float32, whatever surrounds the model (``--amp``, ``--fp16``) is left alone.
    """

    @wraps(method)
    def run(self: nn.Module, *args: object, **kwargs: object) -> object:
        if self.compute_dtype == "float32":
            return method(self, *args, **kwargs)
        dtype = getattr(torch, self.compute_dtype)
        device = self.network.embedding.weight.device.type
        _check(self, dtype, device)
        with torch.autocast(device, dtype):
            return method(self, *args, **kwargs)

    return run


def round_matrices(side: nn.Module) -> None:
    """Round the matrices of products once and for all, for translating.

    Embeddings and vectors stay float32: they are no operands.
    """
    if side.compute_dtype == "float32":
        return
    dtype = getattr(torch, side.compute_dtype)
    _check(side, dtype, side.network.embedding.weight.device.type)
    embedding = side.network.embedding.weight
    for parameter in side.parameters():
        if parameter.dim() > 1 and parameter is not embedding:
            parameter.data = parameter.data.to(dtype)


def _check(side: nn.Module, dtype: torch.dtype, device: str) -> None:
    option, found = f"--compute-dtype {side.compute_dtype}", side.network.embedding.weight.dtype
    if found != torch.float32:
        name = f"{found}".removeprefix("torch.")
        raise UserError(
            f"{option}: the parameters are {name}, and must be float32: leave out --fp16 or --bf16"
        )
    if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) != dtype:
        name = f"{torch.get_autocast_dtype(device)}".removeprefix("torch.")
        raise UserError(f"{option}: autocast to {name} is on already: leave out --amp")
    if device == "cpu":
        _warn_of_a_slow_processor(option)


@cache
def _warn_of_a_slow_processor(option: str) -> None:
    # torch's questions are not public, and another version may not know them
    questions = (f"_is_{name}_supported" for name in ("avx512_bf16", "amx_tile"))
    answers = [getattr(torch.cpu, name)() for name in questions if hasattr(torch.cpu, name)]
    if answers and not any(answers):
        logger.warning(
            "%s: this processor has no instructions for it; float32 may be faster", option
        )
