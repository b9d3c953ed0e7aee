"""Products with weights that are used many times, stored as oneDNN wants to read them.

``x @ W.T`` for a beam of twelve rows spends more time on arranging W than on multiplying. Arranged
once, at the first product, it takes half as long, and a batch of forty sentences a tenth less. The
arranged copies stand beside the parameters, without being part of any module, and go with them.
Only in float32, and where torch has oneDNN; elsewhere these are torch's own products.
"""

from collections.abc import Iterable
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import linear as plain
from torch.utils.weak import WeakIdKeyDictionary

_arranged = WeakIdKeyDictionary()


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b without a gradient: ``(rows, in)`` to ``(rows, out)``.

    A weight is arranged again when it was changed in place or has moved. Changes that torch does
    not count, those of ``weight.data``, must be followed by ``forget``.
    """
    if weight.dtype != torch.float32 or not _available():
        return plain(x, weight, bias)
    state = weight.data_ptr(), 0 if weight.is_inference() else weight._version
    known, arranged = _arranged.get(weight, (None, None))
    if known != state:
        arranged = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        _arranged[weight] = state, arranged
    return torch.ops.mkldnn._linear_pointwise(x, arranged, bias, "none", [], "")


def forget(weights: Iterable[Tensor]) -> None:
    """Give back the arranged copies of these."""
    for weight in weights:
        _arranged.pop(weight, None)


@cache
def _available() -> bool:
    """Whether this torch has the two operators and they work; they are torch's own, not public."""
    try:
        weight = torch.ops.mkldnn._reorder_linear_weight(torch.ones(2, 3))
        product = torch.ops.mkldnn._linear_pointwise(torch.ones(1, 3), weight, None, "none", [], "")
        return product.tolist() == [[3.0, 3.0]]
    except (AttributeError, RuntimeError):
        return False
