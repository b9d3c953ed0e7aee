"""Whether a change has cost speed: updates and searches of two checkouts, in turns.

    git worktree add ../before OLD_COMMIT
    python recipes/benchmark/checkouts.py --old ../before --sizes paper multi30k --pairs 15

Each checkout runs in a process of its own, which works for some seconds when it is asked to. The
two take turns in changing order, so that whatever else the machine does affects both equally.
``--clock cpu`` counts the processor time of all threads, which others disturb less.
"""

import argparse
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
RESAMPLES = 10_000
TURN = 4  # seconds
CLOCKS = {"wall": "perf_counter", "cpu": "process_time"}
WORK = ("update", "search-1", "search-40")


class Checkout:
    """A process that makes updates, or searches, with the code of one checkout."""

    def __init__(self, folder: Path, work: str, size: str, candidate: str, clock: str) -> None:
        # with -P, the modules beside the worker do not precede those of the checkout
        command = [sys.executable, "-P", HERE / "worker.py", work, size, candidate, CLOCKS[clock]]
        paths = (folder, folder / "recipes" / "benchmark")
        self._process = subprocess.Popen(
            [*command, str(TURN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        )
        self._read("ready")

    def seconds(self) -> float:
        """Return the mean time of one update, or one search, in a turn."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._read("seconds").split()[1])

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()

    def _read(self, first: str) -> str:
        for line in self._process.stdout:  # fairseq may print other lines
            if line.startswith(first):
                return line
        raise SystemExit("a checkout's process has ended; its error is above")


def interval(ratios: np.ndarray) -> tuple[float, float]:
    """Return the 95% bootstrap interval of the geometric mean."""
    draw = np.random.default_rng(0).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.quantile(np.log(ratios)[draw].mean(axis=1), (0.025, 0.975))
    return float(np.exp(low)), float(np.exp(high))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--old", type=Path, required=True, help="the checkout from before")
    parser.add_argument("--new", type=Path, default=HERE.parents[1], help="default: this one")
    parser.add_argument("--sizes", nargs="+", default=["paper", "multi30k"])
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK, help="default: all")
    parser.add_argument(
        "--candidates", nargs="+", choices=("fast", "bfloat16"), default=["fast"], help="kernels"
    )
    parser.add_argument("--pairs", type=int, default=15, help="default: %(default)s")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="default: %(default)s")
    options = parser.parse_args()
    for work, candidate, size in product(options.work, options.candidates, options.sizes):
        both = [
            Checkout(folder.resolve(), work, size, candidate, options.clock)
            for folder in (options.old, options.new)
        ]
        seconds = np.empty((options.pairs, 2))
        for pair in range(options.pairs):
            for which in (0, 1) if pair % 2 else (1, 0):
                seconds[pair, which] = both[which].seconds()
        for checkout in both:
            checkout.close()
        low, high = interval(seconds[:, 0] / seconds[:, 1])
        old, new = np.median(seconds, axis=0)
        ratio = np.exp(np.log(seconds[:, 0] / seconds[:, 1]).mean())
        print(
            f"{work}, {size}, {candidate}: old {old:.4f} s, new {new:.4f} s (medians of "
            f"{options.pairs}); old / new {ratio:.3f}, 95% interval {low:.3f} to {high:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
