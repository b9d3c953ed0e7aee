"""The cost, the gradient that fairseq's trainer makes of it, and every number that is logged."""

import math
from types import SimpleNamespace

import models
import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from models import EOS, PAD, batch_of, build_model, previous, random_model
from torch.testing import assert_close

from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterion, attention_statistics
from fairseq_rnnsearch.runs.trainer import AlignmentTask

SOURCES = [*models.SOURCES, [4, 4, EOS]]
TARGETS = [*models.TARGETS, [7, EOS]]
WORDS = sum(map(len, TARGETS))


class Collecting(SimpleNamespace, AlignmentTask):
    """A task that collects alignments with a function of a test's."""

    def collect_alignments(self, *arguments):
        self.collect(*arguments)


def criterion_of(model, cost_scale="sum", label_smoothing=0.0, collect=None):
    return AlignmentHeatmapCriterion(task_of(model, collect), cost_scale, label_smoothing)


def task_of(model, collect=None):
    words = {"source_dictionary": model.encoder.dictionary}
    words |= {"target_dictionary": model.decoder.dictionary}
    return Collecting(**words, collect=collect) if collect else SimpleNamespace(**words)


def outputs_of_two_batches(criterion, model):
    parts = slice(0, 3), slice(3, 5)
    return [criterion(model, batch_of(SOURCES[part], TARGETS[part]))[2] for part in parts]


def log_probabilities(model, source, target):
    """Of one sentence's words, read from the model alone."""
    output = model(torch.tensor([source]), None, torch.tensor(previous([target])))
    lprobs = model.get_normalized_probs(output, log_probs=True)[0]
    return lprobs[range(len(target)), target]


def costs(model):
    """-log p of each sentence."""
    pairs = zip(SOURCES, TARGETS, strict=True)
    return torch.stack([-log_probabilities(model, x, y).sum() for x, y in pairs])


def logged(criterion, outputs):
    with metrics.aggregate() as aggregator:
        criterion.reduce_metrics(outputs)
    return aggregator.get_smoothed_values()


