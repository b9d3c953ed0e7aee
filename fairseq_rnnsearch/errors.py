"""The one exception for mistakes a user can mend, and the hook that shows it as one line."""

import argparse
import contextlib
import logging
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import NoReturn

logger = logging.getLogger(__name__)

_missed: set[str] = set()


class UserError(ValueError):
    """A mistake in the user's input: shown as one line, without traceback.

    The message names what was given, what was found and what would be valid.
    """


class OneLineParser(argparse.ArgumentParser):
    """A parser of options whose every mistake is a `UserError`, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help shows the options)")


def install_excepthook() -> None:
    """Show an uncaught `UserError` as `fairseq_rnnsearch: error: <message>` on standard error.

    It may be the cause of the exception that was not caught: fairseq wraps some in its own.
    Python's exit status stays 1, as for any uncaught exception; every other exception goes to
    the hook that was there before. Calling it again changes nothing.
    """
    if getattr(sys.excepthook, "shows_user_errors", False):
        return
    previous = sys.excepthook

    def show(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        mistake = user_error(error)
        if mistake is not None:
            # A file name may hold a line break; the promise is one line.
            message = " ".join(str(mistake).splitlines())
            print(f"fairseq_rnnsearch: error: {message}", file=sys.stderr)
        else:
            previous(kind, error, traceback)

    # The mark survives a second import of this module under another name (--user-dir).
    show.shows_user_errors = True
    sys.excepthook = show


def user_error(error: BaseException | None) -> UserError | None:
    """The mistake behind an exception: fairseq raises another one in the place of some."""
    while error is not None and not isinstance(error, UserError):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error


@contextlib.contextmanager
def training_goes_on(without: str) -> Iterator[None]:
    """Turn whatever goes wrong with pictures and logs into one warning; no training ends of it.

    Args:
        without: what may be missing from now on; a process warns once of each.
    """
    try:
        yield
    except Exception as problem:
        if without not in _missed:
            _missed.add(without)
            reason = user_error(problem) or f"{type(problem).__name__}: {problem}"
            logger.warning(f"{without}: {' '.join(str(reason).split())}; training goes on")
