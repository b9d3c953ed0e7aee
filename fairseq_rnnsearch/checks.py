"""Types, choices and checks of arguments, of Python's and of the commands."""

import argparse
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from fairseq_rnnsearch.errors import UserError, option_of

# A length to the power of a larger lenpen is no longer a float32.
LARGEST_LENPEN = 10
Pieces = Literal["merge", "keep"]
PIECES = get_args(Pieces)
BEAM = 5  # hypotheses that a search keeps
ComputeDtype = Literal["float32", "tf32", "bfloat16"]
COMPUTE_DTYPES = get_args(ComputeDtype)
LoadedDtype = Literal[ComputeDtype, "int8"]  # what a trained model can compute in
LOADED_DTYPES = get_args(LoadedDtype)
DECODER_ORDERS = ("program", "appendix", "section3")  # see `network.decoder`
WEIGHTS = ("float32", "float16", "int8")  # how a folder stores a model's matrices
PAGE_WEIGHTS = ("int8", "float32")  # and a page


def at_least(least: float, below: float = math.inf, kind: type = int) -> Callable[[str], Any]:
    """Return a function that reads such a number, for argparse."""

    def number(text: str) -> Any:
        if not least <= (read := kind(text)) < below:
            bound = f"{least} or more" + (f", and below {below}" if below < math.inf else "")
            raise argparse.ArgumentTypeError(f"{text!r:.60} must be {bound}")
        return read

    return number


count_of = at_least(1)

# --- of options that fairseq reads ----------------------------------------------------------------

# The "check" in a dataclass field's metadata: it gets the option's name and all options, and raises
# UserError. `runs.options.check_options` calls it.
Check = Callable[[str, Mapping[str, Any]], None]


def in_range(least: float, most: float = math.inf) -> Check:
    """Return the check of a number, or of each number in a list; an option may have no value."""
    valid = f"{least} or more" if most == math.inf else f"from {least} to {most}"

    def check(name: str, options: Mapping[str, Any]) -> None:
        value = options.get(name)
        for number in value if isinstance(value, list | tuple) else [value]:
            if isinstance(number, numbers.Real) and not least <= number <= most:
                raise UserError(f"{option_of(name)} {number}: must be {valid}")

    return check


def excludes(defaults: Mapping[str, Any], why: str, unless: Any = None) -> Check:
    """Return the check that other options have their defaults.

    Args:
        defaults: of the other options.
        why: for the message, which names the other option first.
        unless: the value of the checked option that excludes nothing.
    """

    def check(name: str, options: Mapping[str, Any]) -> None:
        if options.get(name, unless) == unless:
            return
        for other, default in defaults.items():
            if (value := options.get(other, default)) != default:
                shown = "" if value is True else f" {value}"
                raise UserError(f"{option_of(other)}{shown}: {why}")

    return check
