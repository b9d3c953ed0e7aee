"""Messages on the screen and in log files, and logs that cannot be written.

A training of fairseq prints 9 kB of configuration and thirty lines before its first progress line.
The screen shows the command line, the model's size, the data and the progress, as fairseq writes
them. ``--log-file`` keeps every message. With RNNSEARCH_WHOLE_LOG=1 in the environment, or
LOGLEVEL=DEBUG, the screen shows every message too.
"""

import functools
import logging
import os
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fairseq.logging import progress_bar
from fairseq.logging.progress_bar import BaseProgressBar
from omegaconf import DictConfig
from torch import nn

from fairseq_rnnsearch.errors import UserError, training_goes_on

# The beginnings of messages that only files keep, by fairseq's loggers.
_FOR_FILES = {
    "fairseq_cli.train": r"task: |criterion: |num\. expert model params: 0 |"
    r"training on 1 devices|max tokens per device|begin dry-run|begin validation",
    "fairseq_cli.generate": "",
    "fairseq_cli.interactive": "",
    "fairseq_cli.validate": "",
    "fairseq.trainer": r"Preparing to load|loading train data|Saving checkpoint|Finished saving|"
    r"NOTE: your device may support faster training with --fp16",  # which our models refuse
    "fairseq.checkpoint_utils": r"Preparing to save",
    "fairseq.data.data_utils": r"loaded [\d,]+ examples from",
    "fairseq.data.iterators": r"grouped total_num_itrs",
    "fairseq.utils": r"\*\*\*|--user-dir=.* has already been imported",
}
_FORMAT = logging.Formatter(
    "%(asctime)s | %(levelname)s | %(name)s | %(message)s", "%Y-%m-%d %H:%M:%S"
)
# not the root: fairseq-generate prepares that one only if it has no handler yet
_LOGGERS = ("fairseq", "fairseq_cli", "fairseq_rnnsearch")
TENSORBOARD = "TensorBoard"
# fairseq's options of each log; without the first one there is no such log.
_LOGS = {
    "Aim": ("aim_repo", "aim_run_hash", "aim_param_checkpoint_dir"),
    TENSORBOARD: ("tensorboard_logdir",),
    "Weights & Biases": ("wandb_project", "wandb_run_name"),
    "Azure ML": ("azureml_logging",),
}


class ScreenFilter(logging.Filter):
    """Passes on to the screen what a reader needs, and writes the rest to log files itself.

    Args:
        beginnings: a regular expression for messages that only files get.
    """

    def __init__(self, beginnings: str) -> None:
        super().__init__()
        self._beginnings = beginnings
        self._shows_all = bool(os.environ.get("RNNSEARCH_WHOLE_LOG")) or (
            os.environ.get("LOGLEVEL", "").upper() == "DEBUG"
        )

    def filter(self, record: logging.LogRecord) -> bool:
        _remove_second_file(logging.getLogger(record.name))
        if self._shows_all:
            return True
        if isinstance(record.msg, DictConfig | Namespace):
            _to_files(record)
            command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
            record.msg = (
                f"command: {command} (RNNSEARCH_WHOLE_LOG=1 prints all of the configuration)"
            )
            return True
        is_noise = isinstance(record.msg, nn.Module) or (
            self._beginnings
            and record.levelno <= logging.INFO
            and re.match(self._beginnings, record.getMessage())
        )
        if is_noise:
            _to_files(record)
        return not is_noise


def _log_files() -> list["LogFile"]:
    return [one for one in logging.getLogger(_LOGGERS[0]).handlers if isinstance(one, LogFile)]


def _to_files(record: logging.LogRecord) -> None:
    for file in _log_files():
        file.handle(record)


def _remove_second_file(logger: logging.Logger) -> None:
    """Remove fairseq's own handler of ``--log-file``, which would write each line twice."""
    names = {file.baseFilename for file in _log_files()}
    for handler in logger.handlers[:]:
        if type(handler) is logging.FileHandler and handler.baseFilename in names:
            logger.removeHandler(handler)


