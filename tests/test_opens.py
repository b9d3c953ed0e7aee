"""How often a checkpoint is opened, counted by strace."""

import shutil

import pytest
from commands import LAST_ONLY, MODEL, PAPER, QUIET, ROOT, SCRIPTS, TASK, run_process
from slow_cases import cases

pytest_plugins = ["trained"]
needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


def opened(name: str, trace, *command: str) -> int:
    """How often the command opens a file of this name."""
    strace = ["strace", "-f", "--seccomp-bpf", "-e", "trace=openat", "-o", str(trace)]
    ran = run_process([*strace, *command], cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    calls = [line for line in trace.read_text().splitlines() if f'{name}"' in line]
    return sum("= -1" not in line and "O_DIRECTORY" not in line for line in calls)


@needs_strace
def test_a_resume_opens_its_checkpoint_twice(small_corpus, launchpad, tmp_path):
    options = f"{TASK} {QUIET} {MODEL} {PAPER} {LAST_ONLY} --save-dir {tmp_path} --max-update"
    launchpad.run("fairseq-train", small_corpus.data, f"{options} 1").ok()
    again = [str(SCRIPTS / "fairseq-train"), str(small_corpus.data), *f"{options} 1".split()]
    assert opened("checkpoint_last.pt", tmp_path / "trace", *again) == 2


@needs_strace
@pytest.mark.parametrize("names_data", cases([False, True]))
@pytest.mark.parametrize("models", cases([2, 1]))
def test_loading_for_translation_opens_each_once(barely_trained, tmp_path, names_data, models):
    program = "import sys; from fairseq_rnnsearch import load; "
    program += "load(sys.argv[1].split(':'), *sys.argv[2:])"
    command = [str(SCRIPTS / "python"), "-c", program]
    command.append(":".join([str(barely_trained.checkpoint)] * models))
    command += [str(barely_trained.corpus.data)] * names_data
    name = barely_trained.checkpoint.name
    assert opened(name, tmp_path / "trace", *command) == models


@needs_strace
@pytest.mark.parametrize("names_data", cases([True, False]))
def test_exporting_reads_it_once(barely_trained, tmp_path, names_data):
    command = [str(SCRIPTS / "rnnsearch-export"), str(barely_trained.checkpoint)]
    command += ["--out", str(tmp_path / "model")]
    command += ["--data", str(barely_trained.corpus.data)] * names_data
    # once more its first bytes, to tell it from a text
    assert opened(barely_trained.checkpoint.name, tmp_path / "trace", *command) == 2
