"""Reading a GPU's numbers without making it idle."""

import torch
from torch import Tensor


class Later:
    """A number that its device may still have to compute.

    It is copied as soon as it is there. Whoever reads it an update later waits only where the
    program is already that far ahead, and the device has work meanwhile.

    Args:
        number: one number on a GPU.
    """

    def __init__(self, number: Tensor) -> None:
        self._number = number.to("cpu", non_blocking=True)
        self._is_here = torch.Event(number.device)
        self._is_here.record()

    def read(self) -> Tensor:
        """Return the number, on the CPU."""
        self._is_here.synchronize()
        return self._number
