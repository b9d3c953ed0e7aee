"""The command lines of this package's programs: parsers and exit statuses."""

import argparse
import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import NoReturn

from fairseq_rnnsearch.errors import (
    UsageError,
    UserError,
    install_excepthook,
    shortened,
)

USAGE = 2  # exit status of shells and argparse for a wrong command line
CLOSED_PIPE = 141  # exit status after SIGPIPE, as in shells


class OneLineParser(argparse.ArgumentParser):
    """An option parser whose errors are all a `UsageError`, without the usage text."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{shortened(message)} ({self.prog} --help shows the options)")


def help_text(doc: str | None) -> str:
    """Return a docstring as a terminal shows it, without quotes; there is none under -OO."""
    return (doc or "").replace("`", "")


def parser_of(prog: str, doc: str | None) -> OneLineParser:
    """Return a command's parser, with ``--help`` and ``--version``.

    Args:
        doc: the beginning of its help, the module's docstring; None under ``python -OO``.
    """
    from fairseq_rnnsearch import __version__

    parser = OneLineParser(
        prog=prog,
        description=help_text(doc),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{prog} {__version__}")
    return parser


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Turn each `UserError` of the block, which checks options, into a `UsageError`."""
    try:
        yield
    except UserError as mistake:
        raise UsageError(str(mistake)) from mistake


def program(main: Callable[..., None]) -> Callable[..., None]:
    """Make a function the main function of a program that shows errors in one line.

    Called from Python, with arguments, it raises a `UserError` for a mistake in options or files.
    It ends silently when the reader of its output has gone, as in ``... | head``, and after SIGTERM
    or SIGHUP, which let it remove what it leaves unfinished.
    """

    @functools.wraps(main)
    def run(*arguments: Sequence[str] | None) -> None:
        install_excepthook()
        is_command = arguments in ((), (None,))
        if is_command:
            _share_the_processor()
            if threading.current_thread() is threading.main_thread():
                # Windows has no SIGHUP
                for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
                    if signal.getsignal(number) is signal.SIG_DFL:  # not ignored, as by nohup
                        signal.signal(number, _end)
        if sys.stderr is None:  # closed; print would take standard output instead
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        try:
            if is_command and sys.stdout is None:
                sys.exit("standard output is closed: redirect it to a file, or to /dev/null")
            try:
                main(*arguments)
            finally:
                sys.stdout.flush()
        except UsageError as mistake:
            if not is_command:  # called from Python
                raise
            sys.excepthook(type(mistake), mistake, mistake.__traceback__)
            sys.exit(USAGE)
        except BrokenPipeError:
            # at exit, Python would write the rest and fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(CLOSED_PIPE)

    return run


def _share_the_processor() -> None:
    """Let torch's threads, and those of programs started here, wait for each other in the kernel.

    GNU's OpenMP lets them spin for milliseconds by default. Where other programs use the processor,
    that makes a training several times slower. torch reads the variable when it is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def _end(number: int, _: FrameType | None) -> NoReturn:
    """End with the status that shells give for a signal."""
    raise SystemExit(128 + number)
