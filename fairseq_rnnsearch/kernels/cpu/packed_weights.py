"""Products with weights that are used many times, stored in oneDNN's layout.

``x @ W.T`` for a beam of twelve rows spends more time on rearranging W than on multiplying.
Arranging W once halves the time, and saves a tenth for forty sentences. It needs float32 or
bfloat16 and a torch with oneDNN; otherwise torch's own products run.
"""

import math
from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn.functional import linear

# numbers of a weight, times its uses: with fewer, arranging takes longer than it saves
REPAID = 2**24


def single_product(x: Tensor, weight: Tensor) -> Tensor:
    """Return x W^T, both of one type, in new memory, for a weight that is used once.

    It has no gradient. In float32, oneDNN is up to a tenth faster than torch's own products.
    """
    return _arranged(weight, x) if _available(weight.dtype) else linear(x, weight)


def weight_gradient(d_out: Tensor, x: Tensor) -> Tensor:
    """Return a matrix's gradient, ``(out, in)``, in new memory, given those of its products with x.

    In float32, MKL, which torch's own products are, has half of oneDNN's speed on AMD's processors
    with AVX-512.

    Args:
        d_out, x: ``(..., out)`` and ``(..., in)``; x may be of any type.
    """
    d_out, x = d_out.flatten(0, -2), x.flatten(0, -2).to(d_out.dtype)
    if d_out.dtype != torch.float32 or not d_out.numel() or not _available(d_out.dtype):
        return d_out.T @ x
    d_out, x = d_out.contiguous(), x.contiguous()  # with gaps between rows, oneDNN may be slow
    if len(d_out.T) < 2 * len(x.T):
        return _arranged(x.T, d_out.T)
    return _arranged(d_out.T, x.T).T.contiguous()  # a tall result, made lying


def batch_product(weight: Tensor, uses: float = math.inf) -> Callable[..., Tensor]:
    """Return the function from x, ``(rows, in)``, and perhaps a bias to x W^T + b, all of W's type.

    It is for the steps or parts of one batch, of which there are
    ``uses``: nothing is cached, nothing has a gradient. Rows of x may be strided.
    """
    if not _available(weight.dtype):
        return lambda x, bias=None: linear(x, weight, bias)
    if uses * weight.numel() < REPAID:
        return partial(_arranged, weight)
    return partial(_arranged, torch.ops.mkldnn._reorder_linear_weight(weight))


def _arranged(weight: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


@cache
def _available(dtype: torch.dtype) -> bool:
    """Return whether weights of a type can be arranged.

    That needs torch's private operators for it, present and working.
    """
    if dtype not in (torch.float32, torch.bfloat16):
        return False
    try:
        weight = torch.ops.mkldnn._reorder_linear_weight(torch.ones(2, 3, dtype=dtype))
        return _arranged(weight, torch.ones(1, 3, dtype=dtype)).tolist() == [[3.0, 3.0]]
    except (AttributeError, RuntimeError):
        return False
