"""One step of the gated unit, forwards and backwards, in buffers that exist already.

The equations are those of ``equations.gated_unit``. A leading dimension holds the directions of
the encoder, which run in step; the decoder has one. The three parts of a step's ``(directions,
batch, 3n)`` buffer are [proposed, update, reset], first as what goes into the squashing
functions, then as what comes out.

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


def add_product(out: Tensor, x: Tensor, weights: Tensor, scale: float = 1) -> None:
    """scale (out + x weights) in place, all ``(directions, rows, columns)``.

    x is rounded to the type of the weights.
    """
    if out.dtype != weights.dtype:
        out += product(x.to(weights.dtype), weights)
        if scale != 1:
            out *= scale
    elif len(out) == 1:  # what a batch of products costs beside one is seen at small sizes
        out[0].addmm_(x[0], weights[0], beta=scale, alpha=scale)
    else:
        out.baddbmm_(x, weights, beta=scale, alpha=scale)


def product(x: Tensor, y: Tensor) -> Tensor:
    """Of two batches of matrices."""
    return torch.mm(x[0], y[0]).unsqueeze(0) if len(x) == 1 else torch.bmm(x, y)


def unit_forward(a: Tensor, h: Tensor, U: Tensor, reset_h: Tensor, out: Tensor) -> None:
    """The new state.

    Args:
        a: ``(directions, batch, 3n)``: x, x_z + U_z h, x_r + U_r h. Becomes h~, z, r.
        h: previous state, ``(directions, batch, n)``.
        U: ``(directions, n, n)``.
        reset_h: scratch, ``(directions, batch, n)``.
        out: the new state goes here, ``(directions, batch, n)``.
    """
    n = h.size(-1)
    proposed, gates = a[..., :n], a[..., n:]
    gates.sigmoid_()
    torch.mul(gates[..., n:], h, out=reset_h)
    add_product(proposed, reset_h, U.mT, scale=2)
    proposed.sigmoid_()
    torch.sub(proposed, 0.5, out=proposed).mul_(2)
    torch.lerp(h, proposed, gates[..., :n], out=out)


def unit_backward(dh: Tensor, a: Tensor, h: Tensor, U: Tensor, da: Tensor, scratch: Tensor) -> None:
    """From the gradient of the new state to those of what went in.

    Args:
        dh: gradient of the new state, ``(directions, batch, n)``. Becomes that of the previous
            state without the part that passes through U_z and U_r, which is ``da[..., n:]``
            times these.
        a, h, U: as after ``unit_forward``.
        da: the gradient of ``a`` as it was before goes here.
        scratch: ``(2, directions, batch, n)``.
    """
    n = h.size(-1)
    proposed, z, r = a.split(n, dim=-1)
    d_proposed, dz, dr = da.split(n, dim=-1)
    one, d_reset_h = scratch
    torch.sub(proposed, h, out=dz).mul_(dh)
    _sigmoid_backward(dz, z, grad_input=dz)
    torch.mul(dh, z, out=one)
    dh.sub_(one)
    _tanh_backward(one, proposed, grad_input=d_proposed)
    add_product(d_reset_h.zero_(), d_proposed, U)
    dh.addcmul_(d_reset_h, r)
    _sigmoid_backward(d_reset_h.mul_(h), r, grad_input=dr)
