"""Measure how fast the model trains, beside its own limit and fairseq's lstm.

benchmark.sh starts this program. In one process these take turns: the reference kernels, the fast
ones in float32 and with --compute-dtype bfloat16, fairseq's own lstm, and the limit, which is the
time of the model's matrix products alone, grouped as in the fast kernels, and in updates also of
the memory that clipping and Adadelta go through. A table comes last; ``--json`` keeps all numbers.
"""

import argparse
import json
import logging
import sys

from machine import add_timing, clock_of, description
from measuring import PASSES, measure, table
from sizes import SIZES
from training import COMMANDS

from fairseq_rnnsearch.files import write_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=["paper", "multi30k"])
    parser.add_argument("--candidates", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=PASSES)
    add_timing(parser, rounds=7)
    parser.add_argument("--json", default="benchmark.json", help="file for all numbers")
    args = parser.parse_args()
    logging.disable(logging.INFO)
    clock = clock_of(parser, args)
    machine = description(args.threads, args.cpu_time)
    rows = []
    for label in args.sizes:
        for row in measure(label, SIZES[label], args.candidates, args.passes, args.rounds, clock):
            rows.append(row)
            print(table([row]).splitlines()[1], file=sys.stderr)
            write_text(args.json, json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    print(json.dumps(machine))
    print(table(rows))


if __name__ == "__main__":
    main()
