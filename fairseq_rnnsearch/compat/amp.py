"""``--amp``: gradients are divided by the loss scale once."""

import logging
from collections.abc import Callable

import torch
from fairseq.optim.amp_optimizer import AMPOptimizer
from torch import Tensor

logger = logging.getLogger(__name__)


def unscale_gradients_once() -> None:
    """Unscale the gradients of the optimizer that takes the step.

    fairseq unscales those of torch's optimizer and steps its own around it, which torch's scaler
    takes for another one that it has not unscaled yet. Each gradient is then divided by the scale
    (128 by default) twice, whatever the optimizer: three updates of Adadelta move the parameters
    0.038 times as far as without ``--amp``, of plain gradient descent 1/128 as far.

    Without a GPU torch switches the scaler off, and fairseq steps with gradients of any kind.
    """
    AMPOptimizer.clip_grad_norm = _clip_grad_norm


def _clip_grad_norm(
    self: AMPOptimizer,
    max_norm: float,
    aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Unscale and clip; the step that follows leaves out what has overflowed and halves the scale.

    Raises:
        FloatingPointError: when the scale cannot become smaller, or there is none.
    """
    self.scaler.unscale_(self.fp32_optimizer)
    norm = self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
    if torch.isfinite(norm).all():
        return norm
    if not self.scaler.is_enabled():
        raise FloatingPointError("gradients are Nan/Inf")
    if self.next_loss_scale <= self.min_loss_scale:
        raise FloatingPointError(
            f"the gradient is not finite at the smallest loss scale (--min-loss-scale "
            f"{self.min_loss_scale}) either"
        )
    logger.info("the gradient is not finite: the loss scale becomes %g", self.next_loss_scale)
    return norm
