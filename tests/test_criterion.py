"""The cost, the gradient that fairseq's trainer makes of it, and every number that is logged."""

import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from models import EOS, PAD, batch_of, build_model, previous, random_model
from torch.testing import assert_close

from fairseq_rnnsearch.contracts import CollectsAlignments
from fairseq_rnnsearch.criterions import AlignmentHeatmapCriterion
from fairseq_rnnsearch.criterions.alignment_heatmap import attention_statistics
from fairseq_rnnsearch.errors import UserError

SOURCES = [[5, 9, EOS], [EOS], [7, 3, 3, 12, 6, EOS], [8, EOS], [4, 4, EOS]]
TARGETS = [[4, 8, 8, 11, EOS], [6, EOS], [EOS], [12, 3, 5, EOS], [7, EOS]]
WORDS = sum(map(len, TARGETS))


class Collecting(SimpleNamespace, CollectsAlignments):
    """A task that collects alignments with a function of a test's."""

    def collect_alignments(self, *arguments):
        self.collect(*arguments)


def task_of(model, collect=None):
    kind = SimpleNamespace if collect is None else partial(Collecting, collect=collect)
    return kind(
        source_dictionary=model.encoder.dictionary, target_dictionary=model.decoder.dictionary
    )


def criterion_of(model, cost_scale="sum", label_smoothing=0.0, collect=None):
    return AlignmentHeatmapCriterion(task_of(model, collect), cost_scale, label_smoothing)


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


@pytest.mark.parametrize("options", [{}, {"fixed_context": True}])
def test_cost_is_the_sum_over_words_and_sentences(options):
    model = random_model(**options)
    loss, _, output = criterion_of(model)(model, batch_of(SOURCES, TARGETS))
    assert_close(loss, costs(model).sum(), rtol=1e-13, atol=0)
    assert_close(output["loss"], loss.detach(), rtol=0, atol=0)
    assert_close(output["nll_loss"], loss.detach(), rtol=0, atol=0)
    assert (output["ntokens"], output["nsentences"]) == (WORDS, 5)
    assert not output["loss"].requires_grad


def trained_gradients(criterion, model, batches):
    """The gradients that fairseq's trainer clips: summed over batches, multiplied as it does."""
    model.zero_grad()
    total = 0
    for batch in batches:
        loss, sample_size, _ = criterion(model, batch)
        loss.backward()
        total += sample_size
    multiplier = 1 / (float(total) or 1.0)  # Trainer.train_step, one process
    return {name: p.grad * multiplier for name, p in model.named_parameters()}


@pytest.mark.parametrize(
    ("cost_scale", "divisor"), [("sum", 1), ("sentence", len(TARGETS)), ("word", WORDS)]
)
@pytest.mark.parametrize("cuts", [(5,), (2, 5), (1, 2, 5)])
def test_gradient_of_an_update(cost_scale, divisor, cuts):
    """However the update is cut into batches: --update-freq, or several processes."""
    model = random_model()
    (costs(model).sum() / divisor).backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    batches = [
        batch_of(SOURCES[start:end], TARGETS[start:end])
        for start, end in zip((0, *cuts), cuts, strict=False)
    ]
    found = trained_gradients(criterion_of(model, cost_scale), model, batches)
    for name, gradient in expected.items():
        assert_close(found[name], gradient, rtol=1e-12, atol=1e-14, msg=name)


def test_the_trainer_still_multiplies_as_these_tests_assume():
    import inspect

    from fairseq.trainer import Trainer

    assert "multiply_grads(numer / (sample_size or 1.0))" in inspect.getsource(Trainer.train_step)


def test_sum_is_the_default():
    from fairseq_rnnsearch.criterions import AlignmentHeatmapCriterionConfig

    config = AlignmentHeatmapCriterionConfig()
    assert (config.cost_scale, config.label_smoothing) == ("sum", 0.0)


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


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_label_smoothing_equals_fairseq_s(epsilon):
    model = random_model()
    theirs = LabelSmoothedCrossEntropyCriterion(
        task_of(model), sentence_avg=False, label_smoothing=epsilon
    )
    batch = batch_of(SOURCES, TARGETS)
    expected_loss, _, expected = theirs(model, batch)
    expected_loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    loss, _, output = criterion_of(model, label_smoothing=epsilon)(model, batch)
    loss.backward()
    assert_close(loss, expected_loss, rtol=1e-13, atol=0)
    for key in ("loss", "nll_loss"):
        assert_close(output[key], expected[key], rtol=1e-13, atol=0)
    for name, parameter in model.named_parameters():
        assert_close(parameter.grad, gradients[name], rtol=1e-12, atol=1e-14)
    assert output["loss"] != output["nll_loss"]


def test_without_smoothing_it_is_fairseq_s_cross_entropy():
    model = random_model()
    batch = batch_of(SOURCES, TARGETS)
    expected, _, _ = CrossEntropyCriterion(task_of(model), sentence_avg=False)(model, batch)
    assert_close(criterion_of(model)(model, batch)[0], expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, 1.5])
