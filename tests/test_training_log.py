"""Hours, epochs and likelihoods from logs that are made by hand, and from fairseq-train's own."""

import json
import shutil
from datetime import datetime, timedelta

import pytest
from commands import LAST_ONLY, MODEL, together, train
from reporting.paper import PaperRows
from reporting.training_log import read_training
from reporting.training_table import training_remarks, training_table

from fairseq_rnnsearch.errors import UserError

PER_EPOCH = 200  # updates


class Log:
    """Writes what fairseq-train writes, at times that are given in minutes."""

    def __init__(self, style="simple"):
        self.style, self.lines = style, []

    def say(self, minute, logger, text):
        time = datetime(2026, 11, 21, 23, 0, 0) + timedelta(minutes=minute)
        self.lines.append(f"{time:%Y-%m-%d %H:%M:%S} | INFO | {logger} | {text}")
        return self

    def begin(self, minute, loaded=None, devices=()):
        """A run starts; its first batch comes a minute later."""
        self.say(minute, "fairseq_cli.train", "{'_name': None, 'common': {'_name': None}}")
        for rank, device in enumerate(devices):
            gpu = f"capabilities =  9.0  ; total memory = 79.109 GB ; name = {device:40s}"
            self.say(minute, "fairseq.utils", f"rank {rank:3d}: {gpu}")
        self.say(minute, "fairseq.trainer", "Preparing to load checkpoint c/checkpoint_last.pt")
        text = "No existing checkpoint found c/checkpoint_last.pt"
        if loaded is not None:
            text = f"Loaded checkpoint c/checkpoint_last.pt (epoch 1 @ {loaded} updates)"
        self.say(minute, "fairseq.trainer", text)
        return self.say(minute + 1, "fairseq_cli.train", "Start iterating over samples")

    def _report(self, minute, logger, values, between):
        epoch, place = divmod(values["num_updates"] - 1, PER_EPOCH)
        epoch, place = epoch + 1, place + 1
        if self.style == "json":
            first = {"epoch": epoch}
            if logger == "train_inner":
                first["update"] = round(epoch - 1 + place / PER_EPOCH, 3)
            else:
                values = {f"{logger}_{name}": value for name, value in values.items()}
            values = {name: str(value) for name, value in values.items()}
            return self.say(minute, logger, json.dumps(first | values))
        sign = "=" if logger == "train_inner" else " "
        text = between.join(f"{name}{sign}{value}" for name, value in values.items())
        beginning = {
            "train_inner": f"epoch {epoch:03d}:  {place:5d} / {PER_EPOCH:d} ",
            "train": f"epoch {epoch:03d} | ",
            "valid": f"epoch {epoch:03d} | valid on 'valid' subset | ",
        }
        return self.say(minute, logger, beginning[logger] + text)

    def inner(self, minute, update, nats=50.0, bsz=80):
        values = {"loss": 6.783, "nats_per_sentence": nats, "bsz": bsz}
        values |= {"num_updates": update, "train_wall": 48, "wall": 777}
        return self._report(minute, "train_inner", values, ", ")

    def epoch_end(self, minute, update, nats):
        values = {"loss": 6.7, "nats_per_sentence": nats, "bsz": 80, "num_updates": update}
        return self._report(minute, "train", values, " | ")

    def valid(self, minute, update, nats):
        values = {"loss": 5.9, "nats_per_sentence": nats, "wps": 9.1, "num_updates": update}
        return self._report(minute, "valid", values, " | ")

    def saved(self, minute, update):
        text = f"Saved checkpoint c/checkpoint_1_{update}.pt (epoch 1 @ {update} updates,"
        text += " score 5.9) (writing took 0.4 seconds)"
        return self.say(minute, "fairseq.checkpoint_utils", text)

    def read(self, folder, *more, **options):
        path = folder / f"{len(list(folder.iterdir()))}.log"
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        return read_training([path, *more], **options)


@pytest.fixture(params=["simple", "json"])
def log(request):
    return Log(request.param)


def minutes(*values):
    return pytest.approx(sum(values) / 60)


def sentences_of_other_batches(log):
    """A line each ten updates; the last ones have three times as many sentences."""
    log.begin(0)
    for update in range(10, 201, 10):
        log.inner(update, update, nats=float(update), bsz=60 if update == 200 else 20)


def called_again_when_finished(log):
    log.begin(0).inner(31, 100).saved(31, 100)
    log.say(200, "fairseq_cli.train", "{'_name': None}")
    log.say(200, "fairseq.trainer", "Loaded checkpoint c/x.pt (epoch 1 @ 100 updates)")
    log.say(201, "fairseq_cli.train", "done training in 0.0 seconds")


