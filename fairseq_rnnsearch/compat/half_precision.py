"""fairseq's optimizers for half precision: what is inside them, and what a resumed run needs."""

from collections.abc import Sequence

from fairseq.optim import (
    AMPOptimizer,
    FairseqOptimizer,
    FP16Optimizer,
    MemoryEfficientFP16Optimizer,
)
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler

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
