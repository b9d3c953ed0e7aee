"""How a program ends that cannot go on: with one line where its user can do something about it.

`UserError` is such a line. What else leaves a program is judged by where it was raised: fairseq
asserts much about options, files and data, and its reason becomes a line too; what this package or
a plugin of the user's own raises is a defect, and keeps its traceback. With RNNSEARCH_TRACEBACK=1
in the environment everything does.
"""

import argparse
import ast
import contextlib
import difflib
import functools
import linecache
import logging
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn

logger = logging.getLogger(__name__)

CLOSED_PIPE = 141  # what shells report of a program that SIGPIPE has ended
MOST = 500  # characters of what an exception or a parser says

_PACKAGE = Path(__file__).parent
_OF_ANOTHER_PROCESS = "Traceback (most recent call last)"
_NO_MEMORY = re.compile(r"can't allocate memory|out of memory", re.I)

_missed: set[str] = set()


class UserError(ValueError):
    """A mistake in the user's input: shown as one line, without traceback.

    The message names what was given, what was found and what would be valid.
    """


class OneLineParser(argparse.ArgumentParser):
    """A parser of options whose every mistake is a `UserError`, without the usage before it.

    A name that is mistyped is shown with its neighbours.
    """

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse unknown options: argparse hands those of a command to the program's parser."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        message = message.replace("<lambda> ", "")  # what fairseq reads lists of numbers with
        message = _shortened(_with_neighbours(message, self.format_usage()))
        raise UserError(f"{message} ({self.prog} --help shows the options)")


