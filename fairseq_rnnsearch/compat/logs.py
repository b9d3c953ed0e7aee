"""Logs that cannot be written: --log-file, --tensorboard-logdir, --wandb-project and the like.

fairseq ends a training because of them; tensorboardX's writer, a thread, lets it wait for ever.
"""

import atexit
import functools
import logging
from collections.abc import Callable

from fairseq.logging import progress_bar

from fairseq_rnnsearch.errors import training_goes_on


def let_trainings_outlive_their_logs() -> None:
    """Warn once of each log that cannot be written."""
    for wrapper, log in (
        (progress_bar.TensorboardProgressBarWrapper, "TensorBoard"),
        (progress_bar.WandBProgressBarWrapper, "Weights & Biases"),
        (progress_bar.AimProgressBarWrapper, "Aim"),
        (progress_bar.AzureMLProgressBarWrapper, "Azure ML"),
    ):
        _warn_instead(wrapper, log, lambda name: name.startswith("_log_to_"))
        _warn_instead(wrapper, log, {"__init__", "update_config"}.__contains__)
    _keep_the_writer_alive()
    atexit.unregister(progress_bar._close_writers)
    atexit.register(_surviving(progress_bar._close_writers, "TensorBoard"))
    _open_the_log_file_once()


def _warn_instead(owner: type, log: str, is_meant: Callable[[str], bool]) -> None:
    for name in filter(is_meant, list(vars(owner))):
        setattr(owner, name, _surviving(getattr(owner, name), log))


def _surviving(function: Callable, log: str) -> Callable:
    @functools.wraps(function)
    def warn_instead(*args, **options) -> None:
        with training_goes_on(log):
            function(*args, **options)

    return warn_instead


def _keep_the_writer_alive() -> None:
    """tensorboardX hands events to a thread; if that dies, the training waits for ever."""
    try:
        from tensorboardX.event_file_writer import EventsWriter
    except ImportError:
        return
    _warn_instead(EventsWriter, "TensorBoard", {"write_event", "flush", "close"}.__contains__)


def _open_the_log_file_once() -> None:
    """fairseq opens it anew in each epoch, and each line is there as often; a line that cannot be
    written is a traceback.
    """
    make, opened = progress_bar.progress_bar, set()
    logging.FileHandler.handleError = _warn_of_line

    @functools.wraps(make)
    def make_and_log(iterator, *args, log_file: str | None = None, **options) -> object:
        bar = make(iterator, *args, **options)
        if log_file and log_file not in opened:
            opened.add(log_file)
            with training_goes_on("--log-file"):
                progress_bar.logger.addHandler(logging.FileHandler(log_file))
        return bar

    progress_bar.progress_bar = make_and_log


def _warn_of_line(handler: logging.FileHandler, line: logging.LogRecord) -> None:
    """Called while the error is handled."""
    with training_goes_on(f"log {handler.baseFilename}"):
        raise
