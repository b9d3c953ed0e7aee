"""What the benchmarks report about the machine, and the options for counting its time."""

import argparse
import contextlib
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch


def add_timing(parser: argparse.ArgumentParser, rounds: int) -> None:
    """Add the options that say how time is counted."""
    parser.add_argument(
        "--rounds", type=int, default=rounds, help=f"for each number (default: {rounds})"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="of the one thread instead of the clock: for a machine that does other work too",
    )


def clock_of(parser: argparse.ArgumentParser, args: argparse.Namespace) -> Callable[[], float]:
    """Return what counts seconds, and tell torch how many threads it has."""
    if args.cpu_time and args.threads != 1:
        parser.error(f"--cpu-time --threads {args.threads}: counts one thread, name --threads 1")
    torch.set_num_threads(args.threads)
    return time.thread_time if args.cpu_time else time.perf_counter


def description(threads: int, cpu_time: bool = False) -> dict:
    """Return what a reader of the numbers must know of the machine."""
    return {
        "processor": _processor(),
        "threads": threads,
        "torch": torch.__version__,
        "clock": "cpu" if cpu_time else "wall",
    }


def _processor() -> str:
    with contextlib.suppress(OSError):  # Linux alone has the file
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