def neighbours(name: str, valid: Iterable[str]) -> str:
    """Return "; did you mean NAME?" for a mistyped name; nothing where no name is like it."""
    near = difflib.get_close_matches(name, list(valid), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _with_neighbours(message: str, usage: str) -> str:
    """Name what was meant, after what argparse says of a choice or of options."""
    if chosen := re.match(r"(.*invalid choice: '?(.*?)'?) \(choose from (.*)\)$", message):
        near = neighbours(chosen[2], re.findall(r"[^\s',]+", chosen[3]))
        return chosen[1] + near if near else message
    if message.startswith("unrecognized arguments: "):
        options = re.findall(r"--[\w-]+", usage)
        for word in re.findall(r"--[\w-]+", message):
            message += neighbours(word, options)
    return message


def shown_in_one_line(previous: Callable[..., None]) -> Callable[..., None]:
    """Make Python show what was not caught as `fairseq_rnnsearch: error: <line>`.

    Python's exit status stays 1, as for any uncaught exception.

    Args:
        previous: the hook that is there, which shows what `line_of` has no line for.
    """

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        line = None if os.environ.get("RNNSEARCH_TRACEBACK") else line_of(error)
        if line is None:
            previous(kind, error, trace)
        else:
            print(f"fairseq_rnnsearch: error: {line}", file=sys.stderr)

    return show


@functools.cache
def install_excepthook() -> None:
    """Show mistakes in one line in a program of this package; once in a process."""
    sys.excepthook = shown_in_one_line(sys.excepthook)


def program(main: Callable[..., None]) -> Callable[..., None]:
    """Make a function the main function of a program, whose mistakes are shown in one line.

    It ends in silence when nobody reads its output any more, as in ``... | head``.
    """

    @functools.wraps(main)
    def run(*arguments: Sequence[str] | None) -> None:
        install_excepthook()
        try:
            main(*arguments)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python would write what is left at its end, and fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(CLOSED_PIPE)

    return run


def line_of(error: BaseException) -> str | None:
    """Return what a program says in the place of a traceback; None where that is needed.

    A `UserError` may be the cause of the exception that was not caught: fairseq wraps some in its
    own.
    """
    mistake = user_error(error)
    if mistake is not None:
        # A file name may hold a line break; the promise is one line.
        return " ".join(str(mistake).splitlines())
    program = _program(error)
    if program is None or is_defect(error):
        return None
    if isinstance(error, KeyboardInterrupt):
        return f"{program}: interrupted"
    reasons = dict.fromkeys(reason(problem) for problem in _chain(error))
    return f"{program}: {': '.join(reasons)}{_place(error)}"


def user_error(error: BaseException | None) -> UserError | None:
    """Return the mistake behind an exception: fairseq raises another one in the place of some."""
    for problem in _chain(error):
        text, name = str(problem), f"{UserError.__module__}.{UserError.__name__}: "
        if _OF_ANOTHER_PROCESS in text and _last_line(text).startswith(name):
            return UserError(_last_line(text).removeprefix(name))
        if isinstance(problem, UserError):
            return problem
    return None


def is_defect(error: BaseException) -> bool:
    """Tell whether this package or a plugin has raised it, and no file or memory is to blame."""
    if isinstance(error, OSError | MemoryError | KeyboardInterrupt):
        return False
    if _NO_MEMORY.search(str(error)):
        return False
    return any(_owner(_frames(problem)) == "plugin" for problem in _chain(error))


def reason(error: BaseException) -> str:
    """Return what an exception says in one line, a sentence even where it says only a name."""
    text = str(error)
    if _OF_ANOTHER_PROCESS in text:
        text = _last_line(text)
    elif isinstance(error, OSError) and error.strerror:
        files = [str(file) for file in (error.filename, error.filename2) if file is not None]
        text = f"{' and '.join(files)}: {error.strerror}".removeprefix(": ")
    elif type(error) is KeyError:  # others say more than the key
        text = f"the key {text} is missing"
    elif isinstance(error, AssertionError) and not text:
        text = f"{_asserted(error)} should hold, and does not"
    text = text.partition("\nException raised from ")[0]  # torch's places in C++
    text = " ".join(re.sub(r"^\[(enforce fail at [^]]*\] [^.]*\. |[^]]*\] )", "", text).split())
    if not re.search(r"\S \S", text):  # a path, a name, a number or nothing
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
        text = f"{kind.removesuffix(' error')}: {text}".removesuffix(": ")
    return _shortened(text)


def first_sentence(problem: Exception) -> str:
    """Return what torch says, without what it advises."""
    return reason(problem).partition(". ")[0]


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _shortened(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST // 2]} ... {text[-MOST // 2 :]}"


# --- where an exception comes from --------------------------------------------------------------


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, what it was raised from, and so on, each once.

    With a debugger or OC_CAUSE=1, omegaconf makes an exception its own cause.
    """
    seen = []
    while error is not None and not any(error is known for known in seen):
        yield error
        seen.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames from the program's start to where it was raised, in whatever process."""
    frames = list(traceback.extract_tb(error.__traceback__))
    text = str(error)
    if _OF_ANOTHER_PROCESS in text:
        for file, line, name in re.findall(r'File "(.+)", line (\d+), in (.+)', text):
            frames.append(traceback.FrameSummary(file, int(line), name))
    return frames


def _program(error: BaseException) -> str | None:
    """Return the command of fairseq or of this package that has ended."""
    for frame in _frames(error):
        path = Path(frame.filename)
        if frame.name == "cli_main" and path.parent.name == "fairseq_cli":
            return f"fairseq-{path.stem.replace('_', '-')}"
        if frame.name == "main" and path.is_relative_to(_PACKAGE):
            module = path.relative_to(_PACKAGE.parent).with_suffix("")
            return f"python -m {'.'.join(module.parts).removesuffix('.__main__')}"
    return None


def _owner(frames: list[traceback.FrameSummary]) -> str:
    """Tell whose code it is: "fairseq" or "plugin", as this package is; libraries do not count.

    What a library raises, its caller has made it raise.
    """
    owners = (_owner_of_file(frame.filename) for frame in reversed(frames))
    return next(filter(None, owners), "")


def _owner_of_file(name: str) -> str:
    path = Path(name)
    if path.is_relative_to(_PACKAGE):
        return "plugin"
    if _is_fairseq(path):
        return "fairseq"
    libraries = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib")}
    is_library = not path.is_file() or any(path.is_relative_to(folder) for folder in libraries)
    return "" if is_library else "plugin"


def _is_fairseq(path: Path) -> bool:
    fairseq = sys.modules.get("fairseq")
    if fairseq is None or fairseq.__file__ is None:
        return False
    folder = Path(fairseq.__file__).parent
    return path.is_relative_to(folder) or path.is_relative_to(folder.with_name("fairseq_cli"))


def _place(error: BaseException) -> str:
    """Tell where fairseq has raised it, for those who search."""
    for frame in reversed(_frames(error)):
        path = Path(frame.filename)
        if _is_fairseq(path):
            package = "fairseq_cli" if "fairseq_cli" in path.parts else "fairseq"
            parts = path.parts[len(path.parts) - path.parts[::-1].index(package) - 1 :]
            return f" (raised in {'/'.join(parts)}, line {frame.lineno})"
    return ""


def _asserted(error: BaseException) -> str:
    """Return the condition of an assertion that says nothing else."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    try:
        tree = ast.parse("".join(linecache.getlines(frame.filename)))
    except SyntaxError:
        return "an assertion"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.lineno <= frame.lineno <= node.end_lineno:
            return ast.unparse(node.test)
    return frame.line or "an assertion"


# --- what no training ends of --------------------------------------------------------------------


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
            said = " ".join(str(user_error(problem) or reason(problem)).split())
            logger.warning(f"{without}: {said}; training goes on")
