"""The devices on which torch can compute here."""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from fairseq_rnnsearch.errors import UserError


def usable_device(device: str | torch.device, option: str = "device") -> torch.device:
    """Return the device with a name such as "cpu", "cuda" or "cuda:1".

    Args:
        option: what gave the name, for the message.

    Raises:
        UserError: if this machine cannot compute on such a device.
    """
    usable = ["cpu"]
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator().type
        usable += [kind, *(f"{kind}:{i}" for i in range(torch.accelerator.device_count()))]
    if str(device) not in usable:
        raise UserError(f"{option} {str(device)!r}: must be one of {', '.join(usable)} here")
    return torch.device(device)


def runs_triton(tensor: Tensor) -> bool:
    """Tell whether kernels in Triton, which comes with torch's builds for CUDA, take a tensor."""
    return tensor.is_cuda and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
