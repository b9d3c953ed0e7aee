"""Measure how many batches a second the data path feeds: epochs of a corpus, without a model.

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
from fairseq.data import indexed_dataset
from sizes import SIZES, dictionary

from fairseq_rnnsearch.files import write_text
from fairseq_rnnsearch.plugin.tasks import AlignmentHeatmapConfig, AlignmentHeatmapTask


def write_corpus(folder: Path, pairs: int) -> None:
    """Write two sides, whose sentences have 5 to 30 words, and their dictionaries."""
    words = dictionary(SIZES["multi30k"])
    draw = np.random.default_rng(0)
    for language in ("en", "fr"):
        words.save(str(folder / f"dict.{language}.txt"))
        prefix = str(folder / f"train.en-fr.{language}")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=len(words))
        for length in draw.integers(5, 31, pairs):
            sentence = draw.integers(words.nspecial, len(words), length)
            builder.add_item(torch.tensor([*sentence.tolist(), words.eos()]))
        builder.finalize(f"{prefix}.idx")


def speeds(
    task: AlignmentHeatmapTask, workers: int, epochs: int, batch: int
) -> tuple[list[float], list[float]]:
    """Time epochs, after one that is not counted.

    Returns:
        The batches a second of each, by the clock and by this process's CPU time.
    """
    iterator = task.get_batch_iterator(
        task.dataset("train"), max_sentences=batch, num_workers=workers, seed=1
    )
    wall, cpu = [], []
    for epoch in range(epochs + 1):
        start, start_cpu = time.perf_counter(), time.process_time()
        batches = sum(1 for _ in iterator.next_epoch_itr(shuffle=True))
        if epoch:
            wall.append(batches / (time.perf_counter() - start))
            cpu.append(batches / (time.process_time() - start_cpu))
    return wall, cpu


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
        config = AlignmentHeatmapConfig(
            data=folder,
            source_lang="en",
            target_lang="fr",
            dataset_impl="mmap",
            train_subset="train",
            required_seq_len_multiple=1,
        )
        task = AlignmentHeatmapTask.setup_task(config)
        task.load_dataset("train", combine=True)
        for workers in args.num_workers:
            task.dataset_to_epoch_iter.clear()
            wall, cpu = speeds(task, workers, args.rounds, args.batch_size)
            rows.append(
                {
                    "workers": workers,
                    "batches_per_second": statistics.median(wall),
                    "least": min(wall),
                    "most": max(wall),
                    "per_cpu_second": statistics.median(cpu),
                }
            )
    write_text(args.json, json.dumps({"batch_size": args.batch_size, "rows": rows}, indent=1))
    print(f"{'workers':>7}  batches/s (least, most)  a second of this process's CPU time")
    for row in rows:
        print(
            f"{row['workers']:7}  {row['batches_per_second']:9.0f} "
            f"({row['least']:.0f}, {row['most']:.0f})  {row['per_cpu_second']:.0f}"
        )


if __name__ == "__main__":
    main()
