"""Functions of a C file for tensors."""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_rnnsearch.engine.c_library import compiled

# the compiler's options for each type of numbers
_DEFINES = {torch.float32: (), torch.float64: ("-DDOUBLE",), torch.bfloat16: ("-DBFLOAT16",)}
TYPES = tuple(_DEFINES)


class Functions(NamedTuple):
    """Functions of a C file, which is compiled for each type of numbers.

    Attributes:
        source: the file.
        arguments: the types of each function's arguments; all functions return nothing.
        types: those that the functions are for.
    """

    source: Path
    arguments: Mapping[str, tuple]
    types: tuple[torch.dtype, ...] = (torch.float32, torch.float64)

    def of_type(self, dtype: torch.dtype) -> ctypes.CDLL | None:
        """Return the functions for a type, or None if they cannot be compiled or loaded."""
        if dtype not in self.types:
            return None
        return compiled(self.source, self.arguments, _DEFINES[dtype])

    def library_for(self, *tensors: Tensor) -> ctypes.CDLL | None:
        """Return the functions for tensors of one type, or None; C trusts its pointers."""
        types = {x.dtype for x in tensors}
        if len(types) != 1 or not all(
            x.is_cpu and x.layout is torch.strided and x.is_contiguous() for x in tensors
        ):
            return None
        return self.of_type(types.pop())
