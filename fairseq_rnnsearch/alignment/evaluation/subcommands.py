"""Shared by all commands: parsers, and options that take files or numbers."""

import argparse
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fairseq_rnnsearch.command_line import help_text, parser_of
from fairseq_rnnsearch.errors import UsageError

# The function that runs a command, and whose docstring begins the help; the function that adds the
# options; and the end of the help.
Command = tuple[Callable, Callable, str | None]


def run_one_of(
    commands: Mapping[str, Command], prog: str, description: str, argv: Sequence[str] | None
) -> None:
    """Run the command named on the command line.

    Args:
        commands: by their names.
        prog: the program's name.
        argv: the command and its options; without them, those of the program.
    """
    parser = parser_of(prog, f"{description} Each command's --help has its options.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, (run, add_options, notes) in commands.items():
        text = help_text(inspect.getdoc(run)) or name
        command = subparsers.add_parser(
            name,
            help=text.splitlines()[0],
            description=text,
            epilog=help_text(notes),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_options(command)
        command.set_defaults(run=run)
    options = parser.parse_args(argv)
    options.run(options)


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
