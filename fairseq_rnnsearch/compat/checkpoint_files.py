"""The two forms of a checkpoint's file: parts of a zip archive, and what torch wrote before 1.6.

What is read is bounded by what the file holds: nothing in it is compressed, no part lies on
another, and every number that a tensor shows was in the file.
"""

import io
import os
import zipfile
from typing import IO

import torch
from torch import Tensor

from fairseq_rnnsearch.compat.plain_pickle import SHARED, PlainUnpickler, Storage
from fairseq_rnnsearch.data.zip_files import Refused, open_zip

MOST_OF_DESCRIPTION = 2**26  # bytes; what it describes takes many times as much
_CHUNK = 2**20

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


class Damaged(Exception):
    """A part is not what was written; the message is its name."""


def read(file: IO[bytes], tensors: bool = True) -> object:
    """Return what a checkpoint holds.

    Args:
        file: at its beginning.
        tensors: without them, None stands for each.

    Raises:
        Refused: when it holds anything that a checkpoint of fairseq's does not.
        Damaged: when a check sum differs.
        Exception: of any kind, for a file that is damaged otherwise, or no checkpoint.
    """
    if not _is_archive(file):
        return _read_legacy(file, tensors)
    with open_zip(file) as archive:
        return _read_archive(archive, _size(file), tensors)


def verify(file: IO[bytes]) -> None:
    """Read all of a checkpoint, and keep none of it.

    Raises:
        as `read`.
    """
    if not _is_archive(file):
        _read_legacy(file, tensors=True)
        return
    with open_zip(file) as archive:
        _parts(archive)
        if name := archive.testzip():
            raise Damaged(name)


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _next(file: IO[bytes], count: int, part: str) -> bytes:
    """Return so many bytes; the last ones of an archive's part only if its check sum is right."""
    try:
        content = file.read(count)
    except zipfile.BadZipFile as problem:
        raise Damaged(part) from problem
    if len(content) != count:
        raise EOFError(f"it ends within {part}")
    return content


def _fill(numbers: Tensor, file: IO[bytes], part: str) -> None:
    """Read numbers, which take no memory besides."""
    values = numbers.view(torch.uint8)
    room = memoryview(values.numpy())
    for start in range(0, len(room), _CHUNK):
        count = min(_CHUNK, len(room) - start)
        room[start : start + count] = _next(file, count, part)
    if numbers.dtype == torch.bool:
        values.ne_(0)  # another byte would be a truth value that is neither


# --- archives -----------------------------------------------------------------------------------


def _is_archive(file: IO[bytes]) -> bool:
    """Tell whether a file begins as torch's do."""
    found = file.read(4) == b"PK\3\4"
    file.seek(0)
    return found


def _parts(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the parts by their names within the folder that they are all in.

    Raises:
        Refused: when one is not as torch writes it.
    """
    parts = {}
    for part in archive.infolist():
        name = part.filename.partition("/")[2]
        if part.compress_type != zipfile.ZIP_STORED or part.compress_size != part.file_size:
            raise Refused(f"its part {part.filename!r:.80} is compressed; torch stores them as is")
        if name in parts:
            raise Refused(f"it holds the part {part.filename!r:.80} twice, in two folders")
        parts[name] = part
    return parts


def _read_archive(archive: zipfile.ZipFile, size: int, tensors: bool) -> object:
    parts, storages = _parts(archive), {}

    def content(name: str) -> bytes:
        with archive.open(parts[name]) as file:
            return _next(file, parts[name].file_size, parts[name].filename)

    def storage(key: str, dtype: torch.dtype, count: int) -> Storage:
        part = parts[f"data/{key}"]
        if count * dtype.itemsize != part.file_size:
            raise Refused(f"its part {part.filename} has not the size that it declares")
        if key not in storages and tensors:
            storages[key] = torch.empty(count, dtype=dtype)
            with archive.open(part) as file:
                _fill(storages[key], file, part.filename)
        return _storage(storages.get(key), dtype, count)

    if "byteorder" in parts and content("byteorder") != b"little":
        raise Refused("its numbers are of a machine with another order of bytes")
    if parts["data.pkl"].file_size > MOST_OF_DESCRIPTION:
        raise Refused(f"its description has more than {MOST_OF_DESCRIPTION:,} bytes")
    description = io.BytesIO(content("data.pkl"))
    return PlainUnpickler(description, storage, SHARED * size).load()


def _storage(numbers: Tensor | None, dtype: torch.dtype, count: int) -> Storage:
    if numbers is not None and (numbers.dtype, len(numbers)) != (dtype, count):
        raise Refused("it names the same numbers twice, once as of another kind")
    return Storage(numbers)


# --- from before torch 1.6 ----------------------------------------------------------------------


def _read_legacy(file: IO[bytes], tensors: bool) -> object:
    """Read five pickles, the last of which names the storages, and the numbers that follow."""
    size, storages = _size(file), {}
    room = size

    def storage(key: str, dtype: torch.dtype, count: int) -> Storage:
        nonlocal room
        if key not in storages and tensors:
            room -= count * dtype.itemsize
            if room < 0:
                raise EOFError("it is shorter than the numbers that it declares")
            storages[key] = torch.zeros(count, dtype=dtype)
        return _storage(storages.get(key), dtype, count)

    def value() -> object:
        return PlainUnpickler(file, storage, SHARED * size).load()

    magic, protocol, system = value(), value(), value()
    if (magic, protocol) != (_MAGIC, _PROTOCOL) or system["little_endian"] is not True:
        raise ValueError("it does not begin as a checkpoint does")
    state, keys = value(), value()
    if not tensors:
        return state
    if sorted(keys) != sorted(storages):
        raise Refused("it does not hold the numbers that it declares")
    for key in keys:
        numbers = storages[key]
        if int.from_bytes(_next(file, 8, key), "little") != len(numbers):
            raise Refused(f"its part {key} has not the size that it declares")
        _fill(numbers, file, key)
    return state
