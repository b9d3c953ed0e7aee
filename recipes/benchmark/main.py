"""Measure how fast the model trains, beside its own limit and other programs.

benchmark.sh starts this program. In one process these take turns: the reference kernels, the fast
ones in float32 and with --compute-dtype bfloat16, fairseq's own lstm, Joey NMT's GRU, and the
limit, which is the time of the model's matrix products alone, grouped as in the fast kernels, and
in updates also of the memory that clipping and Adadelta go through. A table comes last; ``--json``
keeps all numbers.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator

from machine import add_timing, clock_of, description
from measuring import CANDIDATES, PASSES, available, measure, peak_memory, report_peak, table
from sizes import SIZES

from fairseq_rnnsearch.files import write_text

# One axis grows at a time; the others are as in the size itself.
GROWTH = {"source": (10, 25, 50, 100, 200), "batch": (1, 10, 40, 160, 640)}


def of_sizes(args: argparse.Namespace, names: list[str], clock: Callable) -> Iterator[dict]:
    """Measure the sizes, each in all passes."""
    for label in args.sizes:
        peak = {name: peak_memory(label, name, args.threads) for name in names}
        for row in measure(label, SIZES[label], names, args.passes, args.rounds, clock):
            yield row | {"peak_gb": peak.get(row["candidate"])}


def of_growth(args: argparse.Namespace, names: list[str], clock: Callable) -> Iterator[dict]:
    """Measure updates with longer sources and larger batches."""
    names = [name for name in names if name != "reference"]
    for label in args.growth:
        for axis, values in GROWTH.items():
            for value in values:
                size = SIZES[label]._replace(**{axis: value})
                yield from measure(
                    f"{label} {axis} {value}", size, names, ["update"], args.rounds, clock
                )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=["paper", "multi30k"])
    parser.add_argument(
        "--growth",
        nargs="*",
        choices=SIZES,
        default=["multi30k"],
        help="sizes whose updates are also timed with longer sources and larger batches",
    )
    parser.add_argument("--candidates", nargs="+", choices=CANDIDATES, default=CANDIDATES)
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=PASSES)
    add_timing(parser, rounds=7)
    parser.add_argument("--json", default="benchmark.json", help="file for all numbers")
    parser.add_argument("--peak", nargs=2, metavar=("SIZE", "CANDIDATE"), help=argparse.SUPPRESS)
    return parser


def main() -> None:
    parser = _parser()
    args = parser.parse_args()
    logging.disable(logging.INFO)
    clock = clock_of(parser, args)
    if args.peak:
        report_peak(*args.peak)
        return
    machine = description(args.threads, args.cpu_time)
    names = available(args.candidates)
    rows = []
    for kind in (of_sizes, of_growth):
        for row in kind(args, names, clock):
            rows.append(row)
            print(table([row]).splitlines()[1], file=sys.stderr)
            write_text(args.json, json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    print(json.dumps(machine))
    print(table(rows))


if __name__ == "__main__":
    main()
