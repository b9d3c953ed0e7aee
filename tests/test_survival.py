"""A training that was killed, or asked to stop, at any moment ends as one that was not."""

import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from commands import MODEL, assert_equal_folders
from launchpad import Strike
from slow_cases import cases

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.runs import signals
from fairseq_rnnsearch.runs.checkpoint_file import copy_whole, write_whole

# eleven batches, six updates an epoch; 15 is in the middle of the third
OPTIONS = (
    f"{MODEL} --dropout 0.2 --criterion alignment_heatmap --batch-size 10 --update-freq 2"
    " --heatmap-samples 0 --log-interval 1 --save-interval-updates 2 --max-update 15 --seed 5"
)
PAPER = f"{OPTIONS} --optimizer rnnsearch_adadelta --clip-norm 1"
WORKERS = "--num-workers 2"
ADAM = (
    f"{OPTIONS} --optimizer adam --lr 0.01 --lr-scheduler inverse_sqrt --warmup-updates 4"
    " --batch-order fairseq"
)


# --- what must be equal -----------------------------------------------------------------------


def counts(checkpoint):
    """Everything in a checkpoint that is neither a tensor of the model nor a time."""
    saved = torch.load(checkpoint, weights_only=True)
    extra = saved["extra_state"]
    return {
        **{name: extra.get(name) for name in ("train_iterator", "val_loss", "best", "patience")},
        "updates": saved["optimizer_history"][-1],  # one is added with each resume
        "meters": [
            (name, {key: float(value) for key, value in state.items() if value is not None})
            for _, name, kind, state in dict(extra["metrics"])["train"]
            if kind == "AverageMeter"
        ],
    }


def reported(*logs):
    """The reports of training and validation, without what depends on the clock."""
    found = {}
    for log in logs:
        for report in re.findall(r"INFO \| ((?:train|train_inner|valid) \| .*)", log):
            update = re.search(r"num_updates[ =](\d+)", report)[1]
            report = re.sub(r"\b(wps|ups|wall|train_wall)[ =][\d.]+", "", report)
            found.setdefault((report.split()[0], update), set()).add(report)
    return found


def assert_equal_runs(folder, whole, logs=None, killed=False):
    """A broken training ended with the parameters, the state and the reports of the unbroken."""
    last = folder / "checkpoint_last.pt"
    assert_equal_folders(folder, whole.folder)
    assert counts(last) == counts(whole.folder / last.name)
    assert not [path for path in folder.iterdir() if path.suffix != ".pt"]
    if logs is not None:
        found, expected = reported(*logs), reported(whole.log)
        if killed:  # after an epoch's end was saved and before it was reported
            lost = [key for key in expected.keys() - found.keys() if key[0] == "train"]
            expected = {key: report for key, report in expected.items() if key not in lost}
        assert found == expected


class Whole:
    """A training that was never interrupted."""

    def __init__(self, pad, data, folder, options):
        self.folder, self.options, self.data = folder, options, data
        begun = time.monotonic()
        self.log = pad.train(*self.command(folder)).ok().out
        self.seconds = time.monotonic() - begun
        assert len(reported(self.log)) == 15 + 8 + 3  # updates, validations, epochs

    def command(self, folder, *more):
        return self.data, self.options, f"--save-dir={folder}", *more


@pytest.fixture(scope="module")
def whole(launchpad, small_corpus, tmp_path_factory):
    return Whole(launchpad, small_corpus.data, tmp_path_factory.mktemp("whole"), PAPER)


def go_on(pad, whole, folder, logs=None):
    """The same command again, to the end."""
    again = pad.train(*whole.command(folder)).ok()
    assert "Loaded checkpoint" in again.out
    assert_equal_runs(folder, whole, logs and [*logs, again.out])
    return again


# --- killed -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("options", [PAPER, ADAM], ids=["paper", "adam"])
def test_killed_fifty_times(launchpad, small_corpus, tmp_path, options):
    """Each process is killed at a random moment, and restarted until a training has ended."""
    whole = Whole(launchpad, small_corpus.data, tmp_path / "whole", options)
    draw, kills, trainings = random.Random(2), 50, 0
    while kills:
        trainings += 1
        folder, logs = tmp_path / str(trainings), []
        while kills:
            saved = list(folder.glob("checkpoint*.pt"))
            run = launchpad.begin(*whole.command(folder, WORKERS))
            time.sleep(draw.uniform(0, 1.2 * whole.seconds))
            run.send(signal.SIGKILL)
            ended = run.finish()
            logs.append(ended.out)
            assert not saved or "No existing checkpoint" not in ended.out
            if ended.rc == 0:
                break
            assert ended.rc == -signal.SIGKILL, ended.tail()
            kills -= 1
        logs.append(launchpad.train(*whole.command(folder)).ok().out)
        assert_equal_runs(folder, whole, logs, killed=True)


