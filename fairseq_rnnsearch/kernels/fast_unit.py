"""One step of the gated unit, forwards and backwards, in buffers that exist already.

The equations are those of ``equations.gated_unit``. The three parts of a step's ``(batch, 3n)``
buffer are [proposed, update, reset], first as what goes into the squashing functions, then as what
comes out. The matrices come as functions: see ``packed.step_products``.

torch's tanh takes six times as long as its sigmoid on a CPU, so that tanh(x) = 2 sigma(2x) - 1
is computed; its absolute rounding error is one unit in the last place of 1.

Under ``torch.autocast``, or in a type below float32, the operands of products are in that type and
everything else, states and their gradients above all, is in float32.
"""

from collections.abc import Callable

import torch
from torch import Tensor

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


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


def accurate_type(dtype: torch.dtype) -> torch.dtype:
    """float32 or wider: for sums and for differences of nearly equal numbers."""
    return torch.promote_types(dtype, torch.float32)


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


def summed_product(d_out: Tensor, x: Tensor, operands: torch.dtype) -> Tensor:
    """The gradient of a matrix over all steps: ``(time, batch, ...)`` both."""
    return d_out.flatten(0, 1).to(operands).T @ x.flatten(0, 1).to(operands)


def unit_forward(
    x: Tensor,
    gates: Tensor,
    h: Tensor,
    add_proposed: Callable[[Tensor, Tensor], Tensor],
    a: Tensor,
    out: Tensor,
    present: Tensor | None = None,
) -> None:
    """The new state.

    Args:
        x: what U (r h) is added to, ``(batch, n)``.
        gates: x_z + U_z h, x_r + U_r h, ``(batch, 2n)``.
        h: previous state, ``(batch, n)``.
        add_proposed: y, x to y + U x.
        a: h~, z, r go here, ``(batch, 3n)``.
        out: the new state goes here, ``(batch, n)``.
        present: ``(batch, 1)``, 1 for a word, 0 for padding, which leaves the state as it was.
    """
    n = h.size(-1)
    proposed, z, r = a.split(n, dim=1)
    torch.sigmoid(gates, out=a[:, n:])
    if present is not None:
        z.mul_(present)
    squashed = add_proposed(x, r * h).mul_(2).sigmoid_()
    torch.sub(squashed, 0.5, out=proposed).mul_(2)
    torch.lerp(h, proposed, z, out=out)


def unit_backward(
    dh: Tensor, a: Tensor, h: Tensor, proposed: Callable[[Tensor], Tensor], da: Tensor
) -> None:
    """From the gradient of the new state to those of what went in.

    Args:
        dh: gradient of the new state, ``(batch, n)``. Becomes that of the previous state without
            the part that passes through U_z and U_r, which is ``da[:, n:]`` times these.
        a, h: as after ``unit_forward``.
        proposed: x to x U.
        da: the gradient of ``a`` as it was before goes here.
    """
    n = h.size(-1)
    h_proposed, z, r = a.split(n, dim=-1)
    d_proposed, dz, dr = da.split(n, dim=-1)
    torch.sub(h_proposed, h, out=dz).mul_(dh)
    _sigmoid_backward(dz, z, grad_input=dz)
    changed = dh * z
    dh.sub_(changed)
    _tanh_backward(changed, h_proposed, grad_input=d_proposed)
    d_reset_h = proposed(d_proposed)
    dh.addcmul_(d_reset_h, r)
    _sigmoid_backward(d_reset_h * h, r, grad_input=dr)
