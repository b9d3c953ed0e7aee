"""Measure how fast the package translates, beside a tiny Transformer in CTranslate2.

    pip install ctranslate2
    OMP_NUM_THREADS=1 python recipes/benchmark/peers.py --text test.en

In one process with one thread, `load("en-fr")` and the peer take turns with the same sentences in
the same batches, and the processor time of each is counted. Processes that start afresh then make a
first translation. The peer has 6 encoder and 2 decoder layers of 256 units, 1536 in their
feed-forward networks, 8-bit weights and the vocabularies of `en-fr`.

Its weights are random, so it never ends a sentence by itself. It reads as many tokens as our model
does, and `min_decoding_length` and `max_decoding_length` make it take as many steps: up to the end
of our longest hypothesis, where our search ends too. A batch has one such length, the mean of its
sentences'. Our time includes making tokens of text and text of tokens; the peer's does not.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

import numpy as np
import torch
from machine import description
from measuring import ratio, times_in_turns

from fairseq_rnnsearch import Translator, load
from fairseq_rnnsearch.checks import LOADED_DTYPES

sys.path.append(str(Path(__file__).resolve().parents[1]))
from text_files import read_lines

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT / "runs/everyday-en-fr/corpus/test.en", ROOT / "recipes/everyday/outside.tsv"
MODEL, PEER = "en-fr", "ctranslate2"
LAYERS, HEADS, UNITS, INNER = (6, 2), 8, 256, 1536
WORK = {  # beam, sentences together
    "greedy, one by one": (1, 1),
    "beam 5, one by one": (5, 1),
    "greedy, 32 together": (1, 32),
    "beam 5, 32 together": (5, 32),
}
# getrusage's peak can be that of the process that started this one
REPORT = """
import os, time
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time(), int(peak.split()[1]) / 1024, flush=True)
os._exit(0)
"""


# --- what is measured ----------------------------------------------------------------------------


class Calls(list):
    """The calls that translate all sentences."""

    def run(self, _: str) -> None:
        for call in self:
            call()


class Start:
    """Starts Python and runs some code, such as a first translation."""

    def __init__(self, code: str) -> None:
        self.command = [sys.executable, "-P", "-c", code + REPORT]
        self.reports: list[tuple[float, ...]] = []  # processor seconds, megabytes

    def run(self, _: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        out = subprocess.check_output(self.command, text=True, env=environment)
        self.reports.append(tuple(map(float, out.splitlines()[-1].split())))


def save_transformer(folder: str, source: list[str], target: list[str]) -> None:
    """Write a Transformer of random weights with these vocabularies, as CTranslate2 reads it."""
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.model_spec import index_spec

    rows = {  # other matrices have UNITS
        "encoder/embeddings_0": len(source),
        "decoder/embeddings": len(target),
        "decoder/projection": len(target),
        "self_attention/linear_0": 3 * UNITS,  # queries, keys, values
        "/attention/linear_1": 2 * UNITS,  # keys and values of the source
        "ffn/linear_0": INNER,
    }
    generator = np.random.default_rng(0)
    spec = TransformerSpec.from_config(LAYERS, HEADS)
    for name in [name for name, value in spec.variables().items() if value is None]:
        place, _, kind = name.rpartition("/")
        height = next((rows[end] for end in rows if place.endswith(end)), UNITS)
        width = INNER if place.endswith("ffn/linear_1") else UNITS
        shape = (height, width) if kind == "weight" else UNITS  # a layer norm's gain or bias
        values = generator.normal(scale=0.05, size=shape).astype(np.float32)
        setattr(index_spec(spec, place), kind, values)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.validate()
    spec.optimize(quantization="int8")
    spec.save(folder)


def peer_inputs(model: Translator, sentences: list[str], beam: int) -> dict:
    """Return what makes the peer read as many tokens as our model and take as many steps."""
    translations = model.translate(sentences, beam, split_sentences=False, pieces="keep")
    steps = round(mean(max(len(each.tokens) for each in t.nbest) for t in translations))
    return {
        "source": [[*model.source_text.tokens(sentence), "</s>"] for sentence in sentences],
        "beam_size": beam,
        "min_decoding_length": steps,
        "max_decoding_length": steps,
    }


# --- measuring -----------------------------------------------------------------------------------


def measure_translating(
    models: dict[str, Translator], peer: Callable, sentences: list[str], rounds: int
) -> None:
    """Print how long a sentence takes each candidate; the first round is not counted."""
    model = next(iter(models.values()))
    sentences = sorted(sentences, key=lambda sentence: len(model.source_text.tokens(sentence)))
    print(f"{'':20} {'candidate':12} median ms (least, most)  sentences/s  x {PEER}")
    for what, (beam, size) in WORK.items():
        batches = [sentences[start : start + size] for start in range(0, len(sentences), size)]
        candidates = {
            name: Calls(partial(ours.translate, batch, beam) for batch in batches)
            for name, ours in models.items()
        }
        inputs = [peer_inputs(model, batch, beam) for batch in batches]
        for each in inputs:
            steps = {len(result.hypotheses[0]) for result in peer(**each)}
            assert steps == {each["max_decoding_length"]}
        candidates[PEER] = Calls(partial(peer, **each) for each in inputs)
        seconds = times_in_turns(candidates, what, rounds, time.process_time)
        for name, own in seconds.items():
            ms = [1000 * each / len(sentences) for each in own]
            spread = f"{median(ms):7.2f} ({min(ms):.2f}, {max(ms):.2f})"
            speed = f"{1000 / median(ms):11.1f}  {ratio(seconds[PEER], own):.2f}"
            print(f"{what:20} {name:12} {spread:24} {speed}", flush=True)


def measure_starts(codes: dict[str, str], rounds: int) -> None:
    """Print what a new process takes; the first, which may compile, is not counted."""
    candidates = {name: Start(code) for name, code in codes.items()}
    wall = times_in_turns(candidates, "start", rounds, time.perf_counter)
    for name, start in candidates.items():
        processor, megabytes = map(median, zip(*start.reports[1:], strict=True))
        print(
            f"{'first translation':20} {name:12} {processor:.2f} s of processor time, "
            f"{median(wall[name]):.2f} s from start to end, {megabytes:.0f} MB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--candidates",
        nargs="+",
        choices=("default", *LOADED_DTYPES),
        default=["default"],
        help="values of load()'s compute_dtype (default: its default)",
    )
    parser.add_argument(
        "--text",
        type=Path,
        default=next(path for path in TEXTS if path.exists()),
        help="sentences, one per line (default: %(default)s)",
    )
    parser.add_argument(
        "--sentences", type=int, default=200, help="of 6 to 15 words (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    args = parser.parse_args()
    import ctranslate2

    torch.set_num_threads(1)
    lines = [line.partition("\t")[0] for line in read_lines(args.text)]
    fitting = [line for line in lines if 6 <= len(line.split()) <= 15]
    sentences = (fitting * args.sentences)[: args.sentences]  # again, if there are too few
    changes = {
        name: {} if name == "default" else {"compute_dtype": name} for name in args.candidates
    }
    models = {name: load(MODEL, **change) for name, change in changes.items()}
    model = models[args.candidates[0]]
    codes = {
        name: f"from fairseq_rnnsearch import load\n"
        f"load({MODEL!r}, **{change!r}).translate({sentences[0]!r}, beam=5)"
        for name, change in changes.items()
    }
    other = {"ctranslate2": ctranslate2.__version__, "text": str(args.text)}
    print(json.dumps(description(threads=1, cpu_time=True) | other))
    with TemporaryDirectory() as folder:
        save_transformer(
            folder, list(model.source_dictionary.symbols), list(model.target_dictionary.symbols)
        )
        peer = ctranslate2.Translator(folder, intra_threads=1)
        measure_translating(models, peer.translate_batch, sentences, args.rounds)
        codes[PEER] = (
            "from ctranslate2 import Translator\n"
            f"Translator({folder!r}, intra_threads=1)"
            f".translate_batch(**{peer_inputs(model, sentences[:1], 5)!r})"
        )
        measure_starts({**codes, "import torch": "import torch"}, args.rounds)


if __name__ == "__main__":
    main()