class LogFile(logging.FileHandler):
    """A log of all messages; lines that cannot be written are lost, with one warning."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.setFormatter(_FORMAT)

    def handleError(self, record: logging.LogRecord) -> None:
        """Warn; logging calls this while the error is handled."""
        with training_goes_on(f"log {self.baseFilename}"):
            raise


@functools.cache
def shorten_the_screen() -> None:
    """Filter fairseq's loggers, once in a process."""
    for name, beginnings in _FOR_FILES.items():
        logging.getLogger(name).addFilter(ScreenFilter(beginnings))


def open_log_file(path: str | None) -> None:
    """Let ``--log-file`` have every message of the command, with its time.

    fairseq's own file gets the messages of only two loggers, and only in training. A further
    training of the program, as fairseq-hydra-train -m makes them, leaves the file of the last one.

    Raises:
        UserError: when the file cannot be opened.
    """
    if not path or os.path.abspath(path) in [file.baseFilename for file in _log_files()]:
        return
    try:
        file = LogFile(path)
    except OSError as problem:
        raise UserError(f"--log-file {path} cannot be written: {problem.strerror}") from problem
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [one for one in logger.handlers if not isinstance(one, LogFile)]
        logger.addHandler(file)


def make_surviving_bar(
    make_bar: Callable,
    iterator: Iterable,
    log_format: str | None = None,
    log_interval: int = 100,
    log_file: str | None = None,
    epoch: int | None = None,
    prefix: str | None = None,
    default_log_format: str = "tqdm",
    **logs: str | bool | None,
) -> BaseProgressBar:
    """Warn once of each log that cannot be written, and go on without it.

    The program itself opens ``--log-file``: fairseq would open it again in each epoch, and repeat
    each line as often.

    Args:
        make_bar: fairseq's function, whose arguments follow.
    """
    kind = log_format or default_log_format
    bar = make_bar(iterator, kind, log_interval, epoch=epoch, prefix=prefix)
    for name, options in _LOGS.items():
        if logs.get(options[0]):
            own = {option: logs.get(option) for option in options}
            make_log = functools.partial(make_bar, [], "none")
            if name == TENSORBOARD:
                make_log = _Tensorboard
            bar = SurvivingLog(bar, name, functools.partial(make_log, **own))
    return bar


class SurvivingLog(BaseProgressBar):
    """A bar with one of fairseq's logs beside it, which wraps a bar that shows nothing.

    Args:
        name: what the warning calls the log.
        make_log: makes the log.
    """

    def __init__(
        self, bar: BaseProgressBar, name: str, make_log: Callable[[], BaseProgressBar]
    ) -> None:
        self.wrapped_bar, self._name = bar, name
        self._log: BaseProgressBar = progress_bar.NoopProgressBar([])
        with training_goes_on(name):
            self._log = make_log()

    def __iter__(self) -> Iterator:
        return iter(self.wrapped_bar)

    def __len__(self) -> int:
        return len(self.wrapped_bar)

    def log(self, stats, tag=None, step=None) -> None:
        with training_goes_on(self._name):
            self._log.log(stats, tag=tag, step=step)
        self.wrapped_bar.log(stats, tag=tag, step=step)

    def print(self, stats, tag=None, step=None) -> None:
        with training_goes_on(self._name):
            self._log.print(stats, tag=tag, step=step)
        self.wrapped_bar.print(stats, tag=tag, step=step)

    def update_config(self, config) -> None:
        with training_goes_on(self._name):
            self._log.update_config(config)
        self.wrapped_bar.update_config(config)


class _Tensorboard(progress_bar.TensorboardProgressBarWrapper):
    """fairseq's log for TensorBoard, whose thread survives failures to write."""

    def __init__(self, tensorboard_logdir: str) -> None:
        super().__init__(progress_bar.NoopProgressBar([]), tensorboard_logdir)

    def _writer(self, key: str) -> object:
        is_new = key not in progress_bar._tensorboard_writers
        writer = super()._writer(key)
        if is_new and writer is not None and writer.file_writer is not None:
            events = writer.file_writer.event_writer._ev_writer
            for name in ("write_event", "flush", "close"):
                setattr(events, name, training_goes_on(TENSORBOARD)(getattr(events, name)))
        return writer
