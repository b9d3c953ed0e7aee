"""More words than the memory holds: one batch is lost, and not the run."""

import re
import subprocess
from pathlib import Path

from commands import LAST_ONLY, MODEL, PAPER, ROOT, preprocess, train, write_text

LIMIT = 2_500_000  # kilobytes of addresses: fairseq itself takes some 1.5 million
LONG = 100_000  # words


def limited(command: str) -> subprocess.CompletedProcess:
    """Run a command as a machine with little memory would."""
    return subprocess.run(
        ["bash", "-c", f"ulimit -v {LIMIT} && OMP_NUM_THREADS=1 exec {command}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )


def test_a_batch_that_does_not_fit_is_skipped(tmp_path: Path):
    text = write_text(tmp_path / "text", train=39, valid=5)
    for language, word in (("en", "house"), ("fr", "maison")):
        with (text / f"train.{language}").open("a") as file:
            file.write(" ".join([word] * LONG) + "\n")
    preprocess(text, tmp_path / "data").ok()
    options = f"{MODEL} {PAPER} {LAST_ONLY} --max-train-words 0 --max-source-positions 200000"
    options += " --max-target-positions 200000 --max-epoch 2 --log-format simple --log-interval 1"
    plain = train(tmp_path / "data", tmp_path / "out", "--help")  # how it is called
    command = plain.command.replace(" --help", f" {options}")
    ran = limited(command)
    log = ran.stdout + ran.stderr
    assert ran.returncode == 0, log[-3000:]
    skipped = re.findall(r"exception: out of memory in a batch of 20 sentences .*", log)
    assert len(skipped) == 2 and all(f"longest of {LONG + 1} source" in line for line in skipped)
    assert re.search(r"\| epoch 002 \|.* num_updates 2 ", log)  # the other batch of each epoch
    assert (tmp_path / "out" / "checkpoint_last.pt").exists()
