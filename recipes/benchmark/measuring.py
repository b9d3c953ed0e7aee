"""Candidates take turns, so that whatever else the machine does affects all of them equally."""

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from joey import Joey
from limit import Limit
from sizes import SIZES, Size
from training import COMMANDS, Training

PASSES = ("forward", "forward+backward", "update", "optimizer")
CANDIDATES = (*COMMANDS, "joey")
LIMITS = {"limit": torch.float32, "limit bfloat16": torch.bfloat16}


def build(name: str, size: Size) -> Training | Joey:
    return Joey(size) if name == "joey" else Training(name, size)


def limit_of(name: str) -> str:
    return "limit bfloat16" if name == "bfloat16" else "limit"


def available(names: Iterable[str]) -> list[str]:
    """Return the candidates, without Joey NMT where it cannot be imported."""
    names = list(names)
    if "joey" in names:
        try:
            Joey(SIZES["tiny"])
        except ImportError as error:
            print(f"Joey NMT is left out: {error}", file=sys.stderr)
            names.remove("joey")
    return names


def times_in_turns(candidates: dict, what: str, rounds: int, clock: Callable) -> dict:
    """Return the seconds of each round by candidate, after one round that is not counted."""
    seconds = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, candidate in candidates.items():
            start = clock()
            candidate.run(what)
            if number:
                seconds[name].append(clock() - start)
    return seconds


def measure(
    label: str, size: Size, names: list[str], passes: Iterable[str], rounds: int, clock: Callable
) -> Iterator[dict]:
    """Yield a row for each pass and candidate; a ratio is the median of those within a round."""
    candidates = {name: build(name, size) for name in names}
    parameters = {name: candidate.parameters for name, candidate in candidates.items()}
    ours = next((parameters[name] for name in names if name in COMMANDS and name != "lstm"), 0)
    for name in dict.fromkeys(map(limit_of, names)):
        candidates[name] = Limit(size, LIMITS[name], ours)
    for what in passes:
        seconds = times_in_turns(candidates, what, rounds, clock)
        for name, own in seconds.items():
            row = {
                "size": label,
                "pass": what,
                "candidate": name,
                "seconds": statistics.median(own),
                "least": min(own),
                "most": max(own),
                "all_seconds": own,
                "words_per_second": size.batch * size.target / statistics.median(own),
                "of_limit": _ratio(seconds[limit_of(name)], own),
            }
            for peer in ("fast", "lstm", "joey"):
                row[f"times_{peer}"] = _ratio(seconds[peer], own) if peer in seconds else None
            yield row | {"parameters": parameters.get(name)}


def _ratio(reference: list[float], own: list[float]) -> float:
    """Return how many times as fast as the others it is."""
    return statistics.median(r / o for r, o in zip(reference, own, strict=True))


def peak_memory(size: str, name: str, threads: int) -> float:
    """Return the GB that a process takes for two updates, Python and its libraries included."""
    main = str(Path(__file__).with_name("main.py"))
    command = [sys.executable, main, "--threads", str(threads), "--peak", size, name]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def report_peak(size: str, name: str) -> None:
    """Print what `peak_memory` asks a process of its own."""
    training = build(name, SIZES[size])
    for _ in range(2):
        training.run("update")
    # getrusage would begin with what the parent process held.
    status = Path("/proc/self/status").read_text()
    print(int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e9)


def table(rows: list[dict]) -> str:
    spread = "median s (least, most)"
    lines = [
        f"{'size':24} {'pass':17} {'candidate':15} {spread:26} "
        "words/s  of limit  x fast  x lstm  x joey  peak GB"
    ]
    for row in rows:
        spread = f"{row['seconds']:8.3f} ({row['least']:.3f}, {row['most']:.3f})"
        ratios = (row["of_limit"], row["times_fast"], row["times_lstm"], row["times_joey"])
        of_limit, *times = ("" if x is None else f"{x:.2f}" for x in ratios)
        peak = f"{row['peak_gb']:.2f}" if row.get("peak_gb") else ""
        lines.append(
            f"{row['size']:24} {row['pass']:17} {row['candidate']:15} {spread:26} "
            f"{row['words_per_second']:7.0f} {of_limit:>9} "
            + " ".join(f"{x:>7}" for x in times)
            + f" {peak:>8}"
        )
    return "\n".join(lines)
