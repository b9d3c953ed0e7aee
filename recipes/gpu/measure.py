"""The parts of ``measure.sh``; each writes one JSON file, whole or not at all."""

import argparse
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmark"))
from search import lstm, rnnsearch, sentences, task_of
from sizes import SIZES, Size, dictionary, sample

from fairseq_rnnsearch.criterions import AlignmentHeatmapCriterion
from fairseq_rnnsearch.files import write_text
from fairseq_rnnsearch.models import RNNSearchConfig, RNNSearchModel
from fairseq_rnnsearch.search import StepwiseGenerator

ROOT = Path(__file__).resolve().parents[2]
PAPERS_UPDATES = 2.88e5  # of RNNsearch-50, in the paper's Table 2
OURS = (
    f"--user-dir {ROOT / 'fairseq_rnnsearch'} --task alignment_heatmap --heatmap-samples 0"
    " --criterion alignment_heatmap --optimizer rnnsearch_adadelta --arch rnnsearch_50"
    " --encoder-embed-dim {m} --decoder-embed-dim {m} --encoder-hidden-size {n}"
    " --decoder-hidden-size {n} --attention-size {attention} --maxout-size {l}"
)
LSTM = (
    f"--user-dir {ROOT / 'fairseq_rnnsearch'} --task translation --arch lstm"
    " --criterion cross_entropy --optimizer sgd --dropout 0 --lr 0.1 --encoder-bidirectional"
    " --encoder-embed-dim {m} --decoder-embed-dim {m} --encoder-hidden-size {n}"
    " --decoder-hidden-size {n} --decoder-out-embed-dim {l}"
)
VARIANTS = {  # their options, and how many updates of the paper's sizes to make
    "reference": (f"{OURS} --kernels reference", 100),
    "float32": (OURS, 300),
    "tf32": (f"{OURS} --compute-dtype tf32", 1000),
    "bfloat16": (f"{OURS} --compute-dtype bfloat16", 1000),
    "lstm": (LSTM, 300),
}


class Machine:
    """Where the parts run, and at what sizes.

    Args:
        name: ``cuda``, or ``cpu`` to try the program: sizes are tiny then, and TF32 is left out.
    """

    def __init__(self, name: str, out: Path, data: Path | None) -> None:
        self.device, self.out, self.data = torch.device(name), out, data
        self.is_gpu = name == "cuda"
        self.size: Size = SIZES["paper" if self.is_gpu else "tiny"]

    def wait(self) -> None:
        if self.is_gpu:
            torch.cuda.synchronize()

    def seconds(self, function: Callable[[], object], times: int) -> float:
        """Return the seconds of one call, after three that are not counted."""
        for _ in range(3):
            function()
        self.wait()
        start = time.perf_counter()
        for _ in range(times):
            function()
        self.wait()
        return (time.perf_counter() - start) / times

    def variants(self) -> list[str]:
        return [name for name in VARIANTS if self.is_gpu or name != "tf32"]

    def model(self, **options: str) -> RNNSearchModel:
        """Return the model of these options, on the CPU, the same at each call."""
        torch.manual_seed(0)
        m, n, attention, maxout, *_ = self.size
        config = RNNSearchConfig(
            **dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim"), m),
            **dict.fromkeys(("encoder_hidden_size", "decoder_hidden_size"), n),
            attention_size=attention,
            maxout_size=maxout,
            **options,
        )
        return RNNSearchModel.build_model(config, task_of(self.size))

    def batch(self) -> dict:
        return sample(self.size, dictionary(self.size))


def moved(x: object, device: torch.device) -> object:
    if isinstance(x, dict):
        return {key: moved(value, device) for key, value in x.items()}
    return x.to(device) if isinstance(x, torch.Tensor) else x


def gradients(machine: Machine, model: RNNSearchModel, device: torch.device) -> dict:
    model, batch = model.to(device), moved(machine.batch(), device)
    cost = AlignmentHeatmapCriterion(task_of(machine.size), "sum", 0.0)(model, batch)[0]
    cost.backward()
    return {name: p.grad.double().cpu() for name, p in model.named_parameters()}


# --- parts ----------------------------------------------------------------------------------------


def ceilings(machine: Machine) -> dict:
    """Products and copies, in operations and bytes a second."""
    found, n = {}, 8192 if machine.is_gpu else 256
    for name, dtype, precision in (
        ("float32", torch.float32, "highest"),
        ("tf32", torch.float32, "high"),
        ("bfloat16", torch.bfloat16, "highest"),
    ):
        torch.set_float32_matmul_precision(precision)
        x = torch.randn(n, n, device=machine.device, dtype=dtype)
        found[f"products {name}, TFLOP/s"] = 2e-12 * n**3 / machine.seconds(lambda x=x: x @ x, 20)
    torch.set_float32_matmul_precision("highest")
    x, y = (torch.zeros(1 << (28 if machine.is_gpu else 20), device=machine.device) for _ in "xy")
    found["copies, GB/s"] = 8e-9 * len(x) / machine.seconds(lambda: x.copy_(y), 20)
    return found


