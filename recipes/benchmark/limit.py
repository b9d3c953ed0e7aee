"""The least that an update can take: the model's matrix products, and the optimizer's memory."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from sizes import Size


class Product(NamedTuple):
    """``batch`` products of (rows x inner) and (inner x columns), ``steps`` times in a row.

    Backwards, the gradient of the right factor is one product over all steps.
    """

    steps: int
    rows: int
    inner: int
    columns: int
    batch: int = 1
    right: str = "weights"  # or "annotations", which differ from row to row


def products(size: Size) -> list[Product]:
    """All that a forward pass multiplies, as the fast kernels group it."""
    m, n, a, l, K, S, T, B = size
    return [
        Product(2, S * B, m, 3 * n),  # words into both encoder directions
        Product(S, B, n, 2 * n, batch=2),  # U_z, U_r of both, in step
        Product(S, B, n, n, batch=2),  # U
        Product(1, B, n, n),  # W_s
        Product(1, S * B, 2 * n, a),  # U_a
        Product(1, (T - 1) * B, m, 3 * n),  # words into the decoder
        Product(T, B, n, 2 * n + a),  # U_z, U_r, W_a
        Product(T, 1, S, 2 * n, batch=B, right="annotations"),  # contexts
        Product(T - 1, B, 2 * n, 3 * n),  # C
        Product(T - 1, B, n, n),  # U
        Product(1, T * B, n + m, 2 * l),  # U_o, V_o
        Product(1, T * B, 2 * n, 2 * l),  # C_o
        Product(1, T * B, l, K),  # W_o
    ]


def limit(product: Product, dtype: torch.dtype) -> tuple[Callable[[], None], Callable[[], None]]:
    """The product forwards and backwards, on buffers that exist already."""
    p = product
    if p.right == "annotations":
        dtype = torch.float32  # as in the kernels: no faster in bfloat16

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(p.batch, *shape).to(dtype)

    x, w = random(p.rows, p.inner), random(p.inner, p.columns)
    if p.right == "weights":
        w = w.mT.contiguous().mT  # stored as (out, in)
    y, dx = random(p.rows, p.columns), torch.empty_like(x)
    all_x, all_y = random(p.steps * p.rows, p.inner), random(p.steps * p.rows, p.columns)
    dw = random(p.columns, p.inner)

    def forward() -> None:
        for _ in range(p.steps):
            torch.bmm(x, w, out=y)

    def backward() -> None:
        for _ in range(p.steps):
            torch.bmm(y, w.mT, out=dx)
        torch.bmm(all_y.mT, all_x, out=dw)

    return forward, backward


class Limit:
    """All products of a size; for the optimizer, reading and writing what it has to.

    Clipping reads the gradients, scales them (a read, a write); Adadelta reads gradients,
    parameters and two averages, and writes the last three: ten times through all parameters.
    """

    def __init__(self, size: Size, dtype: torch.dtype, parameters: int) -> None:
        self.passes = [limit(product, dtype) for product in products(size)]
        self.memory = torch.ones(2, parameters)

    def run(self, what: str) -> None:
        if what != "optimizer":
            for forward, backward in self.passes:
                forward()
                if what != "forward":
                    backward()
        if what in ("update", "optimizer"):
            one, other = self.memory
            other.sum()
            for _ in range(3):
                one.add_(other)  # two reads and a write
