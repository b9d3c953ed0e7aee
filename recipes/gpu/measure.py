"""The parts of ``measure.sh``. Each leaves a JSON file, which is whole after each measurement."""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch

from fairseq_rnnsearch.files import write_text

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "recipes/benchmark"), str(ROOT / "tests")]
import correctness  # noqa: E402
import speed  # noqa: E402
from device import Device, Measured  # noqa: E402

PARTS = {
    "correctness": correctness.correctness,
    "waits": speed.waits,
    "profile": speed.profile,
    "search": speed.search,
    "memory": speed.memory,
}


def measure(part: str, device: Device) -> bool:
    """Make the missing measurements of a part, and return whether all have results now.

    It names those that fail and continues with the others.
    """
    path, here = device.out / f"{part}.json", {"machine": str(device), "torch": torch.__version__}
    result = {"part": part, **here, "seconds": 0.0, "found": {}, "failed": {}}
    if path.exists():
        result = json.loads(path.read_text(encoding="utf-8"))
        if {key: result[key] for key in here} != here:
            raise SystemExit(f"error: {path} is from another machine or torch: choose another OUT")
    result["failed"] = {}
    for name, function in PARTS[part](device).items():
        if name in result["found"]:
            continue
        print(f"measuring {part}: {name}", file=sys.stderr, flush=True)
        start = time.perf_counter()
        try:
            result["found"][name] = function()
        except Exception as problem:
            traceback.print_exc()
            result["failed"][name] = f"{type(problem).__name__}: {problem}"
        result["seconds"] += time.perf_counter() - start
        write_text(str(path), json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return not result["failed"]


def table(out: Path) -> str:
    """Return all results as text."""
    lines = []
    for part in PARTS:
        if not (path := out / f"{part}.json").exists():
            continue
        result = json.loads(path.read_text(encoding="utf-8"))
        lines.append(f"\n{part} ({result['machine']}, torch {result['torch']})")
        for name, measured in result["found"].items():
            for title, value, bound, where in _rows(name, measured):
                line = f"  {title[:76]:76} {value:12.5g}"
                if bound is not None:
                    line += f"{' ' if value <= bound else ' ABOVE'} {bound:g} {where}"
                lines.append(line)
        lines += [f"  {name}: FAILED, {why[:200]}" for name, why in result["failed"].items()]
    return "\n".join(lines) or "nothing has been measured yet"


def _rows(title: str, measured: Measured) -> Iterator[tuple[str, float, float | None, str]]:
    """Yield of each number its title, its bound or None, and where it was found."""
    if not isinstance(measured, dict):
        yield title, measured, None, ""
    elif "bound" in measured:
        yield title, measured["value"], measured["bound"], measured["where"]
    else:
        for name, inner in measured.items():
            yield from _rows(f"{title}: {name}", inner)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=[*PARTS, "table"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    if options.part == "table":
        print(table(options.out))
        return 0
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch finds no GPU here (DEVICE=cpu tries the program at tiny sizes)")
    return not measure(options.part, Device(options.device, options.out.resolve()))


if __name__ == "__main__":
    sys.exit(main())
