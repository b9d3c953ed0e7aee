"""A GPU's part, on a pretend one: the same numbers as on a CPU, and nothing waits.

Times are measured on a real GPU by recipes/gpu.
"""

import copy
import itertools
import sys
from types import SimpleNamespace

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.logging import metrics
from fairseq.optim.lr_scheduler.fixed_schedule import FixedLRScheduleConfig
from fairseq.sequence_scorer import SequenceScorer
from models import (
    EOS,
    PAD,
    SOURCES,
    TARGETS,
    adadelta,
    arm,
    batch_of,
    build_model,
    poison,
    training_task,
)
from omegaconf import OmegaConf
from pretend import DEVICE, MixedDevices, OnDevice, move, numbers, on_device, pretending
from slow_cases import cases
from torch.testing import assert_close

from fairseq_rnnsearch import plugin
from fairseq_rnnsearch.decoding.search.torch_steps import TorchSteps
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.plugin import one_pass_adadelta as one_pass
from fairseq_rnnsearch.plugin.adadelta import RNNSearchAdadeltaConfig
from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterion
from fairseq_rnnsearch.plugin.generators import AuthorsSequenceGenerator, StepwiseGenerator
from fairseq_rnnsearch.runs.trainer import ResumableTrainer

CLOSE = {"rtol": 1e-4, "atol": 1e-6}


# --- the pretend device itself --------------------------------------------------------------------


def test_it_refuses_what_cuda_refuses_and_counts():
    with pretending() as counts:
        x, y = on_device(torch.ones(2, 2)), torch.ones(2, 2)
        with pytest.raises(MixedDevices):
            x + y
        with pytest.raises(MixedDevices):
            y[on_device(torch.tensor([0]))]
        assert isinstance(x + torch.tensor(1.0), OnDevice)
        assert not counts.waits
        for ask in (lambda: x[0, 0].item(), lambda: bool(x[0, 0]), x.tolist, lambda: x[x > 2]):
            before = counts.waits
            ask()
            x.to("cpu", non_blocking=True)
            torch.zeros(3, device=DEVICE).copy_(torch.ones(3))
            assert counts.waits == before + 1


# --- updates --------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def fused_adadelta(monkeypatch):
    """A stand-in for what Triton does, which test_interpreted.py has."""

    def update(rows, group, sound, factor):
        rho, eps = group["rho"], group["eps"]
        for parameter, gradient, square_avg, acc_delta in rows:
            g = gradient if factor is None else gradient * factor
            e_g = rho * square_avg + (1 - rho) * g * g
            delta = (acc_delta + eps).sqrt() / (e_g + eps).sqrt() * g
            e_d = rho * acc_delta + (1 - rho) * delta * delta
            new = parameter.detach() - group["lr"] * delta
            for old, value in ((square_avg, e_g), (acc_delta, e_d), (parameter.detach(), new)):
                old.copy_(value if sound is None else torch.where(sound.bool(), value, old))

    def norm_of(gradients):
        return torch.stack([gradient.norm() for gradient in gradients]).norm()

    stand_in = SimpleNamespace(update=update, norm_of=norm_of)
    monkeypatch.setattr(one_pass, "runs_triton", lambda tensor: tensor.device.type != "cpu")
    monkeypatch.setitem(sys.modules, "fairseq_rnnsearch.plugin.fused_adadelta", stand_in)
    monkeypatch.setattr(plugin, "fused_adadelta", stand_in, raising=False)


def criterion_of(model, task=None):
    task = task or training_task("", 14, 13)
    return AlignmentHeatmapCriterion(task, "sum", 0.0)


def update(model, batch, optimizer, smoothing=0.0, alpha=0.0):
    criterion = criterion_of(model)
    criterion.label_smoothing, criterion.rdrop_alpha = smoothing, alpha
    optimizer.zero_grad()
    loss, _, logged = criterion(model, batch)
    optimizer.backward(loss)
    norm = optimizer.clip_grad_norm(1.0)
    optimizer.step()
    return loss, norm, *(logged[key] for key in sorted(logged) if key.startswith("attn"))


def parameters(model):
    return [numbers(parameter) for parameter in model.parameters()]


def lively(**options):
    """A model in which everything has an effect."""
    model = build_model(**options)
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


MODELS = {
    "paper": {},
    "RNNencdec": {"fixed_context": True},
    "appendix": {"decoder_order": "appendix"},
    "section3": {"decoder_order": "section3"},
    "factorised": {"output_layer": "factorised"},
    "lstm": {"kind": arm("long_short_term_memory")},
    "general": {"kind": arm("general")},
    "reference": {"kernels": "reference"},
    "R-Drop": {},  # without dropout, of which no two devices would drop the same elements
}


