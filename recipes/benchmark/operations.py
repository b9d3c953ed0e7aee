"""Show where the time of a forward and backward pass goes, by what torch does in it.

    python recipes/benchmark/operations.py --threads 2 --sizes multi30k paper

One pass runs under torch's profiler, which itself takes a few hundredths of the time; the share of
each kind of operation is a share of what was recorded.
"""

import argparse
import logging
from collections import Counter

import torch
from sizes import SIZES
from torch.profiler import ProfilerActivity, profile
from training import COMMANDS, Training

KINDS = {
    "matrix products": ("mm", "addmm", "addmm_", "bmm", "baddbmm_", "addmv", "addmv_",
                        "_linear_pointwise"),
    "arranging matrices": ("_reorder_linear_weight",),
    "squashing, softmax and the like": (
        "sigmoid", "sigmoid_", "sigmoid_backward", "tanh", "tanh_backward", "_softmax",
        "_softmax_backward_data", "exp", "log", "lerp", "add", "add_", "sub", "sub_", "mul", "mul_",
        "addcmul_", "sum", "amax", "gather", "scatter_add_", "embedding_dense_backward",
    ),
    "copies, zeros and types": ("copy_", "fill_", "zero_", "cat", "index_select", "clone"),
}  # fmt: skip
REST = "Python, torch's own work at each call, and the rest"


def kind(operation: str) -> str:
    name = operation.rpartition(":")[-1]
    return next((label for label, names in KINDS.items() if name in names), REST)


def shares(training: Training, what: str) -> tuple[Counter, Counter]:
    """Return the milliseconds and the calls of each kind."""
    training.run(what)
    training.run(what)
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        training.run(what)
    times, calls = Counter(), Counter()
    for event in recorded.key_averages():
        times[kind(event.key)] += event.self_cpu_time_total / 1e3
        calls[kind(event.key)] += event.count
    return times, calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["multi30k"])
    parser.add_argument("--candidates", nargs="+", choices=COMMANDS, default=["fast", "bfloat16"])
    parser.add_argument("--pass", dest="what", default="forward+backward")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.disable(logging.INFO)
    print(f"{'size':9} {'candidate':10} {'milliseconds':>12} {'share':>6} {'calls':>6}")
    for size in options.sizes:
        for name in options.candidates:
            times, calls = shares(Training(name, SIZES[size]), options.what)
            for label in (*KINDS, REST):
                share = times[label] / times.total()
                print(
                    f"{size:9} {name:10} {times[label]:12.1f} {share:6.1%} {calls[label]:6} {label}"
                )


if __name__ == "__main__":
    main()
