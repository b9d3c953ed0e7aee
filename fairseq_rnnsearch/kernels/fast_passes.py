"""What the hand-derived passes share: no graph, no second order, one type of operands.

Under ``torch.autocast``, or in a type below float32, the operands of products are in that type and
everything else, states and their gradients above all, is in float32.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def refuse_second_order() -> None:
    """Called in a backward pass, which records nothing for another one.

    Raises:
        NotImplementedError: when gradients of the gradients are wanted.
    """
    if torch.is_grad_enabled():
        raise NotImplementedError(
            "the fast kernels have no second-order gradients (create_graph=True): "
            "use --kernels reference"
        )


def apply(function: type[torch.autograd.Function], *args: object) -> Tensor | tuple[Tensor, ...]:
    """Run a function whose first argument is autocast's type, or None where autocast is off.

    Inside, autocast is off: which operand is in which type is the function's business.
    """
    operands = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    with torch.autocast("cpu", enabled=False):
        return function.apply(operands, *args)


def without_autocast(backward: Callable) -> Callable:
    """For a backward pass, which may be called where autocast is on."""

    def run(*args: object) -> tuple[Tensor | None, ...]:
        with torch.autocast("cpu", enabled=False):
            return backward(*args)

    return run


def summed_product(d_out: Tensor, x: Tensor) -> Tensor:
    """The gradient of a matrix over all steps: ``(time, batch, ...)`` both, x of any type."""
    return d_out.flatten(0, 1).T @ x.flatten(0, 1).to(d_out.dtype)
