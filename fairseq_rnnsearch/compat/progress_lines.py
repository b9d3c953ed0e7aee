"""A line of progress every ten seconds, between those that fairseq writes.

fairseq writes one every ``--log-interval`` updates, which at the paper's sizes takes minutes on a
CPU, and none in a validation; where its bar of progress is shown, files have none at all. The lines
in between are those of a logger of their own, "progress", and look alike.
"""

import logging
import time
from collections.abc import Iterable, Iterator

from fairseq.logging import metrics, progress_bar

from fairseq_rnnsearch.compat.screen import handlers

SECONDS = 10.0
_TAG = "progress"
_TRAINING = "train_inner"  # fairseq's name for what it knows since its last line


class _LatestLine(logging.Filter):
    """Sees the lines of all bars, and keeps those that a shown bar would be broken by for files."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self._avoids_terminals = False

    def begin(self, bar_is_shown: bool) -> None:
        """Count from now on, for a bar that is shown on a terminal or writes lines itself."""
        self.time, self._avoids_terminals = time.monotonic(), bar_is_shown

    def filter(self, record: logging.LogRecord) -> bool:
        self.time = time.monotonic()
        if not (self._avoids_terminals and record.name == _TAG):
            return True
        for handler in handlers(record.name):
            is_stream = isinstance(handler, logging.StreamHandler)
            if not (is_stream and handler.stream is not None and handler.stream.isatty()):
                handler.handle(record)
        return False


_latest = _LatestLine()


def watch_bars() -> None:
    """Note when the bars write their lines."""
    progress_bar.logger.addFilter(_latest)


class WithLines:
    """What a bar goes through, with a line wherever none was written for ten seconds.

    Args:
        batches: what fairseq's bar was given.
        log_format: "simple", "json" or "tqdm".
        epoch, prefix: as for fairseq's bars; a training's has an epoch and no prefix.
    """

    def __init__(
        self, batches: Iterable, log_format: str, epoch: int | None, prefix: str | None
    ) -> None:
        kinds = {"json": progress_bar.JsonProgressBar}
        make = kinds.get(log_format, progress_bar.SimpleProgressBar)
        self._lines = make(batches, epoch, prefix, log_interval=1)
        self._is_shown = log_format == "tqdm"
        self._trains = epoch is not None and prefix is None
        self.n = self._lines.n

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator:
        began = time.monotonic()
        _latest.begin(self._is_shown)
        for done, batch in enumerate(self._lines, start=1):
            yield batch
            now = time.monotonic()
            left = len(self) - self.n - done
            if left > 0 and now - _latest.time >= SECONDS:
                self._lines.log(self._stats((now - began) * left / done), tag=_TAG, step=1)

    def _stats(self, seconds_left: float) -> dict:
        """Return what is known since fairseq's last line, and of other work the time left."""
        if not self._trains or metrics.get_meters(_TRAINING) is None:
            return {"seconds_left": round(seconds_left)}
        wall = metrics.get_meter("default", "wall")
        return {
            **metrics.get_smoothed_values(_TRAINING),
            **({} if wall is None else {"wall": round(wall.elapsed_time)}),
            "epoch_seconds_left": round(seconds_left),
        }
