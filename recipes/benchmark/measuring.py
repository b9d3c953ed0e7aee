"""Candidates take turns, so that whatever else the machine does affects all of them equally."""

import statistics
from collections.abc import Callable, Iterable, Iterator

import torch
from limit import Limit
from sizes import Size
from training import COMMANDS, Training

PASSES = ("forward", "forward+backward", "update", "optimizer")
LIMITS = {"limit": torch.float32, "limit bfloat16": torch.bfloat16}


def limit_of(name: str) -> str:
    return "limit bfloat16" if name == "bfloat16" else "limit"


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
    candidates = {name: Training(name, size) for name in names}
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
                "of_limit": ratio(seconds[limit_of(name)], own),
            }
            for peer in ("fast", "lstm"):
                row[f"times_{peer}"] = ratio(seconds[peer], own) if peer in seconds else None
            yield row | {"parameters": parameters.get(name)}


def ratio(reference: list[float], own: list[float]) -> float:
    """Return how many times as fast as the others it is."""
    return statistics.median(r / o for r, o in zip(reference, own, strict=True))


def table(rows: list[dict]) -> str:
    spread = "median s (least, most)"
    lines = [
        f"{'size':24} {'pass':17} {'candidate':15} {spread:26} words/s  of limit  x fast  x lstm"
    ]
    for row in rows:
        spread = f"{row['seconds']:8.3f} ({row['least']:.3f}, {row['most']:.3f})"
        ratios = (row["of_limit"], row["times_fast"], row["times_lstm"])
        of_limit, *times = ("" if x is None else f"{x:.2f}" for x in ratios)
        lines.append(
            f"{row['size']:24} {row['pass']:17} {row['candidate']:15} {spread:26} "
            f"{row['words_per_second']:7.0f} {of_limit:>9} " + " ".join(f"{x:>7}" for x in times)
        )
    return "\n".join(lines)
