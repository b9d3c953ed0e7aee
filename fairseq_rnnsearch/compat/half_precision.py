"""fairseq's optimizers for half precision: what is inside them, and how gradients are clipped."""

import logging
from collections.abc import Sequence

import torch
from fairseq.optim import (
    AMPOptimizer,
    FairseqOptimizer,
    FP16Optimizer,
    MemoryEfficientFP16Optimizer,
)
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from torch import Tensor

logger = logging.getLogger("fairseq.trainer")  # its lines are fairseq's

# what fairseq's scaler counts until it changes its scale
_COUNTS: Sequence[str] = (
    *("loss_scale", "_iter", "_last_overflow_iter"),
    *("_last_rescale_iter", "_overflows_since_rescale"),
)


def innermost(optimizer: FairseqOptimizer) -> FairseqOptimizer:
    """Return the optimizer inside fairseq's for half precision."""
    if isinstance(optimizer, FP16Optimizer | AMPOptimizer):
        return optimizer.fp32_optimizer
    if isinstance(optimizer, MemoryEfficientFP16Optimizer):
        return optimizer.wrapped_optimizer
    return optimizer


def scales_losses(optimizer: FairseqOptimizer) -> bool:
    """Tell whether it has a loss scaler: that of --bf16 is None, that of --amp is off on a CPU."""
    if isinstance(optimizer, AMPOptimizer):
        return optimizer.scaler.is_enabled()
    if isinstance(optimizer, FP16Optimizer | MemoryEfficientFP16Optimizer):
        return optimizer.scaler is not None
    return False


def scaler_state(optimizer: FairseqOptimizer) -> dict | None:
    """Return all that decides about the scale of the losses to come; None: there is no scale.

    fairseq saves the scale of ``--fp16`` alone, and of ``--amp`` nothing.
    """
    if not scales_losses(optimizer):
        return None
    scaler = optimizer.scaler
    if isinstance(scaler, DynamicLossScaler):
        return {name: vars(scaler)[name] for name in _COUNTS}
    return scaler.state_dict()


def load_scaler(optimizer: FairseqOptimizer, state: dict | None) -> None:
    """Go on with a state of ``scaler_state``, if it is one of the same kind of scaler."""
    new = scaler_state(optimizer)
    if new is None or state is None or set(state) != set(new):
        return
    scaler = optimizer.scaler
    if isinstance(scaler, DynamicLossScaler):
        vars(scaler).update(state)
    else:
        scaler.load_state_dict(state)


def clip_scaled_gradients(optimizer: AMPOptimizer, max_norm: float) -> Tensor:
    """Divide gradients by the loss scale of ``--amp`` once, and clip them.

    fairseq unscales those of torch's optimizer and steps its own around it, which torch's scaler
    takes for another one that it has not unscaled yet. Each gradient is then divided by the scale
    (128 by default) twice, whatever the optimizer: three updates of Adadelta move the parameters
    0.038 times as far as without ``--amp``, of plain gradient descent 1/128 as far. Without a GPU
    torch switches the scaler off, and fairseq steps with gradients of any kind.

    Returns:
        The norm before clipping. The step that follows leaves out what has overflowed, and halves
        the scale.

    Raises:
        FloatingPointError: when the scale cannot become smaller, or there is none.
    """
    optimizer.scaler.unscale_(optimizer.fp32_optimizer)
    norm = optimizer.fp32_optimizer.clip_grad_norm(max_norm)
    if torch.isfinite(norm).all():
        return norm
    if not optimizer.scaler.is_enabled():
        raise FloatingPointError("gradients are Nan/Inf")
    if optimizer.next_loss_scale <= optimizer.min_loss_scale:
        raise FloatingPointError(
            "the gradient is not finite at the smallest loss scale (--min-loss-scale "
            f"{optimizer.min_loss_scale}) either"
        )
    logger.info("the gradient is not finite: the loss scale becomes %g", optimizer.next_loss_scale)
    return norm
