"""Options that the commands share, such as NAME=VALUE for each system."""

import argparse
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from fairseq_rnnsearch.errors import UsageError


def add_file(
    parser: argparse._ActionsContainer, option: str, help: str, required: bool = False
) -> None:
    """Add an option that names one file."""
    parser.add_argument(option, type=Path, required=required, metavar="FILE", help=help)


def add_number(
    parser: argparse._ActionsContainer,
    option: str,
    default: int,
    metavar: str = "N",
    help: str = "",
) -> None:
    """Add an option that is a whole number; its help ends with its default."""
    help = f"{help} (default: {default})" if help else f"default: {default}"
    parser.add_argument(option, type=int, default=default, metavar=metavar, help=help)


def given_together(options: Mapping[str, object]) -> bool:
    """Tell whether options that belong together were given.

    Args:
        options: the value of each option by its name; None and an empty list are not given.

    Raises:
        UsageError: only some of them were given.
    """
    given = [value is not None and value != [] for value in options.values()]
    if any(given) and not all(given):
        raise UsageError(f"{' and '.join(options)} belong together: give both or neither")
    return all(given)


def add_list(
    parser: argparse._ActionsContainer, option: str, metavar: str, help: str, **more: object
) -> None:
    """Add an option that may be given any number of times; its value is the list of them all."""
    parser.add_argument(option, action="append", default=[], metavar=metavar, help=help, **more)


def named_values(values: Iterable[str], option: str) -> dict[str, str]:
    """Split ``NAME=VALUE`` options and return the values by their names, in the given order.

    Raises:
        UsageError: an option lacks its name or its value, or gives a name a second time.
    """
    named: dict[str, str] = {}
    for text in values:
        name, _, value = text.partition("=")
        if not name.strip() or not value:
            raise UsageError(f"{option} {text!r}: must be NAME=VALUE, such as RNNsearch-50=out.fr")
        if name in named:
            raise UsageError(f"{option} names {name!r} twice; expected once for each system")
        named[name] = value
    return named


def named_paths(values: Iterable[str], option: str) -> dict[str, Path]:
    """Split ``NAME=FILE`` options as `named_values` does."""
    return {name: Path(value) for name, value in named_values(values, option).items()}


def check_names(names: Iterable[str], valid: Collection[str], option: str) -> None:
    """Check that an option names existing systems.

    Raises:
        UsageError: a name is not among the valid ones.
    """
    for name in names:
        if name not in valid:
            raise UsageError(
                f"{option} {name!r}: there is no such system; valid: {', '.join(valid) or 'none'}"
            )
