"""Measure on real text how far the fast kernels are from the reference in float64.

    python recipes/benchmark/parity.py runs/multi30k-rnnsearch/data CHECKPOINT [CHECKPOINT ...]

Each checkpoint is one model; before the first comes the same model with the parameters that a
training begins with. It compares the cost of a batch and the gradient of each parameter, without
dropout and label smoothing. Differences are relative (of a gradient, the norm of the difference
over the norm), and the largest over batches and parameters is shown.
"""

import argparse
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from fairseq import checkpoint_utils
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

import fairseq_rnnsearch.plugin.models
import fairseq_rnnsearch.plugin.tasks  # noqa: F401  each registers a part with fairseq
from fairseq_rnnsearch.plugin.criterions import AlignmentHeatmapCriterion

BATCH = 80
CANDIDATES = {
    "reference": {"kernels": "reference"},
    "fast": {"kernels": "fast"},
    "bfloat16": {"kernels": "fast", "compute_dtype": "bfloat16"},
}


@dataclass
class Largest:
    """The largest differences so far, and the parameter whose gradient differs most."""

    cost: float = 0.0
    gradient: float = 0.0
    parameter: str = ""

    def meet(self, cost: float, gradients: dict[str, float]) -> None:
        """Take the differences of a batch into account."""
        self.cost = max(self.cost, cost)
        name = max(gradients, key=gradients.__getitem__)
        if gradients[name] > self.gradient:
            self.gradient, self.parameter = gradients[name], name


def cost_and_gradients(
    model: nn.Module, criterion: AlignmentHeatmapCriterion, sample: dict
) -> tuple[float, dict[str, Tensor]]:
    """Return the summed cost of a batch, and the gradient of each parameter in float64."""
    model.zero_grad()
    cost = criterion(model, sample)[0]
    cost.backward()
    return float(cost.detach().double()), {n: p.grad.double() for n, p in model.named_parameters()}


def models(paths: list[str], data: str) -> Iterator[tuple[str, FairseqTask, dict, Tensor]]:
    """Yield the name, task, configuration and parameters of each set of parameters."""
    for number, path in enumerate(paths):
        [model], cfg, task = checkpoint_utils.load_model_ensemble_and_task([path], {"data": data})
        if number == 0:
            torch.manual_seed(cfg.common.seed)
            yield "initial", task, cfg.model, task.build_model(cfg.model).state_dict()
        yield path.rpartition("/")[2], task, cfg.model, model.state_dict()


def batches(task: FairseqTask, count: int) -> list[dict]:
    """Take batches evenly spaced over the validation data sorted by length: all are different."""
    task.load_dataset("valid")
    data = task.dataset("valid")
    order = sorted(range(len(data)), key=data.size)
    starts = torch.linspace(0, max(0, len(order) - BATCH), count).long().tolist()
    return [data.collater([data[i] for i in order[start : start + BATCH]]) for start in starts]


def compare(task: FairseqTask, config: dict, state: dict, count: int) -> dict[str, Largest]:
    """Return the largest differences of each candidate."""
    criterion = AlignmentHeatmapCriterion(task, "sum", 0.0)

    def build(options: dict) -> nn.Module:
        model = task.build_model(type(config)({**config, **options}))
        model.load_state_dict(state)
        return model.eval()

    exact = build({"kernels": "reference", "compute_dtype": "float32"}).double()
    candidates = {name: build(options) for name, options in CANDIDATES.items()}
    largest = {name: Largest() for name in CANDIDATES}
    for sample in batches(task, count):
        cost, gradients = cost_and_gradients(exact, criterion, sample)
        for name, model in candidates.items():
            mine, of_mine = cost_and_gradients(model, criterion, sample)
            largest[name].meet(
                abs(mine - cost) / cost,
                {n: float((of_mine[n] - g).norm() / g.norm()) for n, g in gradients.items()},
            )
    return largest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="data folder of the training")
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--batches", type=int, default=5, help="of 80 pairs (default: 5)")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    print("| parameters | kernels | cost | gradient | of |\n|---|---|---|---|---|")
    for name, task, config, state in models(options.checkpoints, options.data):
        for candidate, largest in compare(task, config, state, options.batches).items():
            numbers = f"{largest.cost:.1e} | {largest.gradient:.1e} | `{largest.parameter}`"
            print(f"| {name} | {candidate} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
