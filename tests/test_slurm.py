"""recipes/slurm.sbatch with commands in the places of Slurm's."""

import os
import signal
import subprocess
import time

import pytest
from commands import ROOT

SCRIPT = ROOT / "recipes" / "slurm.sbatch"
SRUN = """#!/usr/bin/env bash
trap 'echo "USR1" >> "$LOG"; exit 1' USR1
printf '%s\\n' "$*" > "$LOG"
if [[ $ENDS ]]; then exit "$ENDS"; fi
for i in {1..600}; do sleep 0.1; done
"""
SCONTROL = """#!/usr/bin/env bash
if [[ $1 = show ]]; then echo node7; sleep 0.2; echo node8; else echo "$*" >> "$LOG"; fi
"""


@pytest.fixture
def begin(tmp_path):
    for name, text in {"srun": SRUN, "scontrol": SCONTROL, "fairseq-train": ""}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"

    def begin(*arguments, ends=""):
        return log, subprocess.Popen(
            ["bash", SCRIPT, *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "SLURM_JOB_NODELIST": "node[7-8]",
                "SLURM_JOB_NUM_NODES": "2",
                "SLURM_JOB_ID": "34",
                "SLURM_GPUS_ON_NODE": "4",
                "SLURM_SUBMIT_DIR": str(tmp_path),
                "LOG": str(log),
                "ENDS": ends,
            },
        )

    return begin


@pytest.mark.parametrize("status", [0, 3])
def test_it_ends_as_the_training_does(begin, status):
    log, process = begin("data", "model", "--seed", "two words", ends=str(status))
    assert process.wait(60) == status
    (line,) = log.read_text().splitlines()
    for part in (
        "torchrun --nnodes 2 --nproc-per-node 4",
        "--rdzv-endpoint node7:",
        "--rdzv-id 34-0 --signals-to-handle SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1",
        "fairseq-train data --save-dir model",
        "--distributed-world-size 8 --seed two words",
    ):
        assert part in line


def test_the_signal_is_handed_on_and_the_job_queued_again(begin):
    log, process = begin("data", "model")
    end = time.monotonic() + 60
    while not (log.exists() and log.read_text().endswith("\n")):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    assert log.read_text().splitlines()[1:] == ["USR1", "requeue 34"]
