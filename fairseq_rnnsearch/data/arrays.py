"""``.npz`` archives of plain numbers, whose sizes are known before they are read."""

import math
import os
import zipfile
from typing import IO

import numpy as np

from fairseq_rnnsearch.data.zip_files import Refused, open_zip

# RNNsearch-50 of the paper, in float64, has 0.8 GiB. An archive may be compressed, and then says
# itself how large its parts become.
MOST = 2**32  # bytes


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of an archive, by name.

    Raises:
        Refused: for arrays of anything but integers and floating-point numbers, or larger together
            than `MOST`.
        Exception: of any kind, for a file that is damaged, or none.
    """
    with open(path, "rb") as file, open_zip(file) as archive:
        parts = archive.infolist()
        size = sum(part.file_size for part in parts)
        if size > MOST:
            raise Refused(f"its arrays would take {size:,} bytes, more than {MOST:,}")
        arrays = {}
        for part in parts:
            with archive.open(part) as content:
                arrays[part.filename.removesuffix(".npy")] = _array(content, part)
        return arrays


def _array(content: IO[bytes], part: zipfile.ZipInfo) -> np.ndarray:
    version = np.lib.format.read_magic(content)
    if version not in ((1, 0), (2, 0)):
        raise Refused(f"its part {part.filename!r:.80} has version {version} of the format")
    read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
    shape, _, kind = read_header(content)
    if kind.kind not in "iuf":
        raise Refused(f"its part {part.filename!r:.80} holds {kind!s:.40}, no plain numbers")
    if content.tell() + math.prod(shape) * kind.itemsize != part.file_size:
        raise Refused(f"its part {part.filename!r:.80} is not as large as its shape {shape!r:.80}")
    content.seek(0)
    return np.lib.format.read_array(content, allow_pickle=False)
