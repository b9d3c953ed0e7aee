"""Predict updates a second on a GPU that nobody here has: arithmetic, and no measurement.

Everything rests on the numbers below. ``measure.sh ceilings`` measures those of a GPU in the same
run as the updates, and whoever has done so should put them here and predict again.

    python recipes/gpu/predict.py
"""

import argparse
from typing import NamedTuple

M, N, ATTENTION, MAXOUT, WORDS = 620, 1000, 1000, 500, 30_000  # the paper's sizes
PAIRS, LENGTH = 80, 31  # sentences of an update, and their words with the end symbol

# --- assumptions about an H200 and what starts its work ------------------------------------------

PRODUCTS = {"float32": 50e12, "tf32": 300e12, "bfloat16": 550e12}  # operations a second, large
BANDWIDTH = 4.0e12  # bytes a second that copies reach
EAGER = 9e-6  # seconds for Python, torch and autograd to launch one operation
DERIVED = 7e-6  # the same without autograd, inside of a derived pass
TRITON = 12e-6  # the same of a Triton kernel
RECORDED = 2.5e-6  # the shortest kernel of a recording, its launch included
# bytes a second that each GPU gets of an all-reduce, by GPUs: one, one machine, eight machines
ALL_REDUCE = {1: float("inf"), 8: 300e9, 64: 150e9}

# --- counted on the pretend device (tests/test_gpu.py), or from the code --------------------------

REFERENCE, UNFUSED = 4100, 2550  # launches of an update
LOOPS = 31 * (4 + 4 + 7 + 8)  # of the four fused loops: encoder and decoder, forward and backward
AROUND = 190  # beside the loops: embeddings, output layer, clipping, Adadelta


class Work(NamedTuple):
    """What an update takes for a number of sentences of ``LENGTH`` words."""

    loops: float  # multiplications and additions inside the loops
    rest: float
    passes: float  # bytes through memory that depend on the batch
    parameters: int


def work(pairs: float) -> Work:
    positions = pairs * LENGTH
    unit, context = 3 * N * N, 3 * N * 2 * N
    loops = 2 * unit + unit + context + ATTENTION * N
    rest = 2 * 3 * N * M + 3 * N * M + ATTENTION * 2 * N + 2 * MAXOUT * (N + M + 2 * N)
    rest += WORDS * MAXOUT
    # weights' gradients of the loops are products after them; the output layer's come at once
    inside, after = 2 * loops, loops + 3 * rest
    parameters = 2 * WORDS * M + WORDS * (MAXOUT + 1) + 2 * (3 * N * M + unit) + 3 * N * M + unit
    parameters += context + ATTENTION * 3 * N + N * N + 2 * MAXOUT * (N + M + 2 * N)
    attention = 2.5 * positions * LENGTH * ATTENTION * 4  # keys, and their gradients twice
    contexts = 2 * positions * LENGTH * 2 * N * 4
    recordings = positions * 4 * (6 * 9 * N + 4 * 4 * N + 4 * ATTENTION)  # copied in and out
    logits = 6 * positions * WORDS * 4
    passes = attention + contexts + recordings + logits
    return Work(2 * inside * positions, 2 * after * positions, passes, parameters)


def device_seconds(pairs: float, dtype: str) -> float:
    """Return the seconds of a GPU that never waits for the program."""
    loops, rest, passes, parameters = work(pairs)
    # in the loops the products are 80 rows high: weights must be read at each step as well
    rate = PRODUCTS[dtype]
    width = 2 if dtype == "bfloat16" else 4
    weights = 2 * LENGTH * (3 * 3 * N * N + 3 * N * 2 * N + ATTENTION * N) * width
    in_loops = max(loops / (rate / 3), weights / BANDWIDTH / 2) + LOOPS * RECORDED
    optimizer = parameters * 4 * (7 + 3) / BANDWIDTH
    return in_loops + rest / rate + passes / BANDWIDTH + optimizer + AROUND * RECORDED


def updates(seconds: float) -> str:
    return f"{1 / seconds:7.0f}"


def steps() -> None:
    print("PREDICTED, not measured: updates/s at 80 pairs of 30 words, the paper's sizes, an H200")
    print(f"{'step':58} {'float32':>8} {'tf32':>7} {'bfloat16':>8}")
    launching = {
        "reference kernels, nothing waits": REFERENCE * EAGER,
        "derived passes, both directions in one product": UNFUSED * DERIVED,
        "... with Triton's steps and Adadelta": LOOPS * (TRITON + DERIVED) / 2 + AROUND * EAGER,
        "... with recorded loops": AROUND * EAGER + 8 * 60e-6,
    }
    for step, seconds in launching.items():
        rates = [updates(max(seconds, device_seconds(PAIRS, dtype))) for dtype in PRODUCTS]
        print(f"{step:58} {' '.join(rates)}")


def scale() -> None:
    print("\nPREDICTED, not measured: bfloat16 on several GPUs, --batch-size a share of the batch")
    print(
        f"{'pairs of an update':>18} {'GPUs':>5} {'updates/s':>10} {'pairs/s':>9} {'of ideal':>9}"
    )
    for pairs in (80, 640, 5120):
        alone = pairs / device_seconds(pairs, "bfloat16")
        for gpus, bandwidth in ALL_REDUCE.items():
            own = device_seconds(pairs / gpus, "bfloat16")
            gradients = 2 * (gpus - 1) / gpus * work(1).parameters * 4 / bandwidth
            seconds = own + gradients
            of_ideal = pairs / seconds / gpus / alone
            print(f"{pairs:18} {gpus:5} {1 / seconds:10.0f} {pairs / seconds:9.0f} {of_ideal:9.0%}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    steps()
    scale()
