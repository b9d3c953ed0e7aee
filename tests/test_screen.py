"""What commands print, and what their log files keep."""

import io
import logging
import re
from argparse import Namespace

import pytest
from commands import LAST_ONLY, MODEL, PAPER, QUIET, TASK, run
from reporting.training_log import read_training

from fairseq_rnnsearch.runs.programs import checked

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


@pytest.mark.parametrize("is_terminal", (False, True))
def test_text_is_utf_8_and_writes_no_escape_sequences_to_a_terminal(is_terminal, monkeypatch):
    screen = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(screen, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler(screen)])

    def program(_):
        print("H-0\té\x1b[2J", flush=True)
        logging.warning("example:\n\x1b[2J")

    checked(program)(Namespace(log_file=None))
    escape = "\ufffd" if is_terminal else "\x1b"
    shown = f"H-0\té{escape}[2J\nexample:\n{escape}[2J\n"
    assert screen.buffer.getvalue().decode() == shown
