"""How fast the model is, beside its own matrix products alone. Started by benchmark.sh.

In one process, in turns, so that whatever else the machine does meets all of them alike: the
reference kernels, the fast ones, and the limit, which is the time of the model's matrix products
in the grouping of the fast kernels and nothing else. A table comes last; ``--json`` keeps all.
"""

import argparse
import contextlib
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
from fairseq.data import Dictionary

from fairseq_rnnsearch.criterions import AlignmentHeatmapCriterion
from fairseq_rnnsearch.files import write_text
from fairseq_rnnsearch.models import RNNSearchConfig, RNNSearchModel
from fairseq_rnnsearch.optim import RNNSearchAdadelta, RNNSearchAdadeltaConfig


class Size(NamedTuple):
    """Of a model and a batch, in the paper's letters."""

    m: int
    n: int
    attention: int
    l: int
    symbols: int
    words: int  # in every source and target sentence, with its end symbol
    batch: int = 80


SIZES = {
    "paper": Size(620, 1000, 1000, 500, 30_000, 30),
    "multi30k": Size(256, 256, 256, 256, 8_000, 14),
}
PASSES = ("forward", "forward+backward", "update")
KERNELS = ("reference", "fast")


# --- what is measured ----------------------------------------------------------------------------


class Training:
    """The cost of one batch, its gradient, an update: model, criterion and optimizer."""

    def __init__(self, size: Size, kernels: str) -> None:
        torch.manual_seed(0)
        words = Dictionary()
        for i in range(size.symbols - len(words)):
            words.add_symbol(f"w{i}")
        self.task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
        config = RNNSearchConfig(
            encoder_embed_dim=size.m,
            encoder_hidden_size=size.n,
            decoder_embed_dim=size.m,
            decoder_hidden_size=size.n,
            attention_size=size.attention,
            maxout_size=size.l,
            kernels=kernels,
        )
        self.model = RNNSearchModel.build_model(config, self.task)
        self.criterion = AlignmentHeatmapCriterion(self.task, "sum", 0.0)
        parameters = list(self.model.parameters())
        self.optimizer = RNNSearchAdadelta(RNNSearchAdadeltaConfig(lr=[1.0]), parameters)
        self.sample = _sample(size, words)

    def run(self, what: str) -> None:
        self.model.zero_grad()
        with torch.set_grad_enabled(what != "forward"):
            cost, _, _ = self.criterion(self.model, self.sample)
        if what != "forward":
            cost.backward()
        if what == "update":
            self.optimizer.clip_grad_norm(1.0)
            self.optimizer.step()


def _sample(size: Size, words: Dictionary) -> dict:
    shape = size.batch, size.words
    source, target = (torch.randint(words.nspecial, size.symbols, shape) for _ in range(2))
    source[:, -1] = target[:, -1] = words.eos()
    return {
        "id": torch.arange(size.batch),
        "ntokens": target.numel(),
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((size.batch,), size.words),
            "prev_output_tokens": target.roll(1, dims=1),
        },
        "target": target,
    }


class Product(NamedTuple):
    """``batch`` products of (rows x inner) and (inner x columns), ``steps`` times in a row.

    Backwards, the gradient of the right factor is one product over all steps.
    """

    steps: int
    rows: int
    inner: int
    columns: int
    batch: int = 1
    right: str = "weights"  # or "annotations", which differ from row to row


def products(size: Size) -> list[Product]:
    """All that a forward pass multiplies, as the fast kernels group it."""
    m, n, a, l, K, T, B = size
    return [
        Product(2, T * B, m, 3 * n),  # words into both encoder directions
        Product(T, B, n, 2 * n, batch=2),  # U_z, U_r of both, in step
        Product(T, B, n, n, batch=2),  # U
        Product(1, B, n, n),  # W_s
        Product(1, T * B, 2 * n, a),  # U_a
        Product(1, (T - 1) * B, m, 3 * n),  # words into the decoder
        Product(T, B, n, 2 * n + a),  # U_z, U_r, W_a
        Product(T, 1, T, 2 * n, batch=B, right="annotations"),  # contexts
        Product(T - 1, B, 2 * n, 3 * n),  # C
        Product(T - 1, B, n, n),  # U
        Product(1, T * B, n + m, 2 * l),  # U_o, V_o
        Product(1, T * B, 2 * n, 2 * l),  # C_o
        Product(1, T * B, l, K),  # W_o
    ]