def test_impossible_label_smoothing_is_refused(epsilon):
    with pytest.raises(UserError, match=f"--label-smoothing {epsilon}"):
        criterion_of(build_model(), label_smoothing=epsilon)


# --- what is logged ------------------------------------------------------------------------------


@pytest.mark.parametrize(("cost_scale", "divisor"), [("sum", 5), ("sentence", 5), ("word", WORDS)])
def test_costs_are_logged_in_their_units(cost_scale, divisor):
    model = random_model()
    criterion = criterion_of(model, cost_scale, label_smoothing=0.2)
    outputs = [
        criterion(model, batch_of(SOURCES[part], TARGETS[part]))[2]
        for part in (slice(0, 3), slice(3, 5))
    ]
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


def test_numbers_by_hand(by_hand):
    model, batch = by_hand
    criterion = criterion_of(build_model())
    found = logged(criterion, [criterion(model, batch)[2]])
    expected = {
        "loss": 6.0,  # bits per sentence: four words in two sentences
        "nll_loss": 3.0,
        "ppl": 8.0,
        "nats_per_sentence": 2 * math.log(8),
        **ATTENTION,
    }
    assert found == pytest.approx(expected, abs=6e-4)


def test_statistics_of_a_real_model_by_definition():
    model = random_model()
    batch = batch_of(SOURCES, TARGETS, left=True)
    _, _, output = criterion_of(model)(model, batch)
    entropy = largest = end = 0.0
    for source, target in zip(SOURCES, TARGETS, strict=True):
        [rows] = model(torch.tensor([source]), None, torch.tensor(previous([target])))[1]["attn"]
        for row in rows[0].tolist():
            entropy -= sum(weight * math.log2(weight) for weight in row)
            largest += max(row)
            end += row[-1]
    assert output["attn_entropy"].item() == pytest.approx(entropy, rel=1e-5)
    assert output["attn_max"].item() == pytest.approx(largest, rel=1e-5)
    assert output["attn_eos"].item() == pytest.approx(end, rel=1e-5)


def test_statistics_in_half_precision_are_summed_in_single():
    """In bfloat16 a total of 1,001 would be 1,000."""
    weights = torch.ones(1, 1001, 1, dtype=torch.bfloat16)
    totals = attention_statistics(weights, torch.ones(1, 1001).bool(), torch.ones(1, 1).bool())
    assert {key: value.item() for key, value in totals.items()} == {
        "attn_entropy": 0.0,
        "attn_max": 1001.0,
        "attn_eos": 1001.0,
    }


# --- models of every kind ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extra",
    [
        [{"attn": None}],  # RNNencdec
        [{"attn": [None]}],  # fairseq's transformer without cross-attention
        [{"inner_states": []}],
        [None],
        [],
    ],
    ids=str,
)
def test_model_without_attention(by_hand, extra):
    model, batch = by_hand
    model.output = (model.output[0], *extra)
    criterion = criterion_of(build_model(), collect=lambda *_: pytest.fail("nothing to collect"))
    found = logged(criterion, [criterion(model, batch)[2]])
    assert found["nats_per_sentence"] == pytest.approx(2 * math.log(8), abs=6e-4)
    assert not [key for key in found if key.startswith("attn")]


def test_weights_may_come_as_a_list_or_alone(by_hand):
    model, batch = by_hand
    criterion = criterion_of(build_model())
    model.output = (model.output[0], {"attn": torch.tensor(WEIGHTS)})
    found = logged(criterion, [criterion(model, batch)[2]])
    assert {key: found[key] for key in ATTENTION} == pytest.approx(ATTENTION, abs=6e-4)


def test_alignments_are_collected_in_validation_only(by_hand):
    model, batch = by_hand
    calls = []
    criterion = criterion_of(build_model(), collect=lambda *arguments: calls.append(arguments))
    criterion(model.train(), batch)
    assert calls == []
    criterion(model.eval(), batch)
    [(ids, source, target, attention)] = calls
    assert (ids.tolist(), source.tolist()) == ([0, 1], batch["net_input"]["src_tokens"].tolist())
    assert target.tolist() == batch["target"].tolist()
    assert attention.tolist() == WEIGHTS and not attention.requires_grad


def test_logging_outputs_may_be_summed_over_processes():
    """fairseq's other way of sending them needs a GPU."""
    model = random_model()
    criterion = criterion_of(model)
    outputs = [
        criterion(model, batch_of(SOURCES[part], TARGETS[part]))[2]
        for part in (slice(0, 3), slice(3, 5))
    ]
    assert criterion.logging_outputs_can_be_summed()
    summed = {key: sum(output[key] for output in outputs) for key in outputs[0]}
    assert logged(criterion, [summed]) == pytest.approx(logged(criterion, outputs))