def correctness(machine: Machine) -> dict:
    """The norm of each parameter's error of the gradient, over the gradient's: the largest."""
    exact = gradients(machine, machine.model(kernels="reference").double(), machine.device)
    cpu = gradients(machine, machine.model(kernels="reference").double(), torch.device("cpu"))
    found = {"float64, the device beside a CPU": _largest_error(exact, cpu)}
    dtypes = ("float32", "tf32", "bfloat16") if machine.is_gpu else ("float32", "bfloat16")
    for kernels in ("reference", "auto"):
        for dtype in dtypes:
            model = machine.model(kernels=kernels, compute_dtype=dtype)
            for _ in range(3 if kernels == "auto" else 1):  # the third time from a recording
                model.zero_grad()
                one = gradients(machine, model, machine.device)
            found[f"{kernels} kernels, {dtype}"] = _largest_error(one, exact)
            torch.set_float32_matmul_precision("highest")
    return found


def _largest_error(one: dict, exact: dict) -> float:
    return max(float((one[name] - g).norm() / g.norm()) for name, g in exact.items() if g.any())


def corpus(machine: Machine, lengths: str) -> Path:
    """Return a folder of binarised pairs, ``fixed`` of the size's length or of real lengths."""
    folder = machine.out / f"data-{lengths}"
    if (folder / "bin").is_dir():
        return folder / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    draw, size = random.Random(0), machine.size
    words = [f"w{i}" for i in range(size.symbols - 4)]
    count = size.batch * (400 if machine.is_gpu else 4)
    if machine.data and lengths == "real":
        texts = [(machine.data / f"train.{side}").read_text().splitlines() for side in ("en", "fr")]
        pairs = [(len(a.split()), len(b.split())) for a, b in zip(*texts, strict=True)]
        pairs = [pair for pair in pairs if min(pair) > 0 and max(pair) <= 50][:count]
    elif lengths == "real":
        pairs = [(n, n) for n in (min(50, 1 + int(draw.expovariate(1 / 22))) for _ in range(count))]
    else:
        pairs = [(size.source - 1, size.target - 1)] * count
    weights = [1 / (rank + 3) for rank in range(len(words))]
    for side, language in enumerate(("xx", "yy")):
        lines = [" ".join(draw.choices(words, weights, k=pair[side])) for pair in pairs]
        everything = [" ".join(words[i : i + 20]) for i in range(0, len(words), 20)]
        (folder / f"dict.{language}.txt").write_text("".join(f"{word} 1\n" for word in words))
        (folder / f"train.{language}").write_text("\n".join(lines) + "\n")
        (folder / f"valid.{language}").write_text("\n".join(everything[:2]) + "\n")
    command(
        f"preprocess -s xx -t yy --trainpref {folder}/train --validpref {folder}/valid"
        f" --srcdict {folder}/dict.xx.txt --tgtdict {folder}/dict.yy.txt"
        f" --destdir {folder}/part --workers 2"
    )
    (folder / "part").rename(folder / "bin")
    return folder / "bin"


def command(words: str, deterministic: bool = False) -> str:
    """Run a command of fairseq; return what it says."""
    program, *options = words.split()
    code = f"from fairseq_cli.{program} import cli_main; cli_main()"
    if deterministic:
        code = f"import torch; torch.use_deterministic_algorithms(True, warn_only=True); {code}"
    start = [sys.executable, "-c", code]
    ran = subprocess.run([*start, *options], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join([program, *options])}\n{(ran.stdout + ran.stderr)[-3000:]}")
    return ran.stdout + ran.stderr


def train(
    machine: Machine,
    name: str,
    data: Path,
    updates: int,
    options: str = "",
    interval: int = 50,
    deterministic: bool = False,
) -> list[dict]:
    """Train by fairseq's command; return the lines of its log."""
    model = VARIANTS[name][0].format(**machine.size._asdict())
    said = command(
        f"train {data} {model} {'' if machine.is_gpu else '--cpu'} --clip-norm 1 --log-format json"
        f" --batch-size {machine.size.batch} --max-update {updates} --log-interval {interval}"
        f" --disable-validation --no-progress-bar {options or '--no-save'}",
        deterministic,
    )
    lines = (re.search(r"train_inner \| (\{.*\})", line) for line in said.splitlines())
    return [json.loads(line[1]) for line in lines if line]


