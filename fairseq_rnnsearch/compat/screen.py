"""What of fairseq's messages stands on the screen, and what only in log files.

A training says 9 kB of configuration and thirty lines before the first that tells how it goes. On
the screen stand the command line, the model's size, the data, and every line of progress, as
fairseq writes them. ``--log-file``, for which all commands have a use here, and other log files
keep every line. With RNNSEARCH_WHOLE_LOG=1 in the environment, or LOGLEVEL=DEBUG, the screen does
so too.
"""

import functools
import logging
import os
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig
from torch import nn

# The beginnings of messages that only files keep, by fairseq's loggers.
_FOR_FILES = {
    "fairseq_cli.train": r"task: |criterion: |num\. expert model params: 0 |"
    r"training on 1 devices|max tokens per device|begin dry-run|begin validation",
    "fairseq_cli.generate": "",
    "fairseq_cli.interactive": "",
    "fairseq_cli.validate": "",
    "fairseq_cli.preprocess": "",
    "fairseq.trainer": r"Preparing to load|loading train data|Saving checkpoint|Finished saving",
    "fairseq.checkpoint_utils": r"Preparing to save",
    "fairseq.data.data_utils": r"loaded [\d,]+ examples from",
    "fairseq.data.iterators": r"grouped total_num_itrs",
    "fairseq.utils": r"\*\*\*|--user-dir=.* has already been imported",
}
FORMAT = logging.Formatter(
    "%(asctime)s | %(levelname)s | %(name)s | %(message)s", "%Y-%m-%d %H:%M:%S"
)
COMMAND = "command: "


@functools.cache
def shorten() -> None:
    """Let the screen have what a reader needs, unless the environment asks for the whole."""
    if os.environ.get("RNNSEARCH_WHOLE_LOG") or os.environ.get("LOGLEVEL", "").upper() == "DEBUG":
        return
    for name, beginnings in _FOR_FILES.items():
        logging.getLogger(name).addFilter(functools.partial(_is_for_the_screen, beginnings))


def to_files(record: logging.LogRecord) -> None:
    """Hand a message to log files alone."""
    for handler in handlers(record.name):
        if isinstance(handler, logging.FileHandler):
            handler.handle(record)


def _is_for_the_screen(beginnings: str, record: logging.LogRecord) -> bool:
    """Tell whether the screen has a message; otherwise files have it, here and now."""
    if isinstance(record.msg, DictConfig | Namespace):
        to_files(record)
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        record.msg = f"{COMMAND}{command} (RNNSEARCH_WHOLE_LOG=1 prints all of the configuration)"
        return True
    is_noise = isinstance(record.msg, nn.Module) or (
        beginnings and record.levelno <= logging.INFO and re.match(beginnings, record.getMessage())
    )
    if is_noise:
        to_files(record)
    return not is_noise


def handlers(name: str) -> Iterator[logging.Handler]:
    """Yield the handlers that get the messages of a logger."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None
