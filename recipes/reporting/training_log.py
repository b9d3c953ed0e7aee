"""Read the duration and the results of a training from the messages of fairseq-train.

A log holds one run of the program or several, one after the other: an interrupted training goes
on from its last checkpoint, and the messages of the new run are appended. fairseq's own clocks
(`wall`, `train_wall`) start anew with every run, so the hours are read off the times at which the
messages were written:

- a run counts from its first sight of training data ("Start iterating over samples") to its last
  message, validations and checkpoints included, installation, loading and waiting between the
  runs excluded;
- work that no checkpoint kept is lost: where a later run begins at update u, everything that an
  earlier run did beyond u is dropped, from the hours, the updates and the likelihoods. The
  moment at which u was reached is that of the message "Saved checkpoint ... @ u updates", or lies
  between two reports in proportion;
- a run that begins without a checkpoint makes everything before it void.

Both of fairseq's formats that suit files are read, ``--log-format simple`` and ``json``. Lines of
"progress" say nothing new.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.errors import UserError

NATS = "nats_per_sentence"  # the name under which criterions/alignment_heatmap.py logs it
_LAST_SHARE = 0.1  # the share of the updates over which the training likelihood is averaged

_SETTINGS = ("{'_name': ", "command: ")  # whole messages, and what the plugin makes of them
_BEGINNINGS = (*_SETTINGS, "Preparing to load checkpoint ")  # what a run says first
_MESSAGE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \| INFO \| (\S+) \| (.*)")
_PLACE = re.compile(r"epoch (\d{1,9}): +(\d{1,9}) / (0*[1-9]\d{0,8}) ")
_VALUE = re.compile(r"\b(\w+)[= ]([^\s,|=]+)(?=,| \||$)")  # "loss=6.7, " or "loss 6.7 | "
_LOADED = re.compile(r"Loaded checkpoint .* \(epoch \d+ @ (\d{1,15}) updates\)")
_SAVED = re.compile(r"Saved checkpoint .* \(epoch \d+ @ (\d{1,15}) updates,")
_DEVICE = re.compile(r"rank +\d+: capabilities = .* name = (.*\S)")


@dataclass(frozen=True)
class _Report:
    """What a message says about the state after an update."""

    kind: str
    """The logger: `train_inner` amid an epoch, `train` at its end, `valid`; or a saved checkpoint's
    `saved`."""
    update: int
    seconds: float
    """The time since the run began."""
    nats: float | None = None
    """The mean over the sentences: of training since the report before or in the whole epoch, or
    of development."""
    epochs: float | None = None
    sentences: float = 1.0
    """The sentences of an update, which weight the mean amid an epoch."""


@dataclass
class _Run:
    """One call of fairseq-train, as far as its work was kept."""

    first_update: int
    devices: list[str] = field(default_factory=list)
    reports: list[_Report] = field(default_factory=list)
    seconds: float = 0.0
    unlogged: int = 0
    """Updates between the run before and this one that no message speaks of."""

    @property
    def update(self) -> int:
        """The last update that a message speaks of."""
        return max((report.update for report in self.reports), default=self.first_update)

    def cut(self, update: int) -> None:
        """Forget what came after this update."""
        if update <= self.update:
            updates = [self.first_update, *(report.update for report in self.reports)]
            seconds = [0.0, *(report.seconds for report in self.reports)]
            # Of several messages about the update this takes the last one, with its validation and
            # checkpoint; between the messages before and after it, in proportion.
            self.seconds = float(np.interp(update, updates, seconds))
            self.reports = [report for report in self.reports if report.update <= update]


@dataclass(frozen=True)
class Training:
    """A row of the paper's Table 2."""

    updates: int
    epochs: float | None
    """Passes through the training set; None where no message of the log tells."""
    hours: float
    device: str
    train_nats: float | None
    """The negative log-likelihood of a training sentence: its mean over the last tenth of the
    updates."""
    valid_nats: float | None
    """The lowest that was measured for a development sentence."""
    valid_update: int | None
    """The number of updates after which that was."""
    last_valid_nats: float | None
    runs: int
    lost_hours: float
    """Hours of work that no checkpoint kept; they are not part of `hours`."""
    unlogged_updates: int
    """Updates of runs whose messages are missing; their hours are missing, too."""


def read_training(paths: Iterable[Path], device: str | None = None) -> Training:
    """Read a training's log, or its logs in the order in which they were written.

    Bytes that are not UTF-8 are passed over: a killed program may leave half a letter.

    Args:
        paths: the files.
        device: what it ran on, where that is known better than the log says.

    Raises:
        UserError: none of the files has a training.
    """
    paths = list(paths)
    total = 0.0
    runs: list[_Run] = []
    for run in _runs(message for path in paths for message in _messages(path)):
        total += run.seconds
        if run.first_update == 0:
            runs.clear()
        for earlier in runs:
            earlier.cut(run.first_update)
        runs = [earlier for earlier in runs if earlier.first_update < run.first_update]
        reached = max((earlier.update for earlier in runs), default=0)
        run.unlogged = max(0, run.first_update - reached)
        runs.append(run)
    if not any(run.reports for run in runs):
        raise UserError(
            f"{', '.join(map(str, paths))}: found no training; expected what fairseq-train prints"
            " with --log-format simple or json"
        )
    return _summary(runs, total, device)


