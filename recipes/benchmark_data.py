"""How many batches a second the data path feeds: epochs of a binarised corpus, without a model.

Random sentence pairs are written as fairseq-preprocess writes them; then epochs of the task's own
iterator are timed, in the paper's batch order, with each number of workers in turn.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset

from fairseq_rnnsearch.files import write_text
from fairseq_rnnsearch.tasks import AlignmentHeatmapConfig, AlignmentHeatmapTask

SYMBOLS = 8_000


def write_corpus(folder: Path, pairs: int) -> None:
    """Two sides of 5 to 30 words and their dictionaries."""
    words = Dictionary()
    for i in range(SYMBOLS - len(words)):
        words.add_symbol(f"w{i}")
    draw = np.random.default_rng(0)
    for language in ("en", "fr"):
        words.save(str(folder / f"dict.{language}.txt"))
        prefix = str(folder / f"train.en-fr.{language}")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=SYMBOLS)
        for length in draw.integers(5, 31, pairs):
            sentence = draw.integers(words.nspecial, SYMBOLS, length)
            builder.add_item(torch.tensor([*sentence.tolist(), words.eos()]))
        builder.finalize(f"{prefix}.idx")


def seconds_of_epochs(task: AlignmentHeatmapTask, workers: int, epochs: int, batch: int) -> tuple:
    """Batches of an epoch and the seconds of each, after one that is not counted."""
    iterator = task.get_batch_iterator(
        task.dataset("train"), max_sentences=batch, num_workers=workers, seed=1
    )
    seconds, batches = [], 0
    for epoch in range(epochs + 1):
        start = time.perf_counter()
        batches = sum(1 for _ in iterator.next_epoch_itr(shuffle=True))
        if epoch:
            seconds.append(time.perf_counter() - start)
    return batches, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--batch-size", type=int, default=80)
    parser.add_argument("--num-workers", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--rounds", type=int, default=5, help="epochs for each (default: 5)")
    parser.add_argument("--json", default="benchmark_data.json", help="file for all numbers")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder), args.pairs)
        config = AlignmentHeatmapConfig(data=folder, source_lang="en", target_lang="fr")
        task = AlignmentHeatmapTask.setup_task(config)
        task.load_dataset("train", combine=True)
        for workers in args.num_workers:
            batches, seconds = seconds_of_epochs(task, workers, args.rounds, args.batch_size)
            speed = [batches / s for s in seconds]
            rows.append(
                {
                    "workers": workers,
                    "batches_per_second": statistics.median(speed),
                    "least": min(speed),
                    "most": max(speed),
                }
            )
    write_text(args.json, json.dumps({"batch_size": args.batch_size, "rows": rows}, indent=1))
    print(f"{'workers':>7}  batches/s (least, most)")
    for row in rows:
        print(
            f"{row['workers']:7}  {row['batches_per_second']:9.0f} "
            f"({row['least']:.0f}, {row['most']:.0f})"
        )


if __name__ == "__main__":
    main()
