"""Parts that train by fairseq's commands."""

import json
import random
import re
import shutil
import statistics
import subprocess
import sys
from functools import partial
from itertools import accumulate
from pathlib import Path

import torch
from device import ROOT, Device, Measured, Measurements, bounded
from text_files import read_lines
from training import COMMANDS, OURS

PLUGIN = ["--user-dir", ROOT / "fairseq_rnnsearch"]
VARIANTS = {  # their options, and how many updates of the paper's sizes to make
    "bfloat16": (f"{OURS} --compute-dtype bfloat16", 600),
    "tf32": (f"{OURS} --compute-dtype tf32", 600),
    "float32": (OURS, 300),
    "reference": (OURS, 100),
    "lstm": (COMMANDS["lstm"], 300),
}
RESUMED = ("float32", "bfloat16")
BATCHES = 400  # of the paper's 80 pairs, in the data that is trained on
LONGEST = 50  # words of a side of a pair of real lengths


# --- data, commands -------------------------------------------------------------------------------


def corpus(device: Device, lengths: str) -> Path:
    """Return a folder of binarised pairs, ``fixed`` of the size's length or of ``real`` lengths."""
    given = "-given" * (lengths == "real" and device.data is not None)
    folder = device.out / f"data-{lengths}{given}"
    if (folder / "bin").is_dir():
        return folder / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    draw, size = random.Random(0), device.size
    words = [f"w{i}" for i in range(size.symbols - 4)]
    count = size.batch * (BATCHES if device.is_gpu else 4)
    if lengths == "fixed":
        pairs = [(size.source - 1, size.target - 1)] * count
    elif device.data:
        texts = (read_lines(device.data / f"train.{language}") for language in ("en", "fr"))
        pairs = [tuple(len(line.split()) for line in pair) for pair in zip(*texts, strict=True)]
        pairs = [pair for pair in pairs if min(pair) > 0 and max(pair) <= LONGEST]
        pairs = draw.choices(pairs, k=count)
    else:
        drawn = (min(LONGEST, 1 + int(draw.expovariate(1 / 22))) for _ in range(count))
        pairs = [(n, min(LONGEST, max(1, round(n * draw.uniform(0.9, 1.3))))) for n in drawn]
    often = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
    for side, language in enumerate(("xx", "yy")):
        lines = [" ".join(draw.choices(words, cum_weights=often, k=pair[side])) for pair in pairs]
        (folder / f"dict.{language}.txt").write_text("".join(f"{word} 1\n" for word in words))
        (folder / f"train.{language}").write_text("\n".join(lines) + "\n")
        (folder / f"valid.{language}").write_text(" ".join(words[:20]) + "\n")
    shutil.rmtree(folder / "part", ignore_errors=True)
    files = {"trainpref": "train", "validpref": "valid", "destdir": "part"}
    files |= {"srcdict": "dict.xx.txt", "tgtdict": "dict.yy.txt"}
    command(
        "preprocess",
        [*"-s xx -t yy --workers 2".split(), *(f"--{x}={folder / y}" for x, y in files.items())],
        device.out / "logs" / f"preprocess-{lengths}.log",
    )
    (folder / "part").rename(folder / "bin")
    return folder / "bin"


def command(program: str, options: list, log: Path, deterministic: bool = False) -> str:
    """Run a command of fairseq; return what it says, which the log has too.

    Raises:
        RuntimeError: with the end of that, when it fails.
    """
    code = f"from fairseq_cli.{program} import cli_main; cli_main()"
    if deterministic:
        code = f"import torch; torch.use_deterministic_algorithms(True, warn_only=True); {code}"
    start = [sys.executable, "-c", code, *map(str, options)]
    log.parent.mkdir(exist_ok=True)
    with open(log, "w+", encoding="utf-8") as file:
        status = subprocess.run(start, stdout=file, stderr=subprocess.STDOUT).returncode
        file.seek(0)
        said = file.read()
    if status:
        raise RuntimeError(f"fairseq-{program} failed, see {log}: {said.strip()[-600:]}")
    return said


def train(
    device: Device,
    name: str,
    data: Path,
    updates: int,
    save: str = "--no-save",
    interval: int = 50,
    deterministic: bool = False,
) -> list[dict]:
    """Train by fairseq's command; return the lines of its log."""
    model = VARIANTS[name][0].format(**device.size._asdict())
    if name != "lstm":
        model += f" --kernels {'reference' if name == 'reference' else device.kernels}"
    options = (
        f"{model} {'' if device.is_gpu else '--cpu'} --clip-norm 1 --log-format json"
        f" --batch-size {device.size.batch} --max-update {updates} --log-interval {interval}"
        " --disable-validation --no-progress-bar"
    )
    said = command(
        "train",
        [data, *options.split(), *PLUGIN, save],
        device.out / "logs" / f"train-{name}.log",
        deterministic,
    )
    lines = (re.search(r"train_inner \| (\{.*\})", line) for line in said.splitlines())
    return [json.loads(line[1]) for line in lines if line]


# --- parts ----------------------------------------------------------------------------------------


def training(device: Device, lengths: str = "fixed") -> Measurements:
    """Updates a second by fairseq-train, the median of the log's lines without the first third.

    Of real lengths each batch has another shape: loops are recorded in the first third, or as soon
    as a shape comes again.
    """

    def measure(name: str) -> float:
        updates = VARIANTS[name][1] if device.is_gpu else 6
        lines = train(device, name, corpus(device, lengths), updates, interval=updates // 6)
        return statistics.median(float(line["ups"]) for line in lines[len(lines) // 3 :])

    names = [name for name in VARIANTS if device.is_gpu or name != "tf32"]
    measurements = {name: partial(measure, name) for name in names}
    if lengths == "real":
        measurements["words of a pair"] = lambda: _mean_lengths(corpus(device, lengths).parent)
    return measurements


def _mean_lengths(folder: Path) -> Measured:
    sides = {"source": "xx", "target": "yy"}
    return {
        side: statistics.mean(
            len(line.split()) for line in read_lines(folder / f"train.{language}")
        )
        for side, language in sides.items()
    }


def lengths(device: Device) -> Measurements:
    """The same at real lengths of up to 50 words, those of DATA where it is given."""
    return training(device, "real")


def resume(device: Device) -> Measurements:
    """Whether parameters are other bits after an interruption, with deterministic algorithms."""

    def measure(name: str) -> Measured:
        ends = []
        for parts in ((6,), (3, 6)):
            folder = device.out / f"resume-{name}-{len(parts)}"
            shutil.rmtree(folder, ignore_errors=True)
            data = corpus(device, "fixed")
            for updates in parts:
                train(device, name, data, updates, f"--save-dir={folder}", 1, deterministic=True)
            last = torch.load(folder / "checkpoint_last.pt", "cpu", weights_only=False)
            ends.append(last["model"])
            shutil.rmtree(folder)
        one, other = ends
        differing = [key for key in one if not torch.equal(one[key], other[key])]
        return bounded(len(differing), 0, ", ".join(differing[:3]))

    return {name: partial(measure, name) for name in RESUMED}
