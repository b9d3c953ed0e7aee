"""Where the files ``fused_...`` can run: what they hold is in Triton."""

from functools import cache
from importlib.util import find_spec

from torch import Tensor


def runs_triton(tensor: Tensor) -> bool:
    """Tell whether kernels in Triton, which comes with torch's builds for CUDA, take a tensor."""
    return tensor.is_cuda and _is_installed()


@cache
def _is_installed() -> bool:
    return find_spec("triton") is not None
