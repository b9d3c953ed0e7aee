"""Types and choices of arguments, of Python's and of the commands."""

import argparse
import math
from collections.abc import Callable
from typing import Any, Literal, TypedDict, get_args

# A length to the power of a larger lenpen is no longer a float32.
LARGEST_LENPEN = 10
Pieces = Literal["merge", "keep"]
PIECES = get_args(Pieces)
ComputeDtype = Literal["float32", "tf32", "bfloat16"]
COMPUTE_DTYPES = get_args(ComputeDtype)
WEIGHTS = ("float32", "float16", "int8")  # how a folder stores a model's matrices
PAGE_WEIGHTS = ("int8", "float32")  # and a page


class ReadingOptions(TypedDict, total=False):
    """Keyword arguments of both ``Translator.translate`` and ``align``, for type checkers."""

    attribution: bool
    pieces: Pieces
    batch_size: int


class SearchOptions(ReadingOptions, total=False):
    """Keyword arguments of ``Translator.translate``."""

    lenpen: float
    forbid_unk: bool
    authors_search: bool
    replace_unk: bool
    split_sentences: bool


class ScoringOptions(ReadingOptions, total=False):
    """Keyword arguments of ``Translator.align``."""

    posterior: bool


def at_least(least: float, below: float = math.inf, kind: type = int) -> Callable[[str], Any]:
    """Return a function that reads such a number, for argparse."""

    def number(text: str) -> Any:
        if not least <= (read := kind(text)) < below:
            bound = f"{least} or more" + (f", and below {below}" if below < math.inf else "")
            raise argparse.ArgumentTypeError(f"{text!r:.60} must be {bound}")
        return read

    return number


count_of = at_least(1)
