"""What commands print, what their log files keep, and a line of progress every ten seconds."""

import io
import itertools
import json
import logging
import re

import pytest
from commands import LAST_ONLY, MODEL, PAPER, QUIET, TASK, run
from fairseq.logging import metrics, progress_bar

from fairseq_rnnsearch.compat import progress_lines
from fairseq_rnnsearch.compat.log_writers import make_surviving_bar
from fairseq_rnnsearch.evaluation.training_log import read_training

pytest_plugins = ["trained"]

NOISE = ("'_name'", "Namespace(", "(encoder)", "Preparing to", "loaded 80 examples", "expert")
ALL = "{'_name': None, 'common'"
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| [A-Z]+ \| \S+ \| ")


def test_a_training_prints_what_its_reader_needs_and_its_log_file_has_all(small_corpus, tmp_path):
    options = f"{TASK} {QUIET} {MODEL} {PAPER} {LAST_ONLY} --log-interval 1"
    log = tmp_path / "log"

    def train(*more, **environment):
        folder = f"--save-dir={tmp_path / 'model'}"
        return run("fairseq-train", small_corpus.data, options, folder, *more, **environment).ok()

    short = train(f"--max-update 2 --log-file={log}").out.splitlines()
    assert not any(noise in line for line in short for noise in NOISE)
    text = "\n".join(short)
    useful = "num. shared model params: ", "train en-fr", "kernels run the enc", "| valid | epoch"
    assert [text.count(words) for words in useful] == [1] * len(useful)
    assert text.count("| train_inner | epoch 001:") == 2
    assert short[0].endswith("(RNNSEARCH_WHOLE_LOG=1 prints all of the configuration)")
    assert f"command: fairseq-train {small_corpus.data} --user-dir" in short[0]

    kept = log.read_text().splitlines()
    assert all(line in kept for line in short)
    assert ALL in kept[0] and "  (encoder): RNNSearchEncoder(" in kept
    whole = train("--max-update 3", RNNSEARCH_WHOLE_LOG="1").out.splitlines()
    assert ALL in whole[0] and not any("command: " in line for line in whole)

    printed = tmp_path / "printed"
    printed.write_text("\n".join([*short, *whole]))
    (tmp_path / "whole").write_text("\n".join([*kept, *whole]))
    found = [read_training([path]) for path in (printed, tmp_path / "whole")]
    assert [(run.updates, run.runs) for run in found] == [(3, 2)] * 2
    assert found[0] == found[1]
    assert read_training([log]).updates == 2


def test_other_commands_too(barely_trained, tmp_path):
    data, model = barely_trained.corpus.data, f"--path={barely_trained.checkpoint}"
    commands = {
        "generate": (data, TASK, QUIET, model, "--beam 1"),
        "interactive": (data, TASK, "--cpu", model, "--beam 1"),
        "validate": (data, TASK, QUIET, model, "--batch-size 20"),
        "preprocess": (
            *(TASK, "-s en -t fr", f"--testpref={barely_trained.corpus.text / 'test'}"),
            *(f"--srcdict={data}/dict.en.txt", f"--tgtdict={data}/dict.fr.txt"),
            f"--destdir={tmp_path / 'data'}",
        ),
    }
    for command, options in commands.items():
        log = tmp_path / f"{command}.log"
        done = run(f"fairseq-{command}", *options, f"--log-file={log}", stdin="red bird\n").ok()
        printed = done.out + done.err
        assert f"command: fairseq-{command} " in printed
        assert not any(noise in printed for noise in NOISE), command
        kept = log.read_text().splitlines()
        assert sum(ALL in line or "Namespace(" in line for line in kept) == 1, command
        assert all(LINE.match(line) for line in kept)


class Clock:
    """Four seconds pass with every batch."""

    now = 0.0

    def monotonic(self):
        return self.now

    def batches(self, count):
        for number in range(count):
            self.now += 4
            yield number


class Batches:
    def __init__(self, clock, count, n=0):
        self.clock, self.count, self.n = clock, count, n

    def __len__(self):
        return self.count

    def __iter__(self):
        return itertools.islice(self.clock.batches(self.count), self.n, None)


@pytest.fixture
def lines(monkeypatch, caplog):
    """Tells what a bar's lines are after it has gone through batches."""
    clock = Clock()
    monkeypatch.setattr(progress_lines, "time", clock)
    monkeypatch.setattr(progress_bar.logger, "filters", [])
    progress_lines.watch_bars()
    caplog.set_level(logging.INFO)

    def lines(log_format, loop=lambda bar, batch: None, **options):
        caplog.clear()
        bar = make_surviving_bar(
            progress_bar.progress_bar, Batches(clock, 10), log_format, **options
        )
        assert len(bar) == 10
        for batch in bar:
            loop(bar, batch)
        return [(record.name, record.getMessage()) for record in caplog.records]

    return lines


def test_a_line_every_ten_seconds(lines):
    """After 12, 24 and 36 of 40 seconds."""
    prefix = "epoch 003 | valid on 'valid' subset"
    found = lines("simple", epoch=3, prefix="valid on 'valid' subset")
    assert found == [
        ("progress", f"{prefix}:  {done:5d} / 10 seconds_left={left}")
        for done, left in ((3, 28), (6, 16), (9, 4))
    ]
    assert lines("none") == []
    (_, first), *_ = lines("json")
    assert json.loads(first) == {"seconds_left": "28"}


def test_what_a_training_knows_is_in_its_lines(lines):
    with metrics.aggregate("train_inner"):
        metrics.log_scalar("loss", 2.5)
    (name, text), *_ = lines("simple", epoch=1)
    assert name == "progress" and text.startswith("epoch 001:      3 / 10 loss=2.5")


def test_fairseqs_lines_count(lines):
    """It has written one 8 seconds after the beginning: the next is due 12 seconds later."""

    def loop(bar, batch):
        if batch == 1:
            bar.print({"loss": 1.0}, tag="valid")

    found = lines("simple", loop, epoch=1, prefix="valid")
    assert [name for name, _ in found] == ["valid", "progress", "progress"]
    assert " 5 / 10 " in found[1][1] and " 8 / 10 " in found[2][1]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_beside_a_bar_that_is_shown_only_files_have_lines(lines, monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    screen, file = (logging.StreamHandler(kind()) for kind in (Terminal, io.StringIO))
    monkeypatch.setattr(logging.root, "handlers", [screen, file])
    lines("tqdm", epoch=1)
    assert screen.stream.getvalue() == ""
    assert file.stream.getvalue().count("epoch 001:      ") == 3
