"""The process of one checkout; see ``checkouts.py``, which starts it, and asks by empty lines.

PYTHONPATH=CHECKOUT:CHECKOUT/recipes/benchmark python -P worker.py WORK SIZE CANDIDATE CLOCK TURN
"""

import argparse
import sys
import time
from collections.abc import Callable

from sizes import SIZES, Size


def update(size: Size, candidate: str) -> Callable[[], object]:
    """Return what makes one update."""
    from training import Training

    training = Training(candidate, size)
    return lambda: training.run("update")


def search(size: Size, candidate: str, count: int) -> Callable[[], object]:
    """Return what translates so many sentences together."""
    from search import Search, sentences, task_of

    searched = Search(candidate if candidate == "bfloat16" else "rnnsearch", size, task_of(size))
    source = sentences(size, count)
    return lambda: searched.run(source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("work", "size", "candidate", "clock", "turn"):
        parser.add_argument(name)
    options = parser.parse_args()
    kind, _, count = options.work.partition("-")
    given, now = (SIZES[options.size], options.candidate), getattr(time, options.clock)
    work = update(*given) if kind == "update" else search(*given, int(count))
    for _ in range(3):
        work()
    print("ready", flush=True)
    for _ in sys.stdin:
        begun, start, times = time.perf_counter(), now(), 0
        while time.perf_counter() - begun < float(options.turn):
            work()
            times += 1
        print(f"seconds {(now() - start) / times}", flush=True)


if __name__ == "__main__":
    main()
