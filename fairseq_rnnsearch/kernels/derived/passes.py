"""What the hand-derived passes share: no graph, no second order, one type of operands.

Under ``torch.autocast``, or in a type below float32, the operands of products are in that type and
everything else, states and their gradients above all, is in float32.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.derived.operations import Operations


class Primitives(NamedTuple):
    """What a pass computes with.

    Attributes:
        operations: for a type of the products' operands, what is no product.
        product: for a weight W, the function of x, ``(rows, in)``, that returns x W^T.
        run: runs a function of tensors and returns what it returns.
    """

    operations: Callable[[torch.dtype], Operations]
    product: Callable[[Tensor], Callable[[Tensor], Tensor]]
    run: Callable[..., tuple[Tensor | None, ...]]


def apply(function: type[torch.autograd.Function], *args: object) -> Tensor | tuple[Tensor, ...]:
    """Run a function whose first argument is autocast's type, or None where autocast is off.

    Inside, autocast is off: which operand is in which type is the function's business.
    """
    kind = _kind_of(args)
    operands = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    with torch.autocast(kind, enabled=False):
        return function.apply(operands, *args)


def first_order(backward: Callable) -> Callable:
    """Let a backward pass run where autocast is on, and refuse to be differentiated itself.

    Raises:
        NotImplementedError: by the pass, when gradients of the gradients are wanted.
    """

    def run(*args: object) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "the fast kernels have no second-order gradients (create_graph=True): "
                "use --kernels reference"
            )
        with torch.autocast(_kind_of(args), enabled=False):
            return backward(*args)

    return run


def _kind_of(args: tuple[object, ...]) -> str:
    """Return the kind of device that tensors among some arguments lie on, if there are any."""
    return next((x.device.type for x in args if isinstance(x, Tensor)), "cpu")


def summed_product(d_out: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of a matrix over all steps, from those of its products with x.

    Args:
        d_out, x: ``(time, batch, out)`` and ``(time, batch, in)``; x may be of any type.
    """
    return d_out.flatten(0, 1).T @ x.flatten(0, 1).to(d_out.dtype)