def limit(product: Product) -> tuple[Callable[[], None], Callable[[], None]]:
    """The product forwards and backwards, on buffers that exist already."""
    p = product
    x = torch.randn(p.batch, p.rows, p.inner)
    w = torch.randn(p.batch, p.inner, p.columns)
    if p.right == "weights":
        w = w.mT.contiguous().mT  # stored as (out, in)
    y, dx = torch.empty(p.batch, p.rows, p.columns), torch.empty_like(x)
    all_x = torch.randn(p.batch, p.steps * p.rows, p.inner)
    all_y = torch.randn(p.batch, p.steps * p.rows, p.columns)
    dw = torch.empty(p.batch, p.columns, p.inner)

    def forward() -> None:
        for _ in range(p.steps):
            torch.bmm(x, w, out=y)

    def backward() -> None:
        for _ in range(p.steps):
            torch.bmm(y, w.mT, out=dx)
        torch.bmm(all_y.mT, all_x, out=dw)

    return forward, backward


class Limit:
    """All products of a size."""

    def __init__(self, size: Size) -> None:
        self.passes = [limit(product) for product in products(size)]

    def run(self, what: str) -> None:
        for forward, backward in self.passes:
            forward()
            if what != "forward":
                backward()


# --- measuring -----------------------------------------------------------------------------------


def times_in_turns(candidates: dict, what: str, rounds: int, clock: Callable) -> dict:
    """Seconds of each round, for each candidate, after one round that is not counted."""
    seconds = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, candidate in candidates.items():
            start = clock()
            candidate.run(what)
            if number:
                seconds[name].append(clock() - start)
    return seconds


def peak_memory(size: str, kernels: str) -> float:
    """GB that a process takes for two updates, Python and its libraries included."""
    command = [sys.executable, __file__, "--peak", size, kernels]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def report_peak(size: str, kernels: str) -> None:
    training = Training(SIZES[size], kernels)
    for _ in range(2):
        training.run("update")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)  # kB on Linux


def measure(name: str, rounds: int, clock: Callable) -> list[dict]:
    """One row for each pass and candidate."""
    size = SIZES[name]
    peak = {kernels: peak_memory(name, kernels) for kernels in KERNELS}
    candidates = {kernels: Training(size, kernels) for kernels in KERNELS} | {"limit": Limit(size)}
    rows = []
    for what in PASSES:
        seconds = times_in_turns(candidates, what, rounds, clock)
        for candidate, own in seconds.items():
            pairs = zip(seconds["limit"], own, strict=True)
            rows.append(
                {
                    "size": name,
                    "pass": what,
                    "candidate": candidate,
                    "seconds": statistics.median(own),
                    "least": min(own),
                    "most": max(own),
                    "words_per_second": size.batch * size.words / statistics.median(own),
                    "of_limit": statistics.median(limit / this for limit, this in pairs),
                    "peak_gb": peak.get(candidate),
                }
            )
    return rows


def table(rows: list[dict]) -> str:
    """The rows as text; a ratio is the median over rounds of the ratio within a round."""
    spread = "median s (least, most)"
    lines = [f"{'size':9} {'pass':17} {'kernels':10} {spread:26} words/s  of limit  peak GB"]
    for row in rows:
        spread = f"{row['seconds']:8.3f} ({row['least']:.3f}, {row['most']:.3f})"
        peak = "" if row["peak_gb"] is None else f"{row['peak_gb']:.2f}"
        lines.append(
            f"{row['size']:9} {row['pass']:17} {row['candidate']:10} {spread:26} "
            f"{row['words_per_second']:7.0f} {row['of_limit']:9.2f} {peak:>8}"
        )
    return "\n".join(lines)


def _processor() -> str:
    with contextlib.suppress(OSError):  # Linux alone has the file
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=7, help="for each number (default: 7)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="of the one thread instead of the clock: for a machine that does other work too",
    )
    parser.add_argument("--json", default="benchmark.json", help="file for all numbers")
    parser.add_argument("--peak", nargs=2, metavar=("SIZE", "KERNELS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        report_peak(*args.peak)
        return
    if args.cpu_time and args.threads != 1:
        parser.error(f"--cpu-time --threads {args.threads}: counts one thread, name --threads 1")
    torch.set_num_threads(args.threads)
    clock = time.thread_time if args.cpu_time else time.perf_counter
    rows = [row for name in args.sizes for row in measure(name, args.rounds, clock)]
    machine = {
        "processor": _processor(),
        "threads": args.threads,
        "torch": torch.__version__,
        "clock": "cpu" if args.cpu_time else "wall",
    }
    write_text(args.json, json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    print(json.dumps(machine))
    print(table(rows))


if __name__ == "__main__":
    main()
