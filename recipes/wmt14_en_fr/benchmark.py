"""Measure how fast and in how much memory text is tokenised and scored, and project to WMT'14.

    python recipes/wmt14_en_fr/benchmark.py --text FOLDER --inside FOLDER [--processes 1 2]

A FOLDER has text.en and text.fr as extract.py lays them out; --inside names the domain's. The text
is repeated until it has --pairs pairs, so that the time of starting hardly counts.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parallel_text import sides

from fairseq_rnnsearch.errors import UserError, program

HERE = Path(__file__).parent


def repeat(text: Path, out: Path, pairs: int) -> float:
    """Repeat a folder's text until it has so many pairs; return the French words of a line."""
    out.mkdir()
    for path, copy in zip(sides(text), sides(out), strict=True):
        lines = path.read_bytes().splitlines(keepends=True)
        repeated = (lines * (pairs // len(lines) + 1))[:pairs]
        copy.write_bytes(b"".join(repeated))
    return sum(len(line.split()) for line in repeated) / pairs


def timed(program: str, *arguments: object) -> tuple[float, float]:
    """Run a program, which says itself how much memory it took.

    Returns:
        Its seconds by the clock, and the CPU seconds of all its processes.
    """
    started, before = time.monotonic(), os.times()
    command = [sys.executable, HERE / f"{program}.py", *map(str, arguments)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        raise UserError(f"{program}.py failed with status {ran.returncode}")
    print(ran.stdout.rstrip(), flush=True)
    after = os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return time.monotonic() - started, cpu


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Time tokenising and scoring.")
    parser.add_argument("--text", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--inside", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument("--whole", type=int, default=36_000_000, help="pairs to project to")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        words = repeat(options.text, place / "text", options.pairs)
        print(f"{options.pairs:,} pairs of {words:.1f} French words")
        timed("tokenise", "--text", options.inside, "--out", place / "inside", "--keep-all")
        rows = []
        for processes in options.processes:
            tokens, scores = place / f"tokens{processes}", place / f"scores{processes}"
            seconds = timed(
                "tokenise", "--text", place / "text", "--out", tokens, "--processes", processes
            )
            rows.append(("tokenise", processes, seconds))
            if not (place / "models").exists():
                timed(
                    *("score", "estimate", "--inside", place / "inside", "--pool", tokens),
                    *("--out", place / "models", "--order", options.order),
                )
            seconds = timed(
                *("score", "score", "--models", place / "models", "--text", tokens),
                *("--out", scores, "--processes", processes),
            )
            rows.append(("score", processes, seconds))
    times = options.whole / options.pairs / 3600
    for what, processes, (seconds, cpu) in rows:
        print(
            f"{what}, {processes} processes: {options.pairs / seconds:,.0f} pairs/s,"
            f" {options.pairs / cpu:,.0f} per CPU second, both with starting;"
            f" {options.whole:,} pairs: {times * seconds:.1f} h here, {times * cpu:.1f} CPU hours"
        )


if __name__ == "__main__":
    main()