H100, A100 = "NVIDIA H100", "NVIDIA A100"
RUNS = {  # what is logged, and what is found in it
    "one run, from minute 1 to 70": (
        lambda log: log.begin(0)
        .inner(21, 100, 90.0).inner(41, 200, 70.0).valid(46, 200, 60.0).saved(47, 200)
        .epoch_end(48, 200, 80.0).inner(68, 300, 50.0).valid(69, 300, 64.0).saved(70, 300),
        {"updates": 300, "epochs": 1.5, "runs": 1, "hours": minutes(69), "valid_nats": 60.0,
         "valid_update": 200, "last_valid_nats": 64.0, "train_nats": 50.0, "device": "CPU",
         "lost_hours": 0, "unlogged_updates": 0},
    ),
    # killed at minute 61; goes on from update 200, which was saved at minute 45
    "lost work is counted once": (
        lambda log: log.begin(0)
        .inner(21, 100).inner(41, 200).valid(44, 200, 60.0).saved(45, 200)
        .inner(61, 300, 11.0).valid(61, 300, 1.0)
        .begin(500, loaded=200).inner(521, 300, 40.0).inner(541, 400, 30.0).saved(543, 400),
        {"updates": 400, "epochs": 2.0, "runs": 2, "hours": minutes(44, 42),
         "lost_hours": minutes(16), "valid_nats": 60.0, "train_nats": 30.0},
    ),
    "a new beginning makes everything before it void": (
        lambda log: log.begin(0).inner(50, 100, 9.0).valid(50, 100, 3.0)
        .begin(100).inner(111, 50, 70.0).valid(111, 50, 50.0),
        {"updates": 50, "valid_nats": 50.0, "runs": 1, "hours": minutes(10)},
    ),
    "a finished training called again": (called_again_when_finished, {"hours": minutes(30)}),
    # of 200 updates those after 180: 190 and 200
    "the last tenth, by sentences": (
        sentences_of_other_batches,
        {"train_nats": pytest.approx((190 * 20 + 200 * 60) / 80)},
    ),
    "devices": (
        lambda log: log.begin(0, devices=[H100, H100]).inner(10, 100).saved(10, 100)
        .begin(100, loaded=100, devices=[A100]).inner(110, 200),
        {"device": "2 × NVIDIA H100, NVIDIA A100"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_what_a_log_says_of_a_training(log, tmp_path, name):
    write, expected = RUNS[name]
    write(log)
    found = log.read(tmp_path)
    assert {key: getattr(found, key) for key in expected} == expected


def test_what_the_table_does_not_count_is_remarked(tmp_path):
    write, _ = RUNS["lost work is counted once"]
    begin = "M: lowest dev. NLL after 200 updates; trained in 2 runs; 0.27 h of lost work not"
    assert training_remarks({"M": write(Log()).read(tmp_path)}) == [f"{begin} counted."]


def test_logs_in_several_files_and_missing_ones(log, tmp_path):
    paths = tmp_path / "first", tmp_path / "second"
    for path, loaded in zip(paths, (None, 100), strict=True):
        log.lines, update = [], loaded or 0
        log.begin(update, loaded).inner(update + 31, update + 100).saved(update + 31, update + 100)
        path.write_text("\n".join(log.lines))
    whole, part = read_training(paths), read_training(paths[1:])
    assert (whole.hours, whole.unlogged_updates) == (pytest.approx(1.0), 0)
    assert (part.hours, part.unlogged_updates) == (pytest.approx(0.5), 100)
    assert "the log lacks 100 updates" in training_remarks({"M": part})[0]


def test_broken_lines_are_passed_over(log, tmp_path):
    log.begin(0).inner(10, 100)
    log.lines.append(log.lines[-1][:-30])
    log.lines += ["Traceback (most recent call last):", "  KeyboardInterrupt", ""]
    path = tmp_path / "log"
    path.write_bytes("\n".join(log.lines).encode() + b"\xff\xfe half a lin")
    assert read_training([path]).updates == 100


def test_no_training(tmp_path):
    (tmp_path / "log").write_text("something else\n")
    with pytest.raises(UserError, match="found no training"):
        read_training([tmp_path / "log"])


def test_the_papers_table(tmp_path):
    log = Log().begin(0).inner(61, 100, 45.25).valid(61, 100, 40.0)
    training = log.read(tmp_path, device="a cluster")
    beside = {"rnnenc_50": "RNNencdec-50"}
    table = training_table({"rnnenc_50": training}, PaperRows(beside, further=True))
    rows = [[row.get(column) for column in table.columns] for row in table.rows]
    expected = "100 600,000 0.5 4.5 1.0 108 45.2 44.0 40.0 43.6"
    assert rows == [["rnnenc_50", *expected.split(), "a cluster", "Quadro K-6000"]]


@pytest.mark.slow
def test_what_fairseq_train_prints(small_corpus, tmp_path):
    """Six updates an epoch; the second run takes up the checkpoint of update 4, 9 were done."""

    def log_of(style):
        folder = tmp_path / style
        options = f"{MODEL} {LAST_ONLY} --criterion alignment_heatmap --seed 3 --log-interval 1"
        options += f" --optimizer rnnsearch_adadelta --batch-size 20 --log-format {style}"
        options += " --save-interval-updates 2 --keep-interval-updates -1"
        first = train(small_corpus.data, folder, options, "--max-update 9").ok()
        shutil.copy(folder / "checkpoint_1_4.pt", folder / "checkpoint_last.pt")
        second = train(small_corpus.data, folder, options, "--max-update 15").ok()
        path = tmp_path / f"{style}.log"
        path.write_text(first.err + first.out + second.err + second.out)
        return read_training([path]), second

    (simple, printed), (json_format, _) = together(lambda: log_of("simple"), lambda: log_of("json"))
    for found in simple, json_format:
        assert (found.updates, found.epochs, found.runs) == (15, 2.5, 2)
        assert found.hours + found.lost_hours < 0.2
    assert simple.train_nats == json_format.train_nats > 0
    simple_best, json_best = ((run.valid_nats, run.valid_update) for run in (simple, json_format))
    assert simple_best == json_best
    last = [line for line in (printed.err + printed.out).splitlines() if "| valid |" in line][-1]
    assert f"nats_per_sentence {simple.last_valid_nats:g} " in last
