"""Checks of the sentences that fairseq-preprocess writes: ``train.en-fr.en.idx`` and ``.bin``.

The index holds the bytes MMIDIDX and two zeros, the version 1 (8 bytes), a code for the type of
the numbers (1 byte), how many sentences there are (8 bytes), the length of each (4 bytes) and then
where each begins in the .bin (8 bytes). fairseq reads damaged files silently, or crashes.
"""

import glob
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.data.checksums import check_checksum
from fairseq_rnnsearch.errors import UserError, counted
from fairseq_rnnsearch.files import open_plain

_MAGIC = b"MMIDIDX\x00\x00"
IMPLEMENTATIONS = ("mmap", "raw")  # of fairseq's --dataset-impl, which the task reads
_OLDER = b"TNTIDX"
_HEADER = np.dtype([("magic", "V9"), ("version", "<u8"), ("type", "u1"), ("count", "<u8")])
# These are fairseq's codes of the types in which it stores the numbers of words.
_TYPES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}
_TYPES |= {9: np.uint32, 10: np.uint64}
_PAD, _EOS = 1, 2
_NUMBERS_AT_ONCE = 1 << 22
_AGAIN = "make the data again with fairseq-preprocess"


def check_split(folder: Path, split: str, symbols: Mapping[str, int]) -> None:
    """Check a split and its parts, ``train``, ``train1``, ..., as far as they exist.

    Args:
        symbols: the number of symbols in each language's dictionary.

    Raises:
        UserError: as from `check_binarised` and `check_checksum`.
    """
    folder, split = (folder / split).parent, Path(split).name
    for language, count in symbols.items():
        for index in sorted(folder.glob(f"{glob.escape(split)}*.{language}.idx")):
            prefix = index.with_suffix("")
            if not prefix.name.partition(".")[0].removeprefix(split).isdecimal() and (
                not prefix.name.startswith(f"{split}.")
            ):
                continue
            check_binarised(prefix, count)
            check_checksum(index)
            check_checksum(f"{prefix}.bin")


def check_binarised(prefix: str | os.PathLike[str], symbols: int) -> None:
    """Check one side of a split.

    Args:
        prefix: the two files' names without ``.idx`` and ``.bin``.
        symbols: the number of symbols in the dictionary; every word must be below it.

    Raises:
        UserError: something is wrong; the message names the file and, where it is known, the
            number of the sentence, from 0.
    """
    index, data = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    try:
        sizes, kind = _read_index(index)
        numbers = _numbers(data, int(sizes.sum()), kind)
    except OSError as problem:
        raise UserError(f"{problem.filename} cannot be read: {problem.strerror}") from problem
    _check_numbers(data, numbers, np.cumsum(sizes) - 1, symbols)


def _read_index(path: Path) -> tuple[np.ndarray, np.dtype]:
    """Return (sentences,) the length of each with its end symbol, and the type of the numbers."""
    with open_plain(path) as file:
        content = file.read()
    if content.startswith(_OLDER):
        raise UserError(
            f"{path} is an index of fairseq's older kind (--dataset-impl cached or lazy), in which"
            f" damage cannot be seen; {_AGAIN}, without --dataset-impl"
        )
    header = np.frombuffer(content[: _HEADER.itemsize].ljust(_HEADER.itemsize, b"\0"), _HEADER)[0]
    count, code = int(header["count"]), int(header["type"])
    is_index = content.startswith(_MAGIC) and header["version"] == 1 and code in _TYPES
    if not is_index or len(content) != _HEADER.itemsize + 12 * count:
        raise UserError(
            f"{path} ({counted(len(content), 'byte')}) is not an index of fairseq, or it is "
            f"truncated or damaged; {_AGAIN}"
        )
    kind = np.dtype(_TYPES[code])
    sizes = np.frombuffer(content, "<i4", count, _HEADER.itemsize).astype(np.int64)
    begins = np.frombuffer(content, "<i8", count, _HEADER.itemsize + 4 * count)
    is_wrong = (sizes < 1) | (begins != (np.cumsum(sizes) - sizes) * kind.itemsize)
    if is_wrong.any():
        raise UserError(
            f"{path}: the length or the place of sentence {int(is_wrong.argmax())} is damaged; "
            f"{_AGAIN}"
        )
    return sizes, kind


def _numbers(path: Path, count: int, kind: np.dtype) -> np.ndarray:
    """Open the .bin, which must hold so many numbers."""
    with open_plain(path) as file:
        size, expected = os.fstat(file.fileno()).st_size, count * kind.itemsize
        if size != expected:
            raise UserError(
                f"{path} has {counted(size, 'byte')}, its .idx says {expected:,}: one of the two is"
                f" truncated or of other data; {_AGAIN}"
            )
        return np.memmap(file, kind, "r") if count else np.zeros(0, kind)


def _check_numbers(path: Path, numbers: np.ndarray, ends: np.ndarray, symbols: int) -> None:
    """Check the words of all sentences, some at a time to limit memory.

    Args:
        numbers: those of all words.
        ends: (sentences,) where the end symbol of each should be.
        symbols: how many symbols the dictionary has.
    """
    for start in range(0, len(numbers), _NUMBERS_AT_ONCE):
        block = np.asarray(numbers[start : start + _NUMBERS_AT_ONCE])
        ends_here = ends[slice(*np.searchsorted(ends, (start, start + len(block))))] - start
        is_no_word = (block >= symbols) | (block < 0) | (block == _PAD)
        is_wrong = is_no_word.copy()
        is_wrong[ends_here] |= block[ends_here] != _EOS
        place = int(is_wrong.argmax())  # of the first
        if is_wrong[place]:
            what = (
                f"the number {block[place]}, which is not a word of a dictionary of {symbols:,} "
                "symbols"
                if is_no_word[place]
                else f"no end symbol, but the number {block[place]}"
            )
            raise UserError(
                f"{path}: sentence {np.searchsorted(ends, start + place)} has {what}: it is "
                f"damaged, or belongs to another dictionary; {_AGAIN}"
            )
