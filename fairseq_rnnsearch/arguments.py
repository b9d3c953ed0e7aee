"""What the functions of ``translator`` accept: the kind and the range of each argument."""

import argparse
import numbers
import operator
import os
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple, NoReturn

import numpy as np

from fairseq_rnnsearch.errors import UserError

# A length to the power of a larger lenpen is no longer a float32.
LARGEST_LENPEN = 10
PIECES = ("merge", "keep")
MOST_DPI = 2400


class _Kind(NamedTuple):
    """What an argument may be.

    Attributes:
        take: gives the argument as a plain Python value; ValueError or TypeError if it is none.
        valid: what it may be, in words.
    """

    take: Callable[[Any], Any]
    valid: str


def _count(given: Any) -> int:
    """Take whole numbers, numpy's too; not bools, nor floats, which would be rounded in silence."""
    number = operator.index(given)
    if isinstance(given, bool) or number < 1:
        raise ValueError
    return number


def _lenpen(given: Any) -> float:
    is_number = isinstance(given, numbers.Real) and not isinstance(given, bool)
    if not is_number or not abs(given) <= LARGEST_LENPEN:
        raise ValueError
    return float(given)


def _switch(given: Any) -> bool:
    if not isinstance(given, bool | np.bool_):
        raise ValueError
    return bool(given)


def _pieces(given: Any) -> str:
    if not isinstance(given, str) or given not in PIECES:
        raise ValueError
    return given


def _name(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError
    return str(given)


def _path(given: Any) -> str:
    path = _name(os.fspath(given))
    if "\0" in path:  # which Python's functions refuse each in its own way
        raise ValueError
    return path


def _file(given: Any) -> str:
    path = _path(given)
    if not path:
        raise ValueError
    return path


def _axes(given: Any) -> Any:
    from matplotlib.axes import Axes

    if not isinstance(given, Axes):
        raise TypeError
    return given


def _dpi(given: Any) -> float:
    is_number = isinstance(given, numbers.Real) and not isinstance(given, bool)
    if not is_number or not 1 <= given <= MOST_DPI:
        raise ValueError
    return float(given)


def _or_none(kind: _Kind) -> _Kind:
    return _Kind(
        lambda given: None if given is None else kind.take(given), f"{kind.valid}, or None"
    )


_COUNT = _Kind(_count, "a whole number, 1 or more")
_SWITCH = _Kind(_switch, "True or False")
_NAME = _or_none(_Kind(_name, "a string"))
_FILE = _or_none(_Kind(_path, "a path"))
_KINDS = {
    "data": _FILE,
    "source_lang": _NAME,
    "target_lang": _NAME,
    "tokenizer": _NAME,
    "lowercase": _or_none(_SWITCH),
    "bpe_codes": _FILE,
    "beam": _COUNT,
    "batch_size": _COUNT,
    "lenpen": _Kind(_lenpen, f"a number from -{LARGEST_LENPEN} to {LARGEST_LENPEN}"),
    "forbid_unk": _SWITCH,
    "authors_search": _SWITCH,
    "pieces": _Kind(_pieces, " or ".join(PIECES)),
    "path": _FILE,
    "ax": _or_none(_Kind(_axes, "axes of matplotlib, as plt.subplots gives them")),
    "title": _NAME,
    "values": _SWITCH,
    "dpi": _or_none(_Kind(_dpi, f"a number from 1 to {MOST_DPI}")),
}


def checked(**given: Any) -> tuple:
    """Return the arguments as plain Python values, in their order.

    Raises:
        UserError: naming the first that is none of its kind or out of its range.
    """
    return tuple(_taken(name, value, *_KINDS[name]) for name, value in given.items())


def paths_of(name: str, given: Any) -> list[str]:
    """Return one path or several, at least one.

    Raises:
        UserError: naming the first that is no path.
    """
    valid = "a path or a list of at least one"
    if isinstance(given, str | os.PathLike):
        return [_taken(name, given, _file, valid)]
    return _each(name, given, _file, "a path") or _refuse(name, given, valid)


def sentences_of(name: str, given: Any) -> list[str]:
    """Return the sentences of a string, a list, a tuple, a generator or an array of numpy.

    Raises:
        UserError: naming the first that is no text.
    """
    if isinstance(given, str):
        return [_taken(name, given, _sentence, _SENTENCE)]
    return _each(name, given, _sentence, _SENTENCE)


_SENTENCE = "a string that can be written as UTF-8 (without surrogates)"


def _sentence(given: Any) -> str:
    text = _name(given)
    text.encode()
    return text


def _each(name: str, given: Any, take: Callable[[Any], Any], valid: str) -> list:
    try:
        if isinstance(given, bytes | bytearray | Mapping | Set):  # no text; no order
            raise TypeError
        several = iter(given)
    except TypeError:
        _refuse(name, given, f"{valid} or a list of such")
    return [_taken(f"{name}[{i}]", one, take, valid) for i, one in enumerate(several)]


def _taken(name: str, given: Any, take: Callable[[Any], Any], valid: str) -> Any:
    try:
        return take(given)
    except (TypeError, ValueError):
        _refuse(name, given, valid)


def _refuse(name: str, given: Any, valid: str) -> NoReturn:
    try:
        shown = " ".join(f"{given!r}".split())
    except Exception:  # not everything can be shown
        shown = type(given).__name__
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise UserError(f"{name} {shown}: must be {valid}") from None


def count_of(text: str) -> int:
    """Read a whole number of 1 or more, for argparse."""
    try:
        return _count(int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.60} must be {_COUNT.valid}") from None
