"""The file of a checkpoint: read as data only, verified, with one-line errors, and written whole.

``torch.load(weights_only=True)`` reads tensors and plain values and nothing that could run code.
Only this file reads what older checkpoints of fairseq also hold: options in a ``Namespace``, and
the counts of ``--eval-bleu`` in arrays of numpy, which become lists. A crafted file can exhaust the
memory; the manual's page on security says so.

fairseq renames a checkpoint into place without flushing it, and writes the copies,
``checkpoint_last.pt`` and ``checkpoint_best.pt``, over the previous ones: a process or a machine
that dies meanwhile leaves only a truncated file. Here they appear whole or not at all.
"""

import argparse
import contextlib
import os
import pickletools
import re
import shutil
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from fairseq_rnnsearch.errors import UserError, reason
from fairseq_rnnsearch.files import replacing

_LONGEST_NAME = 500  # characters of a class, with its module
ADVICE = "; an older checkpoint may be whole"


def read_data(path: str | os.PathLike[str], *, whole: bool = True) -> Any:
    """Return what a file holds, if that is tensors and plain values.

    Args:
        whole: compare its parts with their checksums; otherwise tensors are read when first used.

    Raises:
        UserError: if the file is damaged, not a checkpoint, or holds anything else.
    """
    if whole:
        verify(path)
    with explained(path), torch.serialization.safe_globals(_OLDER):
        mapped = not whole and zipfile.is_zipfile(path)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)


def verify(path: str | os.PathLike[str]) -> None:
    """Compare every part of a checkpoint with its checksum; torch does not.

    Raises:
        UserError: when the file cannot be read, or a part is not what was written.
    """
    with explained(path), open(path, "rb") as file:
        if file.read(4) == b"PK\3\4":  # a zip archive, as torch's are since 1.6
            with zipfile.ZipFile(file) as archive:
                if name := archive.testzip():
                    raise UserError(
                        f"checkpoint {path} is damaged: its part {name} is not what was written"
                        f"{ADVICE}"
                    )
                for name in archive.namelist():
                    if name.endswith("data.pkl"):
                        _refuse_long_names(archive.read(name))


def _refuse_long_names(description: bytes) -> None:
    """Refuse an overlong class name: torch would take days to format its message."""
    for opcode, argument, _ in pickletools.genops(description):
        if opcode.name == "GLOBAL" and len(argument) > _LONGEST_NAME:
            raise ValueError(f"it holds a class with a name of {len(argument):,} characters")


@contextlib.contextmanager
def explained(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise errors of reading a checkpoint as `UserError`."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError as problem:
        raise UserError(f"checkpoint {path} does not exist") from problem
    except Exception as problem:  # damaged files may raise anything
        if foreign := re.search(r"GLOBAL ([\w.]+)", str(problem)):
            raise UserError(
                f"checkpoint {path} refused: it holds {foreign[1]}, which is neither a tensor nor "
                "a plain value"
            ) from problem
        first_sentence = reason(problem).partition(". ")[0]  # torch's advice follows it
        raise UserError(
            f"checkpoint {path} cannot be read ({os.path.getsize(path):,} bytes; "
            f"{first_sentence:.200}): it may be truncated or no checkpoint{ADVICE}"
        ) from problem


def write_whole(state: dict, path: str) -> None:
    """Write a checkpoint under a temporary name in the same folder, flush it, and rename it."""
    with replacing(path, durable=True) as unfinished, open(unfinished, "wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as problem:
            # after "No space left on device", torch complains of a wrong position in the file
            of_the_disk = isinstance(problem.__context__, OSError)
            raise problem.__context__ if of_the_disk else problem from None


def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Write as ``write_whole`` does; this replaces fairseq's ``PathManager.copy``."""
    with replacing(dst_path, durable=True) as unfinished:
        shutil.copyfile(src_path, unfinished)
    return True


# --- numpy's values in older checkpoints ---------------------------------------------------------

_NUMBERS = "biuf"  # kinds of numpy's types; those of objects would be addresses in a forged file


class _Type:
    """Stands for ``numpy.dtype``, whose own unpickling trusts what a file says about its items."""

    def __init__(self, code: str, *_: object) -> None:
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple) -> None:
        self.order = "=" if state[1] == "|" else state[1]

    def values(self, content: bytes) -> np.ndarray:
        kind = np.dtype(str(self.code)).newbyteorder(self.order)
        if kind.kind not in _NUMBERS:
            raise ValueError(f"it holds an array of {kind!s:.40}")
        return np.frombuffer(content, kind)


class _Array(list):
    """Stands for ``numpy.ndarray``; becomes a list of its numbers."""

    def __init__(self, *_: object) -> None:
        super().__init__()

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, is_fortran, content = state
        order = "F" if is_fortran else "C"
        self[:] = kind.values(content).reshape(shape, order=order).tolist()


def _scalar(kind: _Type, content: bytes) -> int | float | bool:
    return kind.values(content)[0].item()


_OLDER = [
    argparse.Namespace,
    (_Type, "numpy.dtype"),
    (_Array, "numpy.ndarray"),
    *((_Array, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *((_scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]
