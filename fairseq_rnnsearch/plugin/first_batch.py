"""A check of the GPU's kernels on each training's first batch.

It compares the cost and the gradients of that batch with those from plain PyTorch operations.
"""

import logging

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.decoding.batches import rows_of
from fairseq_rnnsearch.errors import reason
from fairseq_rnnsearch.kernels import RunByBackend
from fairseq_rnnsearch.runs.trainer import unwrapped

# Largest relative error, as a ratio of norms: in float32, and with narrower operands of products
# (bfloat16, TF32). Rounding decides which of two nearly equal maxout units is the larger, and so
# what gets the gradient: plain PyTorch's bfloat16 is 0.05 away from float64 in a new model.
_BOUND, _NARROW_BOUND = 1e-2, 0.2

logger = logging.getLogger(__name__)


def check_kernels(model: nn.Module, criterion: nn.Module, sample: dict) -> None:
    """Fall back to the reference kernels, with a warning, if those of a GPU fail or differ.

    Args:
        model: any model; nothing happens unless the GPU's kernels run it.
        sample: a batch from fairseq.
    """
    model = unwrapped(model)
    sides = [part for part in model.modules() if isinstance(part, RunByBackend)]
    if not any(
        side.kernels == "gpu" or (side.kernels == "auto" and next(side.parameters()).is_cuda)
        for side in sides
    ):
        return
    logger.info("the reference kernels compute the first batch as well")
    training, kernels = model.training, [side.kernels for side in sides]
    model.eval()  # two computations would not drop the same elements
    try:
        try:
            for side in sides:
                side.kernels = "reference"
            sample, expected = _expected(model, criterion, sample)
        finally:
            for side, name in zip(sides, kernels, strict=True):
                side.kernels = name
        wrong = _difference(model, criterion, sample, expected)
    finally:
        model.train(training)
    if not any("gpu" in side.kernels_in_use() for side in sides):
        return
    if wrong:
        logger.warning(
            "gpu kernels: wrong on the first batch, %s; the reference kernels train instead",
            wrong,
        )
        for side in sides:
            side.kernels = "reference"
    else:
        logger.info("gpu kernels: the first batch agrees with the reference kernels")


def _expected(model: nn.Module, criterion: nn.Module, sample: dict) -> tuple[dict, dict]:
    """Return the batch and its numbers; half of it, and so on, where it needs too much memory.

    The reference kernels need several times the memory of a GPU's.
    """
    while True:
        try:
            return sample, _numbers(model, criterion, sample)
        except torch.OutOfMemoryError:
            rows = len(sample["id"])
            if rows == 1:
                raise
        sample = rows_of(sample, slice(rows // 2), criterion.padding_idx)


def _numbers(model: nn.Module, criterion: nn.Module, sample: dict) -> dict[str, Tensor]:
    """Return the cost and the gradients, without touching the parameters' ``grad``."""
    cost = criterion(model, sample)[0]
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(cost, list(learned.values()), allow_unused=True)
    return {"the cost": cost.detach()} | {
        f"the gradient of {name}": gradient
        for name, gradient in zip(learned, gradients, strict=True)
        if gradient is not None
    }


def _difference(
    model: nn.Module, criterion: nn.Module, sample: dict, expected: dict[str, Tensor]
) -> str | None:
    """Return what is wrong with the model's current kernels, or None."""
    try:
        numbers = _numbers(model, criterion, sample)
    except Exception as problem:  # kernels may raise anything on a GPU of another kind
        return f"nothing came ({reason(problem)})"
    types = {vars(part).get("compute_dtype", "float32") for part in model.modules()}
    bound = _BOUND if types == {"float32"} else _NARROW_BOUND
    for name, right in expected.items():
        far = float((numbers[name] - right).norm() / right.norm().clamp(min=1e-30))
        if not far <= bound:  # true for NaN too
            return f"{name} is off by {far:.2g} of it"
    return None