MOMENTS = {
    "half of the first checkpoint is written": Strike("write", 1),
    "half of a checkpoint is written": Strike("write", 4),
    "a checkpoint is written, not flushed": Strike("flush", 6),
    "a checkpoint is flushed, not renamed": Strike("rename", 6),
    "half of a copy is written": Strike("copy", 3),
    "half of another copy is written": Strike("copy", 6),
    "before the second copy": Strike("rename", 3),
    "in a validation": Strike("validation", 4),
}


@pytest.mark.parametrize("moment", cases(MOMENTS, "half of a checkpoint is written"))
def test_killed_when_it_hurts(launchpad, whole, tmp_path, moment):
    killed = launchpad.train(*whole.command(tmp_path, WORKERS), strike=MOMENTS[moment])
    assert killed.rc == -signal.SIGKILL
    for path in tmp_path.glob("*.pt"):  # what has a name is whole
        torch.load(path, weights_only=True)
    logs = [killed.out, launchpad.train(*whole.command(tmp_path)).ok().out]
    # the sixth is of an epoch's end, which is reported once all copies are there
    assert_equal_runs(tmp_path, whole, logs, killed=MOMENTS[moment] == Strike("copy", 6))


def test_it_is_flushed_before_it_is_renamed(tmp_path, monkeypatch):
    """A kill cannot show it, and power failures are rare."""
    done = []
    fsync, replace = os.fsync, os.replace

    def note_flush(descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_relative_to(tmp_path):  # the way to a folder is flushed once, too
            done.append(("flush", path.name))
        fsync(descriptor)

    def note_rename(old, new):
        done.append(("rename", os.path.basename(old), os.path.basename(new)))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", note_flush)
    monkeypatch.setattr(os, "replace", note_rename)
    source, copy = str(tmp_path / "checkpoint1.pt"), str(tmp_path / "checkpoint_last.pt")
    write_whole({"model": torch.zeros(3)}, source)
    assert copy_whole(source, copy, overwrite=True)
    for name, steps in (("checkpoint1.pt", done[:3]), ("checkpoint_last.pt", done[3:])):
        temporary = steps[0][1]
        renaming = "rename", temporary, name
        assert steps == [("flush", temporary), renaming, ("flush", tmp_path.name)]
        assert temporary != name
    assert torch.load(copy, weights_only=True)["model"].tolist() == [0, 0, 0]


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path):
    import resource

    path = tmp_path / "checkpoint_last.pt"
    write_whole({"model": 1}, str(path))
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"last.pt cannot be written: File too large"):
            write_whole({"model": torch.zeros(10_000)}, str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


# --- damaged ----------------------------------------------------------------------------------


def test_going_on_from_an_older_one_it_ends_the_same(launchpad, whole, tmp_path):
    """One of an epoch's end, in the place of the last one."""
    shutil.copy(whole.folder / "checkpoint1.pt", tmp_path)
    last = (whole.folder / "checkpoint_last.pt").read_bytes()
    (tmp_path / "checkpoint_last.pt").write_bytes(last[: len(last) // 2])
    again = go_on(launchpad, whole, tmp_path)
    assert "@ 6 updates)" in again.out
    (warning,) = re.findall(r"WARNING \| .*", again.out)
    assert "checkpoint_last.pt" in warning and "checkpoint1.pt" in warning


@pytest.mark.slow
def test_without_last_checkpoints_the_newest_is_taken(launchpad, whole, tmp_path):
    command = *whole.command(tmp_path), "--no-last-checkpoints"
    stopped = launchpad.train(*command, strike=Strike("update", 7, signal.SIGUSR1))
    assert stopped.rc == 0 and (tmp_path / "checkpoint_last.pt").exists()
    launchpad.train(*command, "--max-update 10").ok()
    again = launchpad.train(*command).ok()
    assert "@ 10 updates" in again.out and "WARNING" not in again.out
    shutil.copy(tmp_path / "checkpoint_best.pt", tmp_path / "checkpoint_last.pt")
    assert_equal_runs(tmp_path, whole)


# --- asked to stop ----------------------------------------------------------------------------

TERM, INT, USR1 = signal.SIGTERM, signal.SIGINT, signal.SIGUSR1

# update 3 and 9 are due neither to be validated nor saved; an epoch ends with 6
STOPS = {
    "SIGTERM": (Strike("update", 3, TERM), 143, 3),
    "Ctrl-C": (Strike("update", 9, INT, to_all=True), 130, 9),
    "SIGHUP": (Strike("update", 3, signal.SIGHUP), 129, 3),
    "SIGUSR1": (Strike("update", 3, USR1), 0, 3),
    "SIGTERM to its processes too": (Strike("update", 9, TERM, to_all=True), 143, 9),
    "SIGUSR1 to its processes too": (Strike("update", 4, USR1, to_all=True), 0, 4),
    "at the end of an epoch": (Strike("update", 6, USR1), 0, 6),
    "in a validation": (Strike("validation", 3, INT), 130, 6),
    "while it saves": (Strike("rename", 4, TERM), 143, 4),
    "the same signal twice at once": (Strike("update", 3, TERM, again=(0.1, 0.1)), 143, 3),
}


@pytest.mark.parametrize("case", cases(STOPS, "SIGTERM to its processes too"))
def test_a_signal_saves_and_stops(launchpad, whole, tmp_path, case):
    strike, status, update = STOPS[case]
    workers = WORKERS if strike.to_all else "--num-workers 0"
    stopped = launchpad.train(*whole.command(tmp_path), workers, strike=strike)
    assert stopped.rc == status, stopped.tail()
    name = signal.Signals(strike.number).name
    assert stopped.out.count(f"fairseq_rnnsearch: {name}: stopping after this update") == 1
    # rnnsearch-train and recipes/steps.sh look for the first three words
    assert f"Stopped by {name} @ {update} updates; the same command goes on" in stopped.out
    assert "Traceback" not in stopped.out
    again = go_on(launchpad, whole, tmp_path, [stopped.out])
    assert f"@ {update} updates)" in again.out


@pytest.mark.slow
def test_the_second_signal_ends_it_at_once(launchpad, whole, tmp_path):
    strike = Strike("update", 3, TERM, again=(1.1,))
    stopped = launchpad.train(*whole.command(tmp_path), strike=strike)
    assert stopped.rc == 143 and "Stopped by" not in stopped.out
    assert counts(tmp_path / "checkpoint_last.pt")["updates"]["num_updates"] == 2
    go_on(launchpad, whole, tmp_path, [stopped.out])


def test_each_training_of_a_program_hears_signals():
    """fairseq-hydra-train -m makes several."""
    before = {number: signal.getsignal(number) for number in signals.STATUS}
    try:
        for number in before:
            signal.signal(number, signal.SIG_DFL)
        requests = signals.StopRequest(), signals.StopRequest()
        for request in requests:
            request.listen()
        signal.raise_signal(TERM)
        assert [request.number for request in requests] == [0, TERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.slow
def test_a_signal_when_all_is_done_changes_nothing(launchpad, whole, tmp_path):
    finished = launchpad.train(*whole.command(tmp_path), strike=Strike("update", 15, TERM))
    assert finished.rc == 0 and "done training" in finished.out
    assert_equal_runs(tmp_path, whole, [finished.out])


def listening(monkeypatch, handlers):
    """The signals that a request takes where the program has these handlers."""
    taken = []
    monkeypatch.setattr(signal, "getsignal", handlers.get)
    monkeypatch.setattr(signal, "signal", lambda number, _: taken.append(number))
    signals.StopRequest().listen()
    return taken


def test_signals_that_are_ignored_or_handled_are_left_alone(monkeypatch):
    """nohup ignores SIGHUP."""
    hup, other = signal.SIGHUP, object()
    handlers = {TERM: signal.SIG_DFL, INT: signal.default_int_handler, hup: signal.SIG_IGN}
    assert listening(monkeypatch, handlers | {USR1: other}) == [TERM, INT]
    assert listening(monkeypatch, handlers | {USR1: signal.SIG_DFL}) == [TERM, INT, USR1]


@pytest.mark.parametrize(("seconds", "ends"), [(0.5, []), (1.0, []), (1.1, [143])])
def test_an_echo_is_no_second_signal(monkeypatch, seconds, ends):
    ended, clock = [], [100.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(os, "_exit", ended.append)
    request = signals.StopRequest()
    request.take(INT)
    clock[0] += seconds
    request.take(TERM)
    assert (request.number, ended) == (INT, ends)


@pytest.mark.slow
def test_a_schedule_hears_of_the_epoch_that_was_saved(train, tmp_path):
    """Stopped after each epoch; the learning rate is far too high, so that it falls."""
    plateau = {
        "lr_scheduler": "reduce_lr_on_plateau",
        "lr_patience": 1,
        "lr": [1.0],
        "batch_size": 10,
    }
    plateau |= {"save_interval_updates": 0, "no_epoch_checkpoints": True, "clip_norm": 0.0}
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    train(whole, **plateau, max_epoch=7)
    for epoch in range(1, 8):
        train(broken, **plateau, max_epoch=epoch)
    assert_equal_folders(broken, whole)
    last = broken / "checkpoint_last.pt", whole / "checkpoint_last.pt"
    assert counts(last[0]) == counts(last[1])
    saved = torch.load(last[0], weights_only=True)
    assert saved["last_optimizer_state"]["param_groups"][0]["lr"] < 1