# --- the cost and its gradient -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost_scale", "divisor"), [("sum", 1), ("sentence", len(TARGETS)), ("word", WORDS)]
)
@pytest.mark.parametrize("cuts", [(5,), (2, 5), (1, 2, 5)])
def test_gradient_of_an_update(cost_scale, divisor, cuts):
    """However the update is cut into batches: --update-freq, or several processes."""
    model = random_model()
    (costs(model).sum() / divisor).backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    total = 0
    for start, end in zip((0, *cuts), cuts, strict=False):
        batch = batch_of(SOURCES[start:end], TARGETS[start:end])
        loss, sample_size, _ = criterion_of(model, cost_scale)(model, batch)
        loss.backward()
        total += sample_size
    multiplier = 1 / (float(total) or 1.0)  # Trainer.train_step, one process
    found = {name: p.grad * multiplier for name, p in model.named_parameters()}
    assert_close(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("left", [False, True])
def test_padding_is_not_counted(left):
    """A batch costs and logs what its sentences do alone."""
    model = random_model()
    criterion = criterion_of(model)
    _, _, together = criterion(model, batch_of(SOURCES, TARGETS, left))
    alone = [criterion(model, batch_of([x], [y]))[2] for x, y in zip(SOURCES, TARGETS, strict=True)]
    for key, value in together.items():
        assert float(value) == pytest.approx(float(sum(log[key] for log in alone)), rel=1e-6), key
    assert logged(criterion, [together]) == pytest.approx(logged(criterion, alone), abs=1e-3)


# --- label smoothing -----------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
def test_costs_and_gradients_equal_fairseq_s(epsilon):
    model, batch = random_model(), batch_of(SOURCES, TARGETS)
    theirs = LabelSmoothedCrossEntropyCriterion(task_of(model), False, epsilon)
    found = []
    for criterion in (theirs, criterion_of(model, label_smoothing=epsilon)):
        model.zero_grad()
        loss, _, output = criterion(model, batch)
        loss.backward()
        costs = loss.detach(), output["loss"], output["nll_loss"]
        found.append([*costs, *(p.grad for p in model.parameters())])
    assert_close(*found, rtol=1e-12, atol=1e-14)
    assert (output["loss"] != output["nll_loss"]) == (epsilon > 0)


# --- what is logged ------------------------------------------------------------------------------


@pytest.mark.parametrize(("cost_scale", "divisor"), [("sum", 5), ("sentence", 5), ("word", WORDS)])
def test_costs_are_logged_in_their_units(cost_scale, divisor):
    model = random_model()
    criterion = criterion_of(model, cost_scale, label_smoothing=0.2)
    outputs = outputs_of_two_batches(criterion, model)
    nats = costs(model).sum().item()
    smoothed = float(sum(output["loss"] for output in outputs))
    found = logged(criterion, outputs)
    assert found["nats_per_sentence"] == pytest.approx(nats / 5, abs=6e-4)
    assert found["nll_loss"] == pytest.approx(nats / WORDS / math.log(2), abs=6e-4)
    assert found["ppl"] == pytest.approx(math.exp(nats / WORDS), rel=1e-2)
    assert found["loss"] == pytest.approx(smoothed / divisor / math.log(2), abs=6e-4)


class Stub(torch.nn.Module):
    """A model with given logits and weights."""

    def __init__(self, logits, extra):
        super().__init__()
        self.output = (logits, *extra)

    def forward(self, **_):
        return self.output

    def get_targets(self, batch, _):
        return batch["target"]

    def get_normalized_probs(self, output, log_probs):
        return torch.log_softmax(output[0], -1)


WEIGHTS = [
    # three words; source of two words, its end and one pad
    [[0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
    # one word and two pads, whose weights must not be counted; source of its end alone
    [[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.0, 0.5, 0.5, 0.0]],
]
ATTENTION = {
    "attn_entropy": (1.5 + 0.0 + 0.0 + 0.0) / 4,  # 0.5 x 1 + 2 x 0.25 x 2 bits
    "attn_max": (0.5 + 1.0 + 1.0 + 1.0) / 4,
    "attn_eos": (0.25 + 0.0 + 1.0 + 1.0) / 4,
}


@pytest.fixture
def by_hand():
    batch = batch_of([[4, 5, EOS, PAD], [EOS, PAD, PAD, PAD]], [[6, 7, EOS], [EOS]])
    logits = torch.zeros(2, 3, 8)  # eight words, all as likely: log 8 nats, 3 bits
    model = Stub(logits, [{"attn": [torch.tensor(WEIGHTS)]}]).eval()
    return model, batch


@pytest.mark.parametrize("weights", [torch.tensor(WEIGHTS), [torch.tensor(WEIGHTS)]])
def test_numbers_by_hand(by_hand, weights):
    """Weights come alone, or as the one item of a list."""
    model, batch = by_hand
    model.output = (model.output[0], {"attn": weights})
    criterion = criterion_of(build_model())
    found = logged(criterion, [criterion(model, batch)[2]])
    expected = {"nll_loss": 3.0, "ppl": 8.0, "nats_per_sentence": 2 * math.log(8), **ATTENTION}
    expected["loss"] = 6.0  # bits per sentence: four words in two sentences
    assert found == pytest.approx(expected, abs=6e-4)


def test_statistics_in_half_precision_are_summed_in_single():
    """In bfloat16 a total of 1,001 would be 1,000."""
    weights = torch.ones(1, 1001, 1, dtype=torch.bfloat16)
    totals = attention_statistics(weights, torch.ones(1, 1001).bool(), torch.ones(1, 1).bool())
    assert totals == {"attn_entropy": 0, "attn_max": 1001, "attn_eos": 1001}


# --- models of every kind ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extra",
    # RNNencdec; fairseq's transformer without cross-attention; others
    [[{"attn": None}], [{"attn": [None]}], [{"inner_states": []}], [None], []],
    ids=str,
)
def test_model_without_attention(by_hand, extra):
    model, batch = by_hand
    model.output = (model.output[0], *extra)
    criterion = criterion_of(build_model(), collect=lambda *_: pytest.fail("nothing to collect"))
    found = logged(criterion, [criterion(model, batch)[2]])
    assert found["nats_per_sentence"] == pytest.approx(2 * math.log(8), abs=6e-4)
    assert not [key for key in found if key.startswith("attn")]


@pytest.mark.parametrize(
    "extra", [{"attn": [torch.tensor(WEIGHTS)]}, torch.tensor(WEIGHTS)], ids=type
)
def test_alignments_are_collected_in_validation_only(by_hand, extra):
    """The weights also come as a tensor without a name."""
    model, batch = by_hand
    model.output, calls = (model.output[0], extra), []
    criterion = criterion_of(build_model(), collect=lambda *arguments: calls.append(arguments))
    criterion(model.train(), batch)
    assert calls == []
    criterion(model.eval(), batch)
    [(*numbers, attention)] = calls
    expected = torch.arange(2), batch["net_input"]["src_tokens"], batch["target"]
    assert_close(tuple(numbers), expected)
    assert attention.tolist() == WEIGHTS and not attention.requires_grad


def test_outputs_may_be_summed_over_processes_or_logged_one_by_one():
    """Batches of a validation weigh as many words, or sentences, as they hold."""
    model = random_model()
    criterion = criterion_of(model)
    outputs = outputs_of_two_batches(criterion, model)
    assert criterion.logging_outputs_can_be_summed()  # fairseq's other way needs a GPU
    summed = {key: sum(output[key] for output in outputs) for key in outputs[0]}
    assert logged(criterion, [summed]) == pytest.approx(logged(criterion, outputs))
    with metrics.aggregate() as aggregator:
        for output in outputs:
            criterion.reduce_metrics([output])
    found = aggregator.get_smoothed_values()
    assert found == pytest.approx(logged(criterion, outputs), abs=2e-3)
