"""What this package replaces in fairseq, torch and Python while fairseq's commands run.

``MENDS`` is the whole list, and ``python -m fairseq_rnnsearch mends`` prints it. Importing the
package replaces nothing: ``start`` does so when a command of fairseq begins (``registration``
says how that is noticed), and ``applied`` for as long as ``load`` reads a checkpoint.

What concerns training is in ``trainer``, a subclass of fairseq's ``Trainer``.
"""

import atexit
import builtins
import contextlib
import functools
import importlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from fairseq_rnnsearch.compat import (
    checkpoints,
    command_lines,
    data_loading,
    evaluated_options,
    locking,
    log_writers,
    programs,
    progress_lines,
    resuming,
    screen,
    signals,
    trainer,
    writing,
)
from fairseq_rnnsearch.errors import shown_in_one_line


@dataclass(frozen=True)
class Mend:
    """One attribute that is replaced.

    Attributes:
        owner: the module, or ``module:Class``. ``fairseq*.*`` stands for every module of fairseq
            that is loaded, ``fairseq_cli.*`` for its programs. A module that is not loaded is left
            alone, and so is one without the attribute, unless that is built into Python.
        name: the attribute.
        replacement: makes what takes its place of what is there.
        without: what happens without it.
    """

    owner: str
    name: str
    replacement: Callable[[Any], Any]
    without: str


class MendedProgram(programs.Program):
    """A program's ``main`` that mends fairseq in the processes that fairseq starts, too."""

    def __reduce__(self) -> tuple:
        return _mended_program, (self.__module__,)


def _mended_program(module: str) -> Callable:
    program = importlib.import_module(module)
    start()
    return program.main


def _around(function: Callable) -> Callable[[Callable], Callable]:
    """Return the replacement that calls a function with what was there, and its arguments."""
    return lambda there: functools.wraps(there)(functools.partial(function, there))


MENDS = (
    Mend(
        *("sys", "excepthook", shown_in_one_line),
        without="a user's mistake ends in a traceback instead of one line",
    ),
    Mend(
        *("fairseq.options", "argparse", command_lines.with_help_and_advice),
        without="--help shows no option of the plugin; a mistake in an option prints all options "
        "of the command before it; options without an effect are taken",
    ),
    Mend(
        *("fairseq*.*", "eval", lambda _: evaluated_options.read_value),
        without="options, those of a checkpoint too, are run as Python",
    ),
    Mend(
        *("fairseq.distributed.utils", "call_main", _around(programs.share_and_call)),
        without="torchrun without GPUs starts copies that write to one folder; a process that is "
        "lost is a traceback",
    ),
    Mend(
        *("fairseq_cli.*", "main", MendedProgram),
        without="values that make no sense end in a traceback or do nothing in silence; "
        "fairseq-preprocess binarises sides with different line counts without a word; in "
        "fairseq-interactive soft alignments are a traceback and any bytes are text",
    ),
    Mend(
        *("fairseq_cli.train", "Trainer", lambda _: trainer.ResumableTrainer),
        without="see the methods of compat/trainer.py, each of which says so",
    ),
    Mend(
        *("fairseq_cli.train", "validate_and_save", _around(signals.save_and_heed)),
        without="SIGTERM, Ctrl-C and SIGUSR1 lose the updates since the last checkpoint",
    ),
    Mend(
        *("fairseq.checkpoint_utils", "verify_checkpoint_directory"),
        _around(locking.lock_and_verify),
        without="two trainings in one folder overwrite each other's checkpoints",
    ),
    Mend(
        *("fairseq.checkpoint_utils", "load_checkpoint", _around(resuming.begin_or_go_on)),
        without="a missing or damaged checkpoint_last.pt means training from scratch; patience, "
        "schedules and finished runs begin anew",
    ),
    Mend(
        *("fairseq.checkpoint_utils", "load_checkpoint_to_cpu", lambda _: checkpoints.load_as_data),
        without="a checkpoint's file can run code or fill the memory; a damaged one is used",
    ),
    Mend(
        *("fairseq.checkpoint_utils", "load_model_ensemble_and_task"),
        _around(checkpoints.load_models_or_explain),
        without="a checkpoint that does not fit ends in a traceback that does not name it",
    ),
    Mend(
        *("fairseq.file_io:PathManager", "copy"),
        lambda copy: staticmethod(_around(writing.copy_whole)(copy)),
        without="a machine that dies while checkpoint_last.pt is written leaves half of it",
    ),
    Mend(
        *("fairseq.logging.progress_bar", "progress_bar", _around(log_writers.make_surviving_bar)),
        without="a log that cannot be written ends the training, or lets it wait for ever; for "
        "minutes there is no line of progress",
    ),
    Mend(
        *("torch.utils.data.dataloader", "_MultiProcessingDataLoaderIter"),
        lambda _: data_loading.EndingIterator,
        without="signals end the processes that load data before the training has saved, and each "
        "lets a program wait for 5 s at its end",
    ),
)