@pytest.mark.parametrize("left", cases([False, True], True))
@pytest.mark.parametrize("name", cases(MODELS, "paper", "RNNencdec", "R-Drop"))
def test_updates_are_those_of_a_cpu_and_wait_for_nothing(name, left):
    costs = {"smoothing": 0.1 if left else 0.0, "alpha": 2.0 if name == "R-Drop" else 0.0}
    batch = batch_of(SOURCES, TARGETS, left)
    model = lively(**MODELS[name])
    there = move(copy.deepcopy(model))
    optimizer, its_own = adadelta(model), adadelta(there)
    for _ in range(2):
        found = update(model, batch, optimizer, **costs)
        assert found[1] > 1  # so that clipping shows
        with pretending() as counts:
            found_there = update(there, on_device(batch), its_own, **costs)
            assert not counts.waits, counts
        assert_close([numbers(x) for x in found_there], [*map(torch.detach, found)], **CLOSE)
    assert_close(parameters(there), parameters(model), **CLOSE)


def test_a_model_trained_with_tf32_runs_everywhere():
    batch, model, plain = batch_of(SOURCES, TARGETS), lively(compute_dtype="tf32"), lively()
    costs = [criterion_of(one)(one.eval(), batch)[0] for one in (model, plain)]
    assert_close(*costs, rtol=0, atol=0)


# --- what fairseq's trainer adds ------------------------------------------------------------------


def trainer_of(model, folder, on=None, optimizer=None, **common):
    """Our trainer with a model on a device, as fairseq's command makes it."""
    cfg = OmegaConf.structured(FairseqConfig)
    OmegaConf.set_struct(cfg, False)
    cfg.common.update({"cpu": True} | common)
    cfg.optimization.update({"clip_norm": 1.0, "lr": [1.0]})
    cfg.checkpoint.save_dir = str(folder)
    parts = {
        "optimizer": ("rnnsearch_adadelta", RNNSearchAdadeltaConfig(lr=[1.0], **optimizer or {})),
        "lr_scheduler": ("fixed", FixedLRScheduleConfig(lr=[1.0])),
    }
    for part, (name, config) in parts.items():
        cfg[part] = {**OmegaConf.to_container(OmegaConf.structured(config)), "_name": name}
    task = training_task(folder)
    trainer = ResumableTrainer(cfg, task, model, criterion_of(model, task))
    if on is not None:
        move(trainer.get_model())
        trainer.device = on
        trainer._prepare_sample = lambda sample, is_dummy=False: (on_device(sample), False)
    return trainer


@pytest.fixture(autouse=True)
def fresh_metrics():
    metrics.reset()
    yield
    metrics.reset()


def train(trainer, updates, batch=None, each=lambda: None):
    with metrics.aggregate("train"):
        for _ in range(updates):
            with metrics.aggregate("train_inner"):
                trainer.train_step([copy.deepcopy(batch or batch_of(SOURCES, TARGETS))])
            each()
    return metrics.get_smoothed_values("train")


def without_times(logged):
    return {key: value for key, value in logged.items() if key not in ("ups", "wps", "train_wall")}


@pytest.mark.slow
def test_the_trainer_waits_once_a_log_interval(tmp_path):
    model, waits = lively(), []
    there = copy.deepcopy(model)
    expected = train(trainer_of(model, tmp_path, log_interval=2), 5)
    metrics.reset()
    with pretending() as counts:
        trainer = trainer_of(there, tmp_path, DEVICE, log_interval=2)
        train(trainer, 5, each=lambda: waits.append(counts.waits))
        assert [b - a for a, b in itertools.pairwise(waits)] == [1, 0, 1, 0]
        trainer.log_updates()
        found = metrics.get_smoothed_values("train")
    assert without_times(found) == pytest.approx(without_times(expected), abs=2e-3)
    assert_close(parameters(there), parameters(model), **CLOSE)


BAD = batch_of([[6, EOS], [12, 5, EOS], [7, EOS]], TARGETS[:3]) | {"id": torch.tensor([3, 17, 9])}


