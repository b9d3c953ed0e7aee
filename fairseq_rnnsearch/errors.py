"""One-line error messages.

A `UserError` is a mistake in the user's input. Commands show it as one line
``fairseq_rnnsearch: error: ...``. They show every other exception in one line too, with the place
where it was raised. With RNNSEARCH_TRACEBACK=1 in the environment they show the traceback.
"""

import argparse
import contextlib
import difflib
import functools
import io
import itertools
import logging
import os
import re
import signal
import sys
import threading
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

logger = logging.getLogger(__name__)

FAIRSEQ = "fairseq-fixed==0.12.3.1"  # as pip has it
USAGE = 2  # exit status of shells and argparse for a wrong command line
CLOSED_PIPE = 141  # exit status after SIGPIPE, as in shells
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
    """A mistake in the command line itself: the program exits with `USAGE` instead of 1."""


class OneLineParser(argparse.ArgumentParser):
    """An option parser whose errors are all a `UsageError`, without the usage text.

    A mistyped name gets "did you mean" suggestions.
    """

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse unknown options: argparse hands those of a command to the program's parser."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        message = _shortened(_with_neighbours(message, self.format_usage()))
        raise UsageError(f"{message} ({self.prog} --help shows the options)")


def parser_of(
    prog: str, doc: str | None, kind: type[OneLineParser] = OneLineParser
) -> argparse.ArgumentParser:
    """Return a command's parser, with ``--help`` and ``--version``.

    Args:
        doc: the beginning of its help, the module's docstring; None under ``python -OO``.
        kind: the parser's class.
    """
    from fairseq_rnnsearch import __version__

    parser = kind(
        prog=prog,
        description=(doc or "").replace("``", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{prog} {__version__}")
    return parser


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Turn mistakes found in the block, which checks options, into `UsageError`."""
    try:
        yield
    except UserError as mistake:
        raise UsageError(str(mistake)) from mistake


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


def counted(number: int, noun: str, plural: str = "") -> str:
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
    near = difflib.get_close_matches(name, list(valid), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _with_neighbours(message: str, usage: str) -> str:
    """Add suggestions to argparse's messages about choices and options."""
    if chosen := re.match(r"(.*invalid choice: '?(.*?)'?) \(choose from (.*)\)$", message):
        near = neighbours(chosen[2], re.findall(r"[^\s',]+", chosen[3]))
        return chosen[1] + near if near else message
    if message.startswith("unrecognized arguments: "):
        options = re.findall(r"--[\w-]+", usage)
        for word in re.findall(r"--[\w-]+", message):
            message += neighbours(word, options)
    return message


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


def program(main: Callable[..., None]) -> Callable[..., None]:
    """Make a function the main function of a program that shows errors in one line.

    Called from Python, with arguments, it raises a `UserError` for a mistake in options or files.
    It ends silently when the reader of its output has gone, as in ``... | head``, and after SIGTERM
    or SIGHUP, which let it remove what it leaves unfinished.
    """

    @functools.wraps(main)
    def run(*arguments: Sequence[str] | None) -> None:
        install_excepthook()
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed by whoever started the program
                setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        is_command = arguments in ((), (None,))
        if is_command:
            _share_the_processor()
            if sys.stdout is sys.__stdout__:
                sys.stdout = StandardOutput(sys.stdout)
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGTERM, signal.SIGHUP):
                    if signal.getsignal(number) is signal.SIG_DFL:  # not ignored, as by nohup
                        signal.signal(number, _end)
        try:
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
            _write_no_more(sys.stdout.fileno())
            sys.exit(CLOSED_PIPE)

    return run


def _share_the_processor() -> None:
    """Let torch's threads, and those of programs started here, wait for each other in the kernel.

    GNU's OpenMP lets them spin for milliseconds by default. Where other programs use the processor,
    that makes a training several times slower. torch reads the variable when it is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


class StandardOutput(io.TextIOWrapper):
    """Replaces standard output, and names it in the error if it cannot be written.

    With ``is_foreign``, it removes control sequences, because text may be a stranger's.
    """

    def __init__(self, out: io.TextIOWrapper, *, is_foreign: bool = False) -> None:
        buffering = {"line_buffering": out.line_buffering, "write_through": out.write_through}
        super().__init__(out.buffer, out.encoding, out.errors, **buffering)
        self._is_foreign = is_foreign

    def write(self, text: str) -> int:
        if self._is_foreign:
            text = re.sub(r"[^\n\t]+", lambda part: as_text(part[0]), text)
        with self._named():
            return super().write(text)

    def flush(self) -> None:
        with self._named():
            super().flush()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as problem:
            _write_no_more(self.fileno())
            raise UserError(f"standard output cannot be written: {problem.strerror}") from problem


def _write_no_more(descriptor: int) -> None:
    """Redirect a descriptor to nowhere: at exit, Python would write the rest and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _end(number: int, _: FrameType | None) -> NoReturn:
    """End with the status that shells give for a signal."""
    raise SystemExit(128 + number)


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
    if isinstance(error, ModuleNotFoundError) and error.name == "fairseq":
        return (
            f"this needs fairseq, which is not installed: pip install {FAIRSEQ}; only models as "
            "folders, such as en-fr, work without it"
        )
    return as_text(f"{reason(error)}{_place(error)}")


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
    try:
        text = str(error)
    except Exception:  # of an exception that somebody else wrote
        text = ""
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
    return _shortened(text)


def first_sentence(problem: Exception) -> str:
    """Return torch's message without its advice."""
    return reason(problem).partition(". ")[0]


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _shortened(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST // 2]} ... {text[-MOST // 2 :]}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, what it was raised from, and so on, each once.

    With a debugger or OC_CAUSE=1, omegaconf makes an exception its own cause.
    """
    seen = []
    while error is not None and not any(error is known for known in seen):
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
def training_goes_on(without: str) -> Iterator[None]:
    """Turn whatever goes wrong with pictures and logs into one warning.

    Args:
        without: what may be missing from now on; a process warns once about each.
    """
    try:
        yield
    except Exception as problem:
        if is_first(without):
            said = " ".join(str(user_error(problem) or reason(problem)).split())
            logger.warning(f"{without}: {said}; training goes on")


def is_first(matter: str) -> bool:
    """Tell whether this is asked for the first time in this process, to warn once."""
    return next(_times_asked(matter)) == 0


@functools.cache
def _times_asked(matter: str) -> Iterator[int]:
    return itertools.count()
