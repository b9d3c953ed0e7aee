"""Log files that are whole, and logs that cannot be written, --tensorboard-logdir's and others.

fairseq ends a training because of them; tensorboardX's writer, a thread, lets it wait for ever.
"""

import atexit
import functools
import logging
import sys
from collections.abc import Callable, Iterable, Iterator

from fairseq.logging import progress_bar
from fairseq.logging.progress_bar import BaseProgressBar

from fairseq_rnnsearch.compat import progress_lines, screen
from fairseq_rnnsearch.errors import training_goes_on

PROGRAMS = ("train", "generate", "interactive", "validate", "preprocess")
TENSORBOARD = "TensorBoard"
# fairseq's options of each log; without the first one there is no such log.
_LOGS = {
    "Aim": ("aim_repo", "aim_run_hash", "aim_param_checkpoint_dir"),
    TENSORBOARD: ("tensorboard_logdir",),
    "Weights & Biases": ("wandb_project", "wandb_run_name"),
    "Azure ML": ("azureml_logging",),
}
_wanted: list[str] = []  # a log file that is not open yet
_log_files: list["LogFile"] = []


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

    The bar has lines every ten seconds, see ``progress_lines``. ``--log-file`` is opened by the
    program: fairseq opens it anew in each epoch, and each line is there as often.

    Args:
        make_bar: fairseq's function, whose arguments follow.
    """
    kind = log_format or default_log_format
    if kind == "tqdm" and not sys.stderr.isatty():
        kind = "simple"
    if kind != "none":
        iterator = progress_lines.WithLines(iterator, kind, epoch, prefix)
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
    """A bar, and beside it a log of fairseq's, which wraps a bar that shows nothing.

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
    """fairseq's, with a thread of tensorboardX that does not die of what it cannot write."""

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


def close_writers_quietly() -> None:
    """Let the end of Python survive writers that cannot be closed."""
    atexit.unregister(progress_bar._close_writers)
    atexit.register(training_goes_on(TENSORBOARD)(progress_bar._close_writers))


class LogFile(logging.FileHandler):
    """A log of all messages, whose lines are lost with one warning where they cannot be written."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.setFormatter(screen.FORMAT)

    def handleError(self, record: logging.LogRecord) -> None:
        """Warn; logging calls this while the error is handled."""
        with training_goes_on(f"log {self.baseFilename}"):
            raise


def open_log_file(path: str | None) -> None:
    """Let ``--log-file`` have every message from the program's first on, with its time.

    fairseq's has the messages of two of its loggers, without the time at which they were written,
    and only in training.
    """
    if path:
        _wanted.append(path)  # a program makes its own handlers only where there are none yet


def keep_log_file() -> None:
    """Let the log file outlive programs that replace all handlers, or add one for the same file."""
    for name in PROGRAMS:
        logger = logging.getLogger(f"fairseq_cli.{name}")
        logger.addFilter(functools.partial(_keep, logger))


def _keep(logger: logging.Logger, _: logging.LogRecord) -> bool:
    while _wanted:
        with training_goes_on("--log-file"):
            _log_files.append(LogFile(_wanted.pop()))
    for ours in _log_files:
        for handler in list(logger.handlers):
            is_file = isinstance(handler, logging.FileHandler)
            if is_file and handler.baseFilename == ours.baseFilename:
                logger.removeHandler(handler)
        if ours not in logging.root.handlers:
            logging.root.addHandler(ours)
    return True
