"""A check of ``--kernels gpu``, which no GPU has run yet, on each training's first batch.

It compares the cost and the gradients of that batch with those from plain PyTorch operations.
"""

import logging

import torch
from torch import Tensor, nn

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
        model: any model; without ``--kernels gpu`` nothing happens.
        sample: a batch from fairseq.
    """
    model = unwrapped(model)
    sides = [part for part in model.modules() if isinstance(part, RunByBackend)]
    if not any(side.kernels == "gpu" for side in sides):
        return
    training = model.training
    model.eval()  # two computations would not drop the same elements
    try:
        _use(sides, "reference")
        expected = _numbers(model, criterion, sample)
        _use(sides, "gpu")
        wrong = _difference(model, criterion, sample, expected)
    finally:
        model.train(training)
    if wrong:
        logger.warning(
            "--kernels gpu: of the first batch %s; the reference kernels train, which are right",
            wrong,
        )
        _use(sides, "reference")
    else:
        logger.info("--kernels gpu: the first batch is as the reference kernels have it")


def _use(sides: list[RunByBackend], kernels: str) -> None:
    for side in sides:
        side.use_kernels(kernels)


def _numbers(model: nn.Module, criterion: nn.Module, sample: dict) -> dict[str, Tensor]:
    """Return the cost and the gradients, without touching the parameters' ``grad``."""
    cost = criterion(model, sample)[0]
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(cost, list(learned.values()), allow_unused=True)
    found = dict(zip(learned, gradients, strict=True))
    return {"the cost": cost.detach()} | {
        f"the gradient of {name}": gradient
        for name, gradient in found.items()
        if gradient is not None
    }


def _difference(
    model: nn.Module, criterion: nn.Module, sample: dict, expected: dict[str, Tensor]
) -> str | None:
    """Return what is wrong with the model's current kernels, or None."""
    try:
        found = _numbers(model, criterion, sample)
    except Exception as problem:  # an untested kernel may raise anything
        return f"nothing came ({reason(problem)})"
    is_narrow = any(
        vars(part).get("compute_dtype", "float32") != "float32" for part in model.modules()
    )
    bound = _NARROW_BOUND if is_narrow else _BOUND
    for name, right in expected.items():
        far = float((found[name] - right).norm() / right.norm().clamp(min=1e-30))
        if not far <= bound:  # true for NaN too
            return f"{name} is off by {far:.2g} of it"
    return None
