"""Predict updates a second on GPUs that nobody here has: arithmetic, and no measurement.

Everything rests on the numbers of ``Assumptions``. ``measure.sh ceilings`` measures them on a GPU;
``--ceilings`` takes those in their place.

    python recipes/gpu/predict.py [--ceilings runs/gpu/ceilings.json]
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_rnnsearch.paper.batch_order import paper_batches

M, N, ATTENTION, MAXOUT, WORDS = 620, 1000, 1000, 500, 30_000  # the paper's sizes
PAIRS, LENGTH = 80, 31  # sentences of an update, and their words with the end symbol
DTYPES = ("float32", "tf32", "bfloat16")


class Assumptions(NamedTuple):
    """What an H200 and the program that starts its work are taken to do."""

    large: tuple[float, ...] = (50e12, 300e12, 550e12)  # operations a second of large products
    small: tuple[float, ...] = (17e12, 100e12, 183e12)  # of products of 80 rows, as in a step
    bandwidth: float = 4.0e12  # bytes a second that copies reach
    eager: float = 9e-6  # seconds for Python, torch and autograd to launch one operation
    derived: float = 7e-6  # the same without autograd, inside of a derived pass
    triton: float = 12e-6  # the same of a Triton kernel
    recorded: float = 2.5e-6  # the shortest kernel of a recording, its launch included
    stage: float = 4e-6  # of a persistent kernel: all multiprocessors wait, and multiply once


# bytes a second that each GPU gets of an all-reduce, by GPUs: one, one machine, eight machines
ALL_REDUCE = {1: float("inf"), 8: 300e9, 64: 150e9}

# --- counted on the pretend device (tests/test_gpu.py), or from the code --------------------------

REFERENCE, UNFUSED = 4100, 2550  # launches of an update
A_POSITION = 4 + 4 + 7 + 8  # in the fused loops: encoder and decoder, forward and backward
AROUND = 160  # beside the loops: embeddings, output layer, clipping, Adadelta
STAGES = 2 + 4 + 2 + 4  # of a position in persistent kernels, in the order of A_POSITION
BUFFERS = 8 * 60e-6  # seconds to copy into four recordings' tensors, and out of them


class Work(NamedTuple):
    """What an update takes for a number of sentences."""

    loops: float  # operations inside the loops
    rest: float
    passes: float  # bytes through memory that depend on the batch
    parameters: int


def work(pairs: float, length: float, dtype: str = "bfloat16") -> Work:
    positions = pairs * length
    unit, context = 3 * N * N, 3 * N * 2 * N
    loops = 2 * unit + unit + context + ATTENTION * N
    rest = 2 * 3 * N * M + 3 * N * M + ATTENTION * 2 * N + 2 * MAXOUT * (N + M + 2 * N)
    rest += WORDS * MAXOUT
    # weights' gradients of the loops are products after them; the output layer's come at once
    inside, after = 2 * loops, loops + 3 * rest
    parameters = 2 * WORDS * M + WORDS * (MAXOUT + 1) + 2 * (3 * N * M + unit) + 3 * N * M + unit
    parameters += context + ATTENTION * 3 * N + N * N + 2 * MAXOUT * (N + M + 2 * N)
    attention = 2.5 * positions * length * ATTENTION * 4  # keys, and their gradients twice
    contexts = 2 * positions * length * 2 * N * 4
    recordings = positions * 4 * (6 * 9 * N + 4 * 4 * N + 4 * ATTENTION)  # copied in and out
    logits = 3 * positions * WORDS * (2 if dtype == "bfloat16" else 4)  # kernels.gpu.fused_cost
    passes = attention + contexts + recordings + logits
    return Work(2 * inside * positions, 2 * after * positions, passes, parameters)


def device_seconds(
    of: Assumptions, dtype: str, pairs: float, length: float = LENGTH, persistent: bool = False
) -> float:
    """Return the seconds of a GPU that never waits for the program.

    Args:
        persistent: each loop is one kernel that keeps the weights where they are multiplied.
    """
    loops, rest, passes, parameters = work(pairs, length, dtype)
    large, small = (rates[DTYPES.index(dtype)] for rates in (of.large, of.small))
    # products of few rows read their weights at each step, and take no less than that
    width = 2 if dtype == "bfloat16" else 4
    weights = 2 * length * (3 * 3 * N * N + 3 * N * 2 * N + ATTENTION * N) * width
    in_loops = max(loops / small, weights / of.bandwidth / 2) + length * A_POSITION * of.recorded
    if persistent:
        in_loops = length * STAGES * of.stage
    optimizer = parameters * 4 * (7 + 3) / of.bandwidth
    return in_loops + rest / large + passes / of.bandwidth + optimizer + AROUND * of.recorded


def steps(of: Assumptions, whose: str) -> None:
    """Print updates a second after each step that was taken to make them faster."""
    print(f"PREDICTED, not measured: updates/s at 80 pairs of 30 words, the paper's sizes, {whose}")
    print(f"{'step':58} {'float32':>8} {'tf32':>7} {'bfloat16':>8}")
    fused = LENGTH * A_POSITION * (of.triton + of.derived) / 2
    launching = {
        "reference kernels, nothing waits": REFERENCE * of.eager,
        "derived passes, both directions in one product": UNFUSED * of.derived,
        "... with Triton's steps and Adadelta": fused + AROUND * of.eager,
        "... with recorded loops": AROUND * of.eager + BUFFERS,
    }
    for step, seconds in launching.items():
        rates = [1 / max(seconds, device_seconds(of, dtype, PAIRS)) for dtype in DTYPES]
        print(f"{step:58} {' '.join(f'{rate:7.0f}' for rate in rates)}")
    step = "... with a persistent kernel for each loop (not written)"
    best = 1 / device_seconds(of, "bfloat16", PAIRS, persistent=True)
    print(f"{step:58} {'-':>7} {'-':>7} {best:7.0f}")


# --- several GPUs ---------------------------------------------------------------------------------


def words_of_pairs(count: int) -> np.ndarray:
    """Draw lengths of up to 50 words, 19 in the mean."""
    draw = np.random.default_rng(0).exponential(22, count).astype(int)
    return np.minimum(50, 1 + draw)


def shared(of: Assumptions, pairs: int, gpus: int) -> tuple[float, float]:
    """Return the seconds of an update in the paper's order, and the share that GPUs wait in it.

    fairseq gives batch i of the order to GPU i mod their number, and an update ends with the last.
    """
    each = max(1, pairs // gpus)
    words = words_of_pairs(40 * 20 * max(pairs, each * gpus))  # 40 groups of 20 updates
    batches = paper_batches(words, words, each, seed=1)
    lengths = np.array([words[batch].max() + 1 for batch in batches])
    lengths = lengths[: len(lengths) // gpus * gpus].reshape(-1, gpus)
    seconds = {int(n): device_seconds(of, "bfloat16", each, int(n)) for n in np.unique(lengths)}
    of_gpus = np.vectorize(seconds.get)(lengths)
    longest = np.maximum(of_gpus.max(axis=1), AROUND * of.eager + BUFFERS)
    exchanged = 2 * (gpus - 1) / gpus * work(1, 1).parameters * 4 / ALL_REDUCE[gpus]
    return longest.mean() + exchanged, 1 - of_gpus.mean() / longest.mean()


def scale(of: Assumptions, whose: str) -> None:
    """Print updates a second of several GPUs, at the lengths that the paper's order gives them."""
    print(f"\nPREDICTED, not measured: bfloat16, up to 50 words, the paper's order, {whose}")
    print("pairs of an update  GPUs  --batch-size  updates/s   pairs/s  GPUs wait  of ideal")
    for pairs in (80, 640, 5120):
        alone = pairs / shared(of, pairs, 1)[0]
        for gpus in ALL_REDUCE:
            each = max(1, pairs // gpus)
            seconds, waiting = shared(of, pairs, gpus)
            found = each * gpus / seconds
            print(
                f"{each * gpus:18} {gpus:5} {each:13} {1 / seconds:10.0f} {found:9.0f}"
                f" {waiting:10.0%} {found / gpus / alone:9.0%}"
            )


# --- what was measured ----------------------------------------------------------------------------


def measured(path: Path) -> tuple[Assumptions, str]:
    """Return the ceilings of a GPU in the place of those that are assumed, and the GPU's name."""
    result = json.loads(path.read_text(encoding="utf-8"))
    found, assumed = result["found"], Assumptions()

    def rates(kind: str, otherwise: tuple[float, ...]) -> tuple[float, ...]:
        names = [f"{kind}, {dtype}, TFLOP/s" for dtype in DTYPES]
        pairs = zip(names, otherwise, strict=True)
        return tuple(1e12 * found[name] if name in found else rate for name, rate in pairs)

    def seconds(name: str, otherwise: float) -> float:
        return found[name] / 1e6 if name in found else otherwise

    of = Assumptions(
        rates("large products", assumed.large),
        rates("products of a step", assumed.small),
        1e9 * found["copies, GB/s"] if "copies, GB/s" in found else assumed.bandwidth,
        seconds("a launch with autograd, µs", assumed.eager),
        seconds("a launch by torch, µs", assumed.derived),
        seconds("a launch by Triton, µs", assumed.triton),
        seconds("a launch of a recording, µs", assumed.recorded),
    )
    return of, f"from the ceilings of {result['machine']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ceilings", type=Path, help="what measure.sh has left in OUT")
    options = parser.parse_args()
    of, whose = measured(options.ceilings) if options.ceilings else (Assumptions(), "an H200")
    steps(of, whose)
    scale(of, whose)


if __name__ == "__main__":
    main()
