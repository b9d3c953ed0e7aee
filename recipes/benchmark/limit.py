"""The least time that an update can take: the model's matrix products, the optimizer's memory."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from sizes import Size, dictionary, sample

from fairseq_rnnsearch.kernels.cpu.output_cost import LOGITS
from fairseq_rnnsearch.kernels.cpu.packed_weights import batch_product, single_product


class Product(NamedTuple):
    """``batch`` products of (rows x inner) and (inner x columns), ``steps`` times in a row.

    In the backward pass the gradient of the right factor is one product over all steps.
    """

    steps: int
    rows: int
    inner: int
    columns: int
    batch: int = 1
    right: str = "weights"  # what is right; or "annotations", which differ from row to row


def products(size: Size) -> list[Product]:
    """Return all products of a forward pass, as the fast kernels group them."""
    m, n, a, l, K, S, T, B = size
    batch = sample(size, dictionary(size))
    sources, targets = (
        len(words.unique())
        for words in (batch["net_input"]["src_tokens"], batch["net_input"]["prev_output_tokens"])
    )
    return [
        Product(2, sources, m, 3 * n),  # words into both encoder directions
        *2 * [Product(S, B, n, 2 * n), Product(S, B, n, n)],  # U_z, U_r; U; both directions
        Product(1, B, n, n),  # W_s
        Product(1, S * B, 2 * n, a),  # U_a
        Product(1, targets, m, 3 * n),  # words into the decoder
        Product(T, B, n, 2 * n + a),  # U_z, U_r, W_a
        Product(T, 1, S, 2 * n, batch=B, right="annotations"),  # contexts
        Product(T - 1, B, 2 * n, 3 * n),  # C
        Product(T - 1, B, n, n),  # U
        Product(1, T * B, n, 2 * l),  # U_o
        Product(1, targets, m, 2 * l),  # V_o
        Product(1, T * B, 2 * n, 2 * l),  # C_o
        Product(1, T * B, l, K),  # W_o
    ]


def limit(product: Product, dtype: torch.dtype) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return functions that do the product forwards and backwards, as fast as the kernels can."""
    p = product
    if p.right == "annotations":
        return _with_annotations(p)
    weights = torch.randn(p.columns, p.inner).to(dtype)
    x, y = (torch.randn(p.steps * p.rows, k).to(dtype) for k in (p.inner, p.columns))
    d_weights = torch.empty_like(weights)
    rows = min(p.rows, max(1, LOGITS // (p.columns * x.element_size())))

    def times(matrix: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        return batch_product(matrix) if p.steps > 1 else partial(single_product, weight=matrix)

    def multiply(parts: torch.Tensor, by: Callable[[torch.Tensor], torch.Tensor]) -> None:
        for part in parts.split(rows):
            by(part)

    forward = partial(multiply, x, times(weights))
    backwards = partial(multiply, y, times(weights.T))
    return forward, lambda: (backwards(), torch.mm(y.T, x, out=d_weights))


def _with_annotations(p: Product) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return them for what differs from row to row: in float32 always, as in the kernels."""
    x, w = torch.randn(p.batch, p.rows, p.inner), torch.randn(p.batch, p.inner, p.columns)
    y, dx = x @ w, torch.empty_like(x)
    all_x, all_y = (torch.randn(p.batch, p.steps * p.rows, k) for k in (p.inner, p.columns))

    def forward() -> None:
        for _ in range(p.steps):
            torch.bmm(x, w, out=y)

    def backward() -> None:
        for _ in range(p.steps):
            torch.bmm(y, w.mT, out=dx)
        torch.bmm(all_x.mT, all_y, out=w)

    return forward, backward


class Limit:
    """Does all products of a size, and for the optimizer reads and writes what it has to.

    Clipping reads the gradients and scales them, which is a read and a write; Adadelta reads
    gradients, parameters and two averages, and writes the last three. Together that goes ten times
    through all parameters.
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
