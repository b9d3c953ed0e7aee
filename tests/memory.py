"""How much memory long runs and long lines take; prints a table.

    python tests/memory.py                      # 10,000 updates, 100,000 lines: 25 minutes
    python tests/memory.py --updates 1000 --lines 2000 --words 500

A small model is trained, then translates short lines, and its resident memory is read on the way:
what grows would show. A model of the paper's sizes translates a line of --words words, and trains
on a batch of 80 of which one pair is as long, in the parts that --max-batch-memory makes of it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from commands import LAST_ONLY, MODEL, PAPER, QUIET, ROOT, SCRIPTS, TASK, preprocess, write_text

PARTS = 5  # readings of a run, evenly spread over what it does
PAPERS_SIZES = "--arch rnnsearch_50"


def resident(process: int) -> float:
    """Megabytes of a process and its children."""
    found = Path(f"/proc/{process}/status").read_text()
    own = int(found.partition("VmRSS:")[2].split()[0]) / 1024
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return own + sum(map(resident, map(int, children)))


def started(command: str, **options) -> subprocess.Popen:
    name, *words = command.split()
    return subprocess.Popen(
        [str(SCRIPTS / name), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
        **options,
    )


def while_running(process: subprocess.Popen, mark: str, every: int) -> Iterator[float]:
    """Its memory at each ``every``-th line that has the mark."""
    seen = 0
    for line in process.stdout:
        seen += mark in line
        if mark in line and seen % every == 0:
            yield resident(process.pid)
    if process.wait():
        sys.exit(f"{process.args[0]} failed with status {process.returncode}")


def show(what: str, readings: list[float]) -> None:
    print(f"| {what} | {' | '.join(f'{mb:,.0f}' for mb in readings)} |", flush=True)


def training(data: Path, folder: Path, updates: int) -> list[float]:
    command = (
        f"fairseq-train {data} {TASK} {QUIET} {MODEL} {PAPER} {LAST_ONLY} --max-update {updates}"
        f" --save-dir {folder} --log-format simple --log-interval {updates // PARTS}"
        f" --save-interval-updates {updates // PARTS} --keep-interval-updates 1"
    )
    return list(while_running(started(command), "| train_inner |", 1))


def typing(data: Path, checkpoint: Path, lines: int) -> list[float]:
    """fairseq-interactive with a line at a time, each of one to nine words."""
    command = f"fairseq-interactive {data} {TASK} --cpu --path {checkpoint} --beam 2 --max-len-b 9"
    process = started(command, stdin=subprocess.PIPE)

    def write() -> None:
        with process.stdin as typed:
            for number in range(lines):
                typed.write(" ".join(["red", "bird", "tree"] * (number % 3 + 1)) + "\n")

    threading.Thread(target=write, daemon=True).start()
    return list(while_running(process, "D-", lines // PARTS))


def long_line(data: Path, checkpoint: Path, words: int) -> float:
    """Peak of the translation of one line."""
    command = f"fairseq-interactive {data} {TASK} --cpu --path {checkpoint} --beam 12"
    process = started(command, stdin=subprocess.PIPE)
    process.stdin.write(" ".join(["red", "bird"] * (words // 2)) + "\n")
    process.stdin.close()
    return peak(process)


def long_pair(folder: Path, words: int, gigabytes: float) -> tuple[float, str]:
    """Peak of an update with that pair in its batch, and what the log says of it."""
    text = write_text(folder / "text", train=79, valid=5)
    for name, word in (("train.en", "house"), ("train.fr", "maison")):
        with (text / name).open("a") as file:
            file.write(" ".join([word] * words) + "\n")
    preprocess(text, folder / "data").ok()
    paper = f"{PAPERS_SIZES} {PAPER} --batch-size 80 {LAST_ONLY}"
    process = started(
        f"fairseq-train {folder / 'data'} {TASK} {QUIET} {paper} --max-update 1 --no-save"
        f" --max-train-words 0 --max-batch-memory {gigabytes} --save-dir {folder / 'model'}"
    )
    said = [line for line in process.stdout if "it is computed in" in line]
    return peak(process), said[0].rpartition(" | ")[2].strip() if said else "in one part"


def peak(process: subprocess.Popen) -> float:
    """Megabytes, after it has ended."""
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        sys.exit(f"{process.args[0]} failed with status {status}")
    return usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=5_000)
    parser.add_argument("--gigabytes", type=float, default=4, help="--max-batch-memory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, small, large = (folder / part for part in ("data", "small", "large"))
        preprocess(write_text(folder / "text", train=400, valid=20), data).ok()
        print(f"MB of resident memory after each fifth of {options.updates:,} updates and")
        print(f"{options.lines:,} lines, and the peak of a line of {options.words:,} words\n")
        print("| run |" + "".join(f" {n * 100 // PARTS}% |" for n in range(1, PARTS + 1)))
        print("|---" * (PARTS + 1) + "|", flush=True)
        show("training", training(data, small, options.updates))
        checkpoint = small / "checkpoint_last.pt"
        show("interactive", typing(data, checkpoint, options.lines))
        paper = f"fairseq-train {data} {TASK} {QUIET} {PAPERS_SIZES} {PAPER} {LAST_ONLY}"
        list(while_running(started(f"{paper} --max-update 1 --save-dir {large}"), "\0", 1))
        checkpoint = large / "checkpoint_last.pt"
        show("one word, the paper's sizes", [long_line(data, checkpoint, 2)])
        show(f"{options.words:,} words", [long_line(data, checkpoint, options.words)])
        most, said = long_pair(folder / "pair", options.words, options.gigabytes)
        show(f"an update with a pair of {options.words:,} words", [most])
        print(f"\n{said}")


if __name__ == "__main__":
    main()
