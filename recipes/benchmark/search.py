"""Measure how fast beam search is, beside fairseq's `lstm` architecture of the same sizes.

In one process these take turns, so that whatever else the machine does affects all of them equally:

    rnnsearch            as `--task alignment_heatmap` searches
    bfloat16             the same with `--compute-dtype bfloat16`
    fairseq's generator  the same model as `--task translation` searches
    reference            the same model with `--kernels reference`
    lstm                 fairseq's own: bidirectional, one layer, with attention, whose weights it
                         does not return (`rnnsearch` does)

Parameters are random and no translation ends before its last step, so that all take as many steps.
A table comes last; ``--json`` keeps all numbers.
"""

import argparse
import json
import statistics
from argparse import Namespace
from collections.abc import Callable
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models.lstm import LSTMModel, base_architecture
from fairseq.sequence_generator import SequenceGenerator
from machine import add_timing, clock_of, description
from omegaconf import OmegaConf
from sizes import SIZES, Size, dictionary

from fairseq_rnnsearch.files import write_text
from fairseq_rnnsearch.plugin.generators import StepwiseGenerator
from fairseq_rnnsearch.plugin.model import RNNSearchConfig, RNNSearchModel

BEAM = 12
CANDIDATES = ("rnnsearch", "bfloat16", "fairseq's generator", "reference", "lstm")


# --- what is measured ----------------------------------------------------------------------------


def task_of(size: Size) -> SimpleNamespace:
    words = dictionary(size)
    return SimpleNamespace(source_dictionary=words, target_dictionary=words)


def model_of(size: Size, task: SimpleNamespace, **options: str) -> RNNSearchModel:
    config = RNNSearchConfig(
        encoder_embed_dim=size.m,
        encoder_hidden_size=size.n,
        decoder_embed_dim=size.m,
        decoder_hidden_size=size.n,
        attention_size=size.attention,
        maxout_size=size.l,
        **options,
    )
    return RNNSearchModel.build_model(config, task)


def rnnsearch(
    size: Size, task: SimpleNamespace, kernels: str, compute_dtype: str
) -> torch.nn.Module:
    model = model_of(size, task, kernels=kernels, compute_dtype=compute_dtype)
    model.prepare_for_inference_(OmegaConf.structured(FairseqConfig))
    return model


def lstm(size: Size, task: SimpleNamespace) -> torch.nn.Module:
    args = Namespace(
        encoder_embed_dim=size.m,
        encoder_hidden_size=size.n,
        encoder_bidirectional=True,
        decoder_embed_dim=size.m,
        decoder_hidden_size=size.n,
        decoder_out_embed_dim=size.l,
        dropout=0.0,
        criterion="cross_entropy",
        max_source_positions=1000,
        max_target_positions=1000,
    )
    base_architecture(args)
    return LSTMModel.build_model(args, task)


class Search:
    """Searches with one candidate."""

    def __init__(self, name: str, size: Size, task: SimpleNamespace) -> None:
        torch.manual_seed(0)
        if name == "lstm":
            model = lstm(size, task)
        else:
            kernels = "reference" if name == "reference" else "fast"
            compute_dtype = "bfloat16" if name == "bfloat16" else "float32"
            model = rnnsearch(size, task, kernels, compute_dtype)
        model.eval()
        model.make_generation_fast_(need_attn=False)
        generator = StepwiseGenerator if name in ("rnnsearch", "bfloat16") else SequenceGenerator
        longest = size.source - 1  # the end symbol is not counted
        self.generator = generator(
            [model], task.target_dictionary, beam_size=BEAM, min_len=longest, max_len_b=longest
        )
        self.size = size

    def run(self, source: torch.Tensor) -> None:
        """Translate sentences, ``(sentences, words)``."""
        lengths = torch.full((len(source),), source.size(1))
        sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
        for hypotheses in self.generator.generate(None, sample):
            assert len(hypotheses) == BEAM
            assert {len(hypothesis["tokens"]) for hypothesis in hypotheses} == {self.size.source}


def sentences(size: Size, count: int) -> torch.Tensor:
    """Draw sentences of random words, ``(sentences, words)``."""
    words = Dictionary()
    source = torch.randint(words.nspecial, size.symbols, (count, size.source))
    source[:, -1] = words.eos()
    return source


# --- measuring -----------------------------------------------------------------------------------


def measure(
    name: str, batch: int, names: list[str], rounds: int, clock: Callable[[], float]
) -> list[dict]:
    """Return a row for each candidate: its seconds of each round, after one that is not counted."""
    size = SIZES[name]
    task = task_of(size)
    candidates = {candidate: Search(candidate, size, task) for candidate in names}
    seconds: dict[str, list[float]] = {candidate: [] for candidate in names}
    for number in range(rounds + 1):
        source = sentences(size, batch)
        for candidate, search in candidates.items():
            start = clock()
            search.run(source)
            if number:
                seconds[candidate].append(clock() - start)
    rows = []
    for candidate, own in seconds.items():
        ratios = [lstm / this for lstm, this in zip(seconds["lstm"], own, strict=True)]
        rows.append(
            {
                "size": name,
                "batch": batch,
                "candidate": candidate,
                "seconds": statistics.median(own),
                "least": min(own),
                "most": max(own),
                "sentences_per_second": batch / statistics.median(own),
                "of_lstm": statistics.median(ratios),
                "of_lstm_least": min(ratios),
                "of_lstm_most": max(ratios),
                "rounds": own,
            }
        )
    return rows


def table(rows: list[dict]) -> str:
    """Return the rows as text; a ratio is the median over rounds of the ratio within a round."""
    lines = [
        f"{'size':9} {'batch':>5} {'candidate':20} {'median s (least, most)':26} "
        f"{'sentences/s':>11}  of lstm (least, most)"
    ]
    for row in rows:
        spread = f"{row['seconds']:8.3f} ({row['least']:.3f}, {row['most']:.3f})"
        lines.append(
            f"{row['size']:9} {row['batch']:5} {row['candidate']:20} {spread:26} "
            f"{row['sentences_per_second']:11.2f}  {row['of_lstm']:.2f} "
            f"({row['of_lstm_least']:.2f}, {row['of_lstm_most']:.2f})"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["paper", "multi30k"])
    parser.add_argument("--batches", nargs="+", type=int, default=[40, 1], help="sentences each")
    parser.add_argument(
        "--candidates", nargs="+", choices=CANDIDATES, default=list(CANDIDATES), help="lstm always"
    )
    add_timing(parser, rounds=5)
    parser.add_argument("--json", default="benchmark_search.json", help="file for all numbers")
    args = parser.parse_args()
    clock = clock_of(parser, args)
    names = list(dict.fromkeys([*args.candidates, "lstm"]))
    rows = []
    for name in args.sizes:
        for batch in args.batches:
            rows += measure(name, batch, names, args.rounds, clock)
    machine = description(args.threads, args.cpu_time) | {"beam": BEAM}
    write_text(args.json, json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    print(json.dumps(machine))
    print(table(rows))


if __name__ == "__main__":
    main()
