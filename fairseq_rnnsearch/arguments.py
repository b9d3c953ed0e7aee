"""Checks of arguments, of Python's and of the commands: type and range."""

import argparse
import numbers
import operator
import os
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Literal, NamedTuple, NoReturn, TypedDict, get_args

import numpy as np

from fairseq_rnnsearch.errors import UserError

# A length to the power of a larger lenpen is no longer a float32.
LARGEST_LENPEN = 10
Pieces = Literal["merge", "keep"]
PIECES = get_args(Pieces)
ComputeDtype = Literal["float32", "tf32", "bfloat16"]
COMPUTE_DTYPES = get_args(ComputeDtype)
WEIGHTS = ("float32", "float16", "int8")  # how a folder stores a model's matrices
PAGE_WEIGHTS = ("int8", "float32")  # and a page
MOST_DPI = 2400


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


class _Kind(NamedTuple):
    """The valid values of an argument.

    Attributes:
        holds: tells whether a value is one; a ValueError or TypeError says that it is none.
        plain: gives the value as a plain Python one.
        valid: what it may be, in words.
    """

    holds: Callable[[Any], bool]
    plain: Callable[[Any], Any]
    valid: str

    def or_none(self) -> "_Kind":
        return _Kind(
            lambda given: given is None or self.holds(given),
            lambda given: None if given is None else self.plain(given),
            f"{self.valid}, or None",
        )


def _is_count(given: Any) -> bool:
    """Accept whole numbers, also numpy's, but not bools, nor floats, which would be rounded."""
    return not isinstance(given, bool) and operator.index(given) >= 1


def _is_text(given: Any) -> bool:
    return isinstance(given, str)


def _is_sentence(given: Any) -> bool:
    return _is_text(given) and given.encode() is not None  # a surrogate is a ValueError


def _is_path(given: Any) -> bool:
    path = os.fspath(given)
    return _is_text(path) and "\0" not in path  # a NUL each function of Python refuses otherwise


def _is_axes(given: Any) -> bool:
    from matplotlib.axes import Axes

    return isinstance(given, Axes)


def _number(least: float, most: float) -> _Kind:
    def holds(given: Any) -> bool:
        is_number = isinstance(given, numbers.Real) and not isinstance(given, bool)
        return is_number and least <= given <= most

    return _Kind(holds, float, f"a number from {least} to {most}")


def _one_of(names: Sequence[str]) -> _Kind:
    return _Kind(lambda given: _is_text(given) and given in names, str, " or ".join(names))


def _plain_path(given: Any) -> str:
    return str(os.fspath(given))


_COUNT = _Kind(_is_count, int, "a whole number, 1 or more")
_SWITCH = _Kind(lambda given: isinstance(given, bool | np.bool_), bool, "True or False")
_NAME = _Kind(_is_text, str, "a string").or_none()
_PATH = _Kind(_is_path, _plain_path, "a path").or_none()
_FILE = _Kind(lambda given: _is_path(given) and bool(os.fspath(given)), _plain_path, "a path")
_SENTENCE = _Kind(_is_sentence, str, "a string that can be written as UTF-8 (without surrogates)")
_KINDS = {
    "data": _PATH,
    "source_lang": _NAME,
    "target_lang": _NAME,
    "tokenizer": _NAME,
    "lowercase": _SWITCH.or_none(),
    "bpe_codes": _PATH,
    "user_dir": _PATH,
    "beam": _COUNT,
    "batch_size": _COUNT,
    "lenpen": _number(-LARGEST_LENPEN, LARGEST_LENPEN),
    "forbid_unk": _SWITCH,
    "authors_search": _SWITCH,
    "replace_unk": _SWITCH,
    "split_sentences": _SWITCH,
    "posterior": _SWITCH,
    "attribution": _SWITCH,
    "pieces": _one_of(PIECES),
    "compute_dtype": _one_of(COMPUTE_DTYPES).or_none(),
    "path": _PATH,
    "ax": _Kind(
        _is_axes, lambda axes: axes, "axes of matplotlib, as plt.subplots gives them"
    ).or_none(),
    "title": _NAME,
    "values": _Kind(
        lambda given: given == "mattered" if _is_text(given) else _SWITCH.holds(given),
        lambda given: given if _is_text(given) else bool(given),
        'True, False or "mattered"',
    ),
    "dpi": _number(1, MOST_DPI).or_none(),
}


def checked(**given: Any) -> tuple:
    """Return the arguments as plain Python values, in their order.

    Raises:
        UserError: naming the first one with a wrong type or out of range.
    """
    return tuple(_taken(name, value, _KINDS[name]) for name, value in given.items())


def paths_of(name: str, given: Any) -> list[str]:
    """Return one path or several, at least one.

    Raises:
        UserError: naming the first that is no path.
    """
    valid = "a path or a list of at least one"
    if isinstance(given, str | os.PathLike):
        return [_taken(name, given, _FILE._replace(valid=valid))]
    return _each(name, given, _FILE) or _refuse(name, given, valid)


def sentences_of(name: str, given: Any) -> list[str]:
    """Return the sentences of a string, a list, a tuple, a generator or an array of numpy.

    Raises:
        UserError: naming the first that is no text.
    """
    if isinstance(given, str):
        return [_taken(name, given, _SENTENCE)]
    return _each(name, given, _SENTENCE)


def _each(name: str, given: Any, kind: _Kind) -> list:
    try:
        if isinstance(given, bytes | bytearray | Mapping | Set):  # no text; no order
            raise TypeError
        several = iter(given)
    except TypeError:
        _refuse(name, given, f"{kind.valid} or a list of such")
    return [_taken(f"{name}[{i}]", one, kind) for i, one in enumerate(several)]


def _taken(name: str, given: Any, kind: _Kind) -> Any:
    try:
        if kind.holds(given):
            return kind.plain(given)
    except (TypeError, ValueError):
        pass
    _refuse(name, given, kind.valid)


def _refuse(name: str, given: Any, valid: str) -> NoReturn:
    try:
        shown = " ".join(f"{given!r}".split())
    except Exception:  # some values cannot be shown
        shown = type(given).__name__
    raise UserError(f"{name} {shown:.60}: must be {valid}") from None


def count_of(text: str) -> int:
    """Read a whole number of 1 or more, for argparse."""
    try:
        if (number := int(text)) >= 1:
            return number
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r:.60} must be {_COUNT.valid}")