@pytest.mark.parametrize("answer", cases(["skip", "shrink"], "skip"))
def test_what_is_not_finite_is_answered_as_on_a_cpu(tmp_path, caplog, answer):
    model = lively()
    poison(model, 12)
    there, said, found = copy.deepcopy(model), [], []
    sound, options = batch_of(SOURCES[:2], TARGETS[:2]), {"nonfinite": answer, "nonfinite_limit": 2}
    for on, one in ((None, model), (DEVICE, there)):
        caplog.clear()
        with pretending():
            trainer = trainer_of(one, tmp_path, on, options, log_interval=100)
            for batch in (sound, BAD, sound, BAD):  # the limit is of a row
                train(trainer, 1, batch)
            trainer.log_updates()
            state = trainer.optimizer.state_dict()["state"]
        said.append([line for line in caplog.messages if "gradient norm is" in line])
        averages = [[x[key] for key in ("square_avg", "acc_delta")] for x in state.values()]
        averages = [numbers(x) for pair in averages for x in pair]
        found.append((parameters(one), averages))
    assert_close(*found, **CLOSE)
    assert said[0] == said[1] and len(said[0]) == 2
    assert "computed one by one, sentence 17 of " in said[1][0]


@pytest.mark.parametrize("saves", cases([True, False]))
def test_too_many_in_a_row_stop_before_the_next_update(tmp_path, saves):
    model = lively()
    poison(model, 12)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pretending():
        trainer = trainer_of(model, tmp_path, DEVICE, {"nonfinite_limit": 2}, log_interval=100)
        train(trainer, 2, BAD)
        with pytest.raises(UserError, match=r"2 updates in a row .*sentence 17"):
            if saves:  # a checkpoint
                trainer.optimizer.state_dict()
            else:
                train(trainer, 1, batch_of(SOURCES, TARGETS))
    assert_close(parameters(model), before, rtol=0, atol=0)


# --- search ---------------------------------------------------------------------------------------

SEARCHES = {
    "stepwise": (StepwiseGenerator, {}),
    "authors": (AuthorsSequenceGenerator, {}),
    "stepwise, left": (StepwiseGenerator, {"left": True}),
    "stepwise, prefix": (StepwiseGenerator, {"prefix": True}),
    "authors, prefix": (AuthorsSequenceGenerator, {"prefix": True}),
    "two models": (StepwiseGenerator, {"models": 2}),
    "least length": (StepwiseGenerator, {"min_len": 3}),
    "scores": (SequenceScorer, {}),
}
ORDERS = {
    "program": {},
    "section3": {"decoder_order": "section3"},
    "RNNencdec": {"fixed_context": True},
}


def searched(model, sample, kind, options):
    options = {key: value for key, value in options.items() if key != "left"}
    prefix = sample["prefix"] if options.pop("prefix", False) else None
    words, models = model.decoder.dictionary, [model] * options.pop("models", 1)
    if kind is SequenceScorer:
        return SequenceScorer(words).generate(models, sample)
    if kind is StepwiseGenerator:
        options |= {"max_len_a": 0, "max_len_b": 12}
    search = kind(models, words, beam_size=4, **options)
    return search.generate(models, sample, prefix_tokens=prefix)


@pytest.mark.parametrize("order", cases(ORDERS, "program"))
@pytest.mark.parametrize("name", cases(SEARCHES, "stepwise", "stepwise, prefix", "scores"))
def test_searches_find_what_a_cpu_finds(name, order, monkeypatch):
    """One wait a step, and some before the first and after the last."""
    steps, step = [], TorchSteps._step
    monkeypatch.setattr(
        TorchSteps, "_step", lambda self, words: steps.append(1) or step(self, words)
    )
    kind, options = SEARCHES[name]
    model = lively(**ORDERS[order]).eval()
    batch = batch_of(SOURCES, TARGETS, options.get("left", False))
    batch["prefix"] = torch.tensor([[4, 8], [6, PAD], [9, 9], [12, 5]])
    there = copy.deepcopy(model)
    with torch.no_grad():
        expected = searched(model, batch, kind, options)
        steps.clear()
        with pretending() as counts:
            found = searched(move(there), on_device(batch), kind, options)
            waits = counts.waits
    for theirs, ours in zip(expected, found, strict=True):
        for one, other in zip(theirs, ours, strict=True):
            assert one["tokens"].tolist() == numbers(other["tokens"]).tolist()
            assert float(one["score"]) == pytest.approx(float(other["score"]), abs=1e-4)
            if one["attention"] is not None:
                assert_close(numbers(other["attention"]), one["attention"], **CLOSE)
    assert bool(steps) == (kind is not SequenceScorer)
    if steps:
        assert waits <= 2 * len(steps), counts
