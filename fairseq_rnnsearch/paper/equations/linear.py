"""Products of embedded words, whose size is often no power of two."""

from torch import Tensor, nn

ALIGNED = 8  # numbers: 16 bytes of bfloat16


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return W x + b: ``(..., in)`` to ``(..., out)``.

    On a GPU, columns of zeros are added where rows would not begin at multiples of 16 bytes:
    cuBLAS has no fast product for these, and the paper's embeddings have 620 numbers.
    """
    more = -x.size(-1) % ALIGNED
    if more and x.device.type != "cpu":
        x, weight = (nn.functional.pad(rows, (0, more)) for rows in (x, weight))
    return nn.functional.linear(x, weight, bias)
