"""One-line error messages.

A `UserError` is a mistake in the user's input. Commands (see ``command_line``) show it as one line
``fairseq_rnnsearch: error: ...``. They show every other exception in one line too, with the place
where it was raised, unless the system names a file. With RNNSEARCH_TRACEBACK=1 in the environment
they show the traceback.
"""

import contextlib
import functools
import itertools
import logging
import os
import re
import sys
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType

logger = logging.getLogger(__name__)

# what only the installation with fairseq has
_WITH_FAIRSEQ = {"fairseq", "fairseq_cli", "hydra", "omegaconf", "sacrebleu", "torch"}
MOST = 500  # characters to show of an exception or a parser message
MOST_OF_A_MISTAKE = 2000  # a UserError may name several paths

_JOINERS = "\u200c\u200d"  # they join letters in Persian, and emoji
_OF_ANOTHER_PROCESS = "Traceback (most recent call last)"


class UserError(ValueError):
    """A mistake in the user's input: shown as one line, without traceback.

    The message names what was given, what was found and what would be valid. It is made safe to
    show, because it may quote a stranger's file.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(as_text(message, MOST_OF_A_MISTAKE))


class UsageError(UserError):
    """A mistake in the command line itself: the program exits with 2 instead of 1."""


def as_text(foreign: str, most: int = sys.maxsize) -> str:
    """Make foreign text safe to show in one line, without terminal control sequences.

    Args:
        most: the largest number of characters; longer text is cut and ends in "…".
    """
    shown = foreign if len(foreign) <= most else f"{foreign[: most - 1]}…"
    return "".join(map(_as_character, shown))


def _as_character(foreign: str) -> str:
    if foreign.isprintable() or foreign in _JOINERS or unicodedata.category(foreign) == "Zs":
        return foreign
    return " " if foreign.isspace() else "\ufffd"


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """Return "1 pair", "2 pairs" or "12,000 pairs", for messages.

    Args:
        plural: where it is more than the noun with an s.
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


def option_of(name: str) -> str:
    """Return how an option is written on a command line."""
    return "--" + name.replace("_", "-")


def neighbours(name: str, valid: Iterable[str]) -> str:
    """Return "; did you mean NAME?" for a mistyped name, or nothing if no valid name is close."""
    import difflib

    near = difflib.get_close_matches(name, list(valid), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def shown_in_one_line(previous: Callable[..., None]) -> Callable[..., None]:
    """Return an excepthook that shows exceptions as `fairseq_rnnsearch: error: <line>`.

    Python's exit status stays 1, as for any uncaught exception.

    Args:
        previous: the existing hook, which RNNSEARCH_TRACEBACK=1 selects.
    """

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.environ.get("RNNSEARCH_TRACEBACK"):
            previous(kind, error, trace)
        else:
            print(f"fairseq_rnnsearch: error: {line_of(error)}", file=sys.stderr)

    return show


@functools.cache
def install_excepthook() -> None:
    """Make a program of this package show errors in one line; once per process."""
    sys.excepthook = shown_in_one_line(sys.excepthook)


def line_of(error: BaseException) -> str:
    """Return the message that replaces a traceback.

    A `UserError` may be the cause of the exception that was not caught: fairseq wraps some in its
    own.
    """
    mistake = user_error(error)
    if mistake is not None:
        return str(mistake)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, ModuleNotFoundError) and error.name in _WITH_FAIRSEQ:
        return (
            f"this needs {error.name}, which is not installed: pip install "
            "'fairseq-rnnsearch[fairseq]'; only models as folders, such as en-fr, work without it"
        )
    is_of_a_file = isinstance(error, OSError) and error.filename  # it names the file
    return as_text(reason(error) if is_of_a_file else f"{reason(error)}{_place(error)}")


def user_error(error: BaseException | None) -> UserError | None:
    """Return the mistake behind an exception, as fairseq replaces some by its own."""
    for problem in _chain(error):
        text, name = str(problem), f"{UserError.__module__}.{UserError.__name__}: "
        if _OF_ANOTHER_PROCESS in text and _last_line(text).startswith(name):
            return UserError(_last_line(text).removeprefix(name))
        if isinstance(problem, UserError):
            return problem
    return None


def reason(error: BaseException) -> str:
    """Return an exception's message in one line, with its type if that says too little."""
    text = str(error)
    if _OF_ANOTHER_PROCESS in text:
        text = _last_line(text)
    elif isinstance(error, OSError) and error.strerror:
        files = [str(file) for file in (error.filename, error.filename2) if file is not None]
        text = f"{' and '.join(files)}: {error.strerror}".removeprefix(": ")
    text = text.partition("\nException raised from ")[0]  # torch's places in C++
    text = " ".join(re.sub(r"^\[(enforce fail at [^]]*\] [^.]*\. |[^]]*\] )", "", text).split())
    text = re.sub(r"(?<!\.)\.$", "", text)  # the message goes on
    if not re.search(r"\S \S", text):  # a path, a name, a number or nothing
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    return shortened(text)


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def shortened(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST // 2]} ... {text[-MOST // 2 :]}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, what it was raised from, and so on, each once.

    With a debugger or OC_CAUSE=1, omegaconf makes an exception its own cause.
    """
    seen = []
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _place(error: BaseException) -> str:
    """Tell where an exception was raised, for debugging."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    file = "/".join(Path(frames[-1].filename).parts[-2:])
    return f" ({file}, line {frames[-1].lineno}; RNNSEARCH_TRACEBACK=1 shows the traceback)"


# --- errors that must not end a training ---------------------------------------------------------


@contextlib.contextmanager
def warn_and_continue(missing: str) -> Iterator[None]:
    """Log the failure of an optional output once instead of raising.

    Args:
        missing: what may be missing from now on; a process warns once about each.
    """
    try:
        yield
    except Exception as problem:
        if next(_times_asked(missing)) == 0:
            said = user_error(problem) or reason(problem)
            logger.warning(f"{missing}: {said}; training goes on")


@functools.cache
def _times_asked(missing: str) -> Iterator[int]:
    """Count from 0 for each, in this process."""
    return itertools.count()
