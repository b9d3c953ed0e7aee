"""More words than the memory holds: one batch is lost, and not the run."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from commands import LAST_ONLY, MODEL, PAPER, ROOT, preprocess, train, write_text

ROOM = 1_000_000  # kilobytes of addresses beside those that fairseq itself takes
LONG = 100_000  # words


@cache
def addresses() -> int:
    """Kilobytes that are taken before anything is read; gigabytes where torch is for GPUs."""
    program = "import fairseq_cli.train; print(open('/proc/self/status').read())"
    status = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    return int(re.search(r"VmSize:\s*(\d+)", status)[1])


def limited(command: str) -> subprocess.CompletedProcess:
    """Run a command as a machine with little memory would."""
    return subprocess.run(
        ["bash", "-c", f"ulimit -v {addresses() + ROOM} && OMP_NUM_THREADS=1 exec {command}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )


@pytest.mark.slow
def test_a_batch_that_does_not_fit_is_skipped(tmp_path: Path):
    text = write_text(tmp_path / "text", train=39, valid=5)
    for language, word in (("en", "house"), ("fr", "maison")):
        with (text / f"train.{language}").open("a") as file:
            file.write(" ".join([word] * LONG) + "\n")
    preprocess(text, tmp_path / "data").ok()
    options = f"{MODEL} {PAPER} {LAST_ONLY} --max-train-words 0 --max-batch-memory 0"
    options += " --max-epoch 2 --log-format simple --log-interval 1"
    plain = train(tmp_path / "data", tmp_path / "out", "--help")  # how it is called
    command = plain.command.replace(" --help", f" {options}")
    ran = limited(command)
    log = ran.stdout + ran.stderr
    assert ran.returncode == 0, log[-3000:]
    skipped = re.findall(r"exception: out of memory in a batch of 20 sentences .*", log)
    assert len(skipped) == 2 and all(f"longest of {LONG + 1} source" in line for line in skipped)
    assert re.search(r"\| epoch 002 \|.* num_updates 2 ", log)  # the other batch of each epoch
    assert (tmp_path / "out" / "checkpoint_last.pt").exists()
