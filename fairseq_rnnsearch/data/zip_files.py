"""Zip archives that cannot do harm: each part once, none on another, arrays of bounded size.

`open_zip` opens any such archive, as torch writes them too; `read_arrays` reads ``.npz`` archives
of plain numbers.
"""

import math
import os
import zipfile
from typing import IO

import numpy as np

MOST_OF_LIST = 2**24  # bytes of the list of parts; what zipfile makes of it takes ten times as much
# An archive of arrays may be compressed, and then says itself how large its parts become. The
# parameters of the paper's RNNsearch-50 take 0.8 GiB in float64.
MOST = 2**32  # bytes


class Refused(Exception):
    """What a sound file does not hold; the message is a part of a sentence about the file."""


def open_zip(file: IO[bytes]) -> zipfile.ZipFile:
    """Open an archive to read from it.

    Raises:
        Refused: parts are listed twice or lie on each other, or their list is too long.
        zipfile.BadZipFile: the file is no zip archive.
    """
    # ZipFile asks for this record first, and then reads the whole list, however long that is.
    record = zipfile._EndRecData(file)
    if record and record[zipfile._ECD_SIZE] > MOST_OF_LIST:
        raise Refused(f"its list of parts has more than {MOST_OF_LIST:,} bytes")
    archive = zipfile.ZipFile(file)
    try:
        _check_places(archive)
    except Refused:
        archive.close()
        raise
    return archive


def _check_places(archive: zipfile.ZipFile) -> None:
    names, end = set(), 0
    for part in sorted(archive.infolist(), key=lambda part: part.header_offset):
        if part.filename in names:
            raise Refused(f"it holds the part {part.filename!r:.80} twice")
        if part.header_offset < end:
            raise Refused(f"its part {part.filename!r:.80} lies on another")
        names.add(part.filename)
        end = part.header_offset + zipfile.sizeFileHeader + len(part.filename) + part.compress_size
    if end > archive.start_dir:
        raise Refused("a part of it lies on the list of its parts")


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read all arrays of an archive, by their names.

    Raises:
        Refused: arrays hold anything but integers and floating-point numbers, or are together
            larger than `MOST`.
        Exception: of any kind, where the file is damaged or no archive.
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
    """Read one part, after a check that it is as large as its header says."""
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