def training(machine: Machine, lengths: str = "fixed") -> dict:
    """Updates a second by fairseq-train, without the first third."""
    found, data = {}, corpus(machine, lengths)
    for name in machine.variants():
        updates = VARIANTS[name][1] if machine.is_gpu else 6
        lines = train(machine, name, data, updates, interval=max(1, updates // 10))
        kept = [float(line["ups"]) for line in lines[len(lines) // 3 :]]
        found[name] = sorted(kept)[len(kept) // 2]
    return found


def resume(machine: Machine) -> dict:
    """Whether parameters are the same bits after an interruption, with deterministic kernels."""
    data, found = corpus(machine, "fixed"), {}
    for name in ("float32", "bfloat16"):
        ends = []
        for parts in ((6,), (3, 6)):
            folder = machine.out / "resume" / f"{name}-{len(parts)}"
            for updates in parts:
                train(machine, name, data, updates, f"--save-dir {folder}", 1, deterministic=True)
            state = torch.load(folder / "checkpoint_last.pt", weights_only=False)["model"]
            ends.append(state)
            for file in folder.glob("*.pt"):
                file.unlink()
        one, other = ends
        found[name] = float(all(torch.equal(one[key], other[key]) for key in one))
    return found


def types(machine: Machine) -> dict:
    """The cost after 50 updates in each type, beside float32's."""
    data, updates, found = corpus(machine, "fixed"), 50 if machine.is_gpu else 4, {}
    for name in [name for name in machine.variants() if name not in ("lstm", "reference")]:
        found[name] = float(train(machine, name, data, updates, "", updates)[-1]["loss"])
    return {f"{name}, over float32's": cost / found["float32"] for name, cost in found.items()}


def profile(machine: Machine) -> dict:
    """Milliseconds of an update by kernel, the ten that take the most, and of all."""
    model = machine.model(compute_dtype="bfloat16").to(machine.device)
    batch = moved(machine.batch(), machine.device)
    criterion = AlignmentHeatmapCriterion(task_of(machine.size), "sum", 0.0)

    def step() -> None:
        criterion(model, batch)[0].backward()

    seconds = machine.seconds(step, 10)
    with torch.profiler.profile() as profiler:
        step()
        machine.wait()
    kind = "device" if machine.is_gpu else "cpu"
    times = {e.key: vars(e).get(f"self_{kind}_time_total", 0) for e in profiler.key_averages()}
    longest = sorted(times, key=times.get, reverse=True)[:10]
    return {"forward and backward": 1e3 * seconds} | {key: times[key] / 1e3 for key in longest}


def search(machine: Machine) -> dict:
    """Sentences a second, 40 together and one by one, with a beam of 12."""
    found, size, task = {}, machine.size, task_of(machine.size)
    names = ("auto float32", "auto bfloat16", "reference float32", "lstm")
    for name in names:
        torch.manual_seed(0)
        model = lstm(size, task) if name == "lstm" else rnnsearch(size, task, *name.split())
        model.to(machine.device).eval()
        longest = size.source - 1
        generator = StepwiseGenerator(
            *([model], task.target_dictionary), beam_size=12, min_len=longest, max_len_b=longest
        )
        for together in (40, 1):
            words = sentences(size, together).to(machine.device)
            lengths = torch.full((together,), size.source, device=machine.device)
            source = {"net_input": {"src_tokens": words, "src_lengths": lengths}}
            seconds = machine.seconds(lambda g=generator, s=source: g.generate(None, s), 3)
            found[f"{name}, {together} together"] = together / seconds
    return found


def memory(machine: Machine) -> dict:
    """Gigabytes of a forward and backward pass beside the parameters, and their estimate."""
    model = machine.model().to(machine.device)
    size = machine.size
    estimate = model.training_memory(all_logits=False)(size.batch, size.source, size.target)
    found = {"estimated": estimate / 1e9}
    if machine.is_gpu:
        before = torch.cuda.memory_allocated()
        for _ in range(3):
            gradients(machine, model, machine.device)
        found["taken"] = (torch.cuda.max_memory_allocated() - before) / 1e9
    return found


PARTS = {
    part.__name__: part
    for part in (ceilings, correctness, resume, types, profile, training, search, memory)
} | {"lengths": lambda machine: training(machine, "real")}


def table(out: Path) -> str:
    lines = []
    for path in sorted(out.glob("*.json")):
        result = json.loads(path.read_text())
        lines.append(f"\n{path.stem} ({result['machine']}, torch {result['torch']})")
        for name, value in result["found"].items():
            hours = ""
            if path.stem in ("training", "lengths") and "tiny" not in result["machine"]:
                hours = f"  {PAPERS_UPDATES / value / 3600:8.2f} hours for the paper's Table 2"
            lines.append(f"  {name[:60]:60} {value:12.5g}{hours}")
    return "\n".join(lines) or "nothing has been measured yet"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=[*PARTS, "table"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    if options.part == "table":
        print(table(options.out))
        return
    machine = Machine(options.device, options.out.resolve(), options.data)
    start = time.perf_counter()
    result = {
        "part": options.part,
        "machine": torch.cuda.get_device_name() if machine.is_gpu else "a CPU, tiny sizes",
        "torch": torch.__version__,
        "found": PARTS[options.part](machine),
        "seconds": time.perf_counter() - start,
    }
    write_text(str(options.out / f"{options.part}.json"), json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