def _summary(runs: list[_Run], total_seconds: float, device: str | None) -> Training:
    known = [report for run in runs for report in run.reports]
    inner, train, valid = (
        [report for report in known if report.kind == kind and report.nats is not None]
        for kind in ("train_inner", "train", "valid")
    )
    updates = max(run.update for run in runs)
    last_part = [report for report in inner if report.update > (1 - _LAST_SHARE) * updates]
    best = min(valid, key=lambda report: report.nats, default=None)
    seconds = sum(run.seconds for run in runs)
    devices = list(dict.fromkeys(device for run in runs for device in run.devices))
    return Training(
        updates=updates,
        epochs=_epochs(known, updates),
        hours=seconds / 3600,
        device=device or ", ".join(devices) or "CPU",
        # A log may have no reports amid the epochs.
        train_nats=_mean(last_part) or (train[-1].nats if train else None),
        valid_nats=best and best.nats,
        valid_update=best and best.update,
        last_valid_nats=valid[-1].nats if valid else None,
        runs=len(runs),
        lost_hours=(total_seconds - seconds) / 3600,
        unlogged_updates=sum(run.unlogged for run in runs),
    )


def _epochs(reports: list[_Report], updates: int) -> float | None:
    """Return the epochs at the last report, and what the updates after it are worth."""
    known = [report for report in reports if report.epochs is not None]
    if not known:
        return None
    last = known[-1]
    return last.epochs * updates / last.update if last.update else last.epochs


def _mean(reports: list[_Report]) -> float | None:
    weight = sum(report.sentences for report in reports)
    return sum(report.nats * report.sentences for report in reports) / weight if weight else None


def _runs(messages: Iterable[tuple[float, str, str]]) -> Iterator[_Run]:
    """Divide a log into its runs, each as long as its messages say.

    Args:
        messages: the time in seconds, the name of the logger, and the text of each message.
    """
    run, first_update, devices = None, 0, []
    started = latest = 0.0
    for time, logger, text in messages:
        if text.startswith(_BEGINNINGS):
            if run is not None:
                yield run
            run, first_update = None, 0
            if text.startswith(_SETTINGS):
                devices = []
        elif match := _DEVICE.match(text):
            devices.append(match[1])
        elif match := _LOADED.match(text):
            first_update = int(match[1])
        elif text == "Start iterating over samples" and run is None:
            run = _Run(first_update, _counted(devices))
            started = latest = time
        if run is not None:
            latest = max(latest, time)  # a clock that is set back does not count backwards
            run.seconds = latest - started
            if report := _report(logger, text, run):
                run.reports.append(report)
    if run is not None:
        yield run


def _counted(devices: list[str]) -> list[str]:
    """Name equal devices once, with their number: ``2 × NVIDIA H100``."""
    return [
        f"{devices.count(name)} × {name}" if devices.count(name) > 1 else name
        for name in dict.fromkeys(devices)
    ]


def _report(logger: str, text: str, run: _Run) -> _Report | None:
    """Read what a message reports; return None if it reports nothing."""
    if match := _SAVED.match(text):
        return _Report("saved", int(match[1]), run.seconds)
    if logger not in ("train_inner", "train", "valid"):
        return None
    values = _values(text)
    update, nats, epochs, sentences = (
        _number(values.get(name)) for name in ("num_updates", NATS, "update", "bsz")
    )
    if update is None:
        return None
    # At an early stop, too, fairseq says that it has done a whole epoch.
    epochs = epochs if logger == "train_inner" else None
    return _Report(logger, int(update), run.seconds, nats, epochs, sentences or 1.0)


def _values(text: str) -> dict[str, object]:
    """Return a report's values by name, as fairseq's JSON has them: `update` is the epochs."""
    if text.startswith("{"):
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):  # half a line, of a program that was killed
            return {}
        return {re.sub("^(train|valid)_", "", key): value for key, value in values.items()}
    values = dict(_VALUE.findall(text))
    if match := _PLACE.match(text):
        values["update"] = int(match[1]) - 1 + int(match[2]) / int(match[3])
    return values


def _number(value: object) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _messages(path: Path) -> Iterator[tuple[float, str, str]]:
    """Find the messages of fairseq-train in a file: time in seconds, name of the logger, text."""
    for line in path.read_bytes().decode("utf-8", "replace").split("\n"):
        # A progress bar or a killed run may stand before the message on its line.
        if match := _MESSAGE.search(line):
            time = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S")
            yield (time - datetime(1970, 1, 1)).total_seconds(), match[2], match[3]