# What `load` needs in a program of somebody else's, for as long as it reads a checkpoint.
READING = ("eval", "load_checkpoint_to_cpu", "load_model_ensemble_and_task")

_MISSING = object()
_replaced: dict[tuple[int, str], tuple[object, Any]] = {}  # the owner and what it had before
_lock = threading.RLock()


def start() -> None:
    """Mend fairseq in this process, for a command of fairseq that begins.

    Calling it again mends what has been loaded since.
    """
    _quieten()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # hydra then leaves errors to the excepthook
    for mend in MENDS:
        _apply(mend)
    _once()


@functools.cache
def _once() -> None:
    atexit.register(data_loading.expect_killed_processes)
    log_writers.close_writers_quietly()
    log_writers.keep_log_file()
    progress_lines.watch_bars()
    screen.shorten()


@contextlib.contextmanager
def applied(names: tuple[str, ...] = READING) -> Iterator[None]:
    """Apply some of the mends, and take back on leaving what was not there before."""
    with _lock:
        before = set(_replaced)
        try:
            for mend in MENDS:
                if mend.name in names:
                    _apply(mend)
            yield
        finally:
            for key in set(_replaced) - before:
                _take_back(*_replaced.pop(key), key[1])


def _apply(mend: Mend) -> None:
    for owner in _owners(mend.owner):
        key = id(owner), mend.name
        if key in _replaced:
            continue
        original = vars(owner).get(mend.name, _MISSING)
        if original is _MISSING and mend.name not in vars(builtins):
            continue
        _replaced[key] = owner, original
        setattr(owner, mend.name, mend.replacement(getattr(owner, mend.name, None)))


def _take_back(owner: object, original: Any, name: str) -> None:
    if original is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, original)


def _owners(owner: str) -> Iterator[object]:
    """Yield the modules or the class that a row means, as far as they are loaded."""
    pattern, _, attribute = owner.partition(":")
    for name, module in list(sys.modules.items()):
        if name == "__main__" and module.__spec__:  # python -m fairseq_cli.validate
            name = module.__spec__.name
        is_fairseqs = name.startswith(("fairseq.", "fairseq_cli."))
        if name == pattern or (is_fairseqs and fnmatch(name, pattern)):
            yield getattr(module, attribute) if attribute else module


def _quieten() -> None:
    """Keep fairseq's debugging output and deprecation warnings from burying its messages."""
    warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.")
    for message, category in (
        (r"(?s)\s*'[^']*' is validated against ConfigStore", UserWarning),
        (r"`torch\.cuda\.amp\.", FutureWarning),
        (r"'pin_memory' argument is set as true", UserWarning),
        (r".*lr_scheduler\.step\(\).*before.*optimizer\.step", UserWarning),
        (r"Distributed is already initialized", UserWarning),  # programs.py has done it
    ):
        warnings.filterwarnings("ignore", message=message, category=category)
    # a module of fairseq's sets the root logger to DEBUG while it is imported
    if logging.root.level == logging.DEBUG and os.environ.get("LOGLEVEL", "").upper() != "DEBUG":
        logging.root.setLevel(logging.INFO)
    # four lines for every typed sentence of fairseq-interactive
    logging.getLogger("fairseq.tasks.fairseq_task").setLevel(logging.WARNING)
    # it prints all gradients, and finds what is wrong no better than our message does
    logging.getLogger("fairseq.nan_detector").setLevel(logging.WARNING)


def table() -> str:
    """Return the list of what is replaced, as text for people."""
    lines = [f"{len(MENDS)} attributes are replaced while fairseq's commands run:", ""]
    for mend in MENDS:
        lines += [f"{mend.owner.replace(':', '.')}.{mend.name}", f"    without it: {mend.without}"]
    return "\n".join(lines)
