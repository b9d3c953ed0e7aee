"""Numbers that are not finite: who is named, and what happens to the update."""

import math

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from models import EOS, adadelta, batch_of, build_model, poison, training_task

from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterion
from fairseq_rnnsearch.plugin.nonfinite import UpdateRecord

SOURCES = [[4, 5, EOS], [6, EOS], [7, 8, 9, EOS]]
TARGETS = [[4, EOS], [5, 6, EOS], [7, EOS]]
NUMBERS = [3, 17, 170]


def sample():
    return batch_of(SOURCES, TARGETS) | {"id": torch.tensor(NUMBERS)}


@pytest.fixture
def training(tmp_path):
    """A task, a model and its cost, as fairseq's trainer calls them."""
    task = training_task(tmp_path, 16, 16)
    return task, build_model(16, 16), AlignmentHeatmapCriterion(task, "sum", 0.0)


def update(task, model, criterion, ours, number=0):
    ours.zero_grad()
    task.train_step(sample(), model, criterion, ours, number)
    norm = ours.clip_grad_norm(1.0)
    task.optimizer_step(ours, model, number)
    return norm


@pytest.mark.parametrize("word", [6, 8])
def test_the_sentence_with_the_gradient_is_named(training, caplog, word):
    task, model, criterion = training
    poison(model, word)
    before = [p.clone() for p in model.parameters()]
    assert not torch.isfinite(update(task, model, criterion, adadelta(model)))
    number = {6: 17, 8: 170}[word]
    assert f"computed one by one, sentence {number} of 3 has no finite gradient" in caplog.text
    assert "update skipped (--nonfinite skip; 1 so far)" in caplog.text
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


def test_a_cost_of_infinity_is_no_sound_update(training, caplog):
    """log p = -inf of a word has a finite gradient: p - 1 at that word."""
    task, model, criterion = training
    model.decoder.output.bias.data[7] = -math.inf
    assert not torch.isfinite(update(task, model, criterion, adadelta(model)))
    assert "the parameter decoder.output.bias is not finite itself" in caplog.text


def test_an_infinite_cost_of_fairseq_s_criterion_is_named(training, monkeypatch):
    """Its gradient is finite."""
    task, model, _ = training
    lprobs = model.get_normalized_probs
    shift = torch.zeros(16).index_fill(0, torch.tensor([7]), -math.inf)
    monkeypatch.setattr(
        model, "get_normalized_probs", lambda output, log_probs: lprobs(output, log_probs) + shift
    )
    record = UpdateRecord(0)
    record.add(sample(), model, CrossEntropyCriterion(task, False))
    assert "sentence 170 of 3 has no finite gradient" in record.explain()


def test_a_sum_that_overflows_names_the_largest(training, caplog):
    task, model, criterion = training
    poison(model, 6, 3e38)
    update(task, model, criterion, adadelta(model))
    assert "each of its 3 sentences alone has a finite gradient, 17 the largest" in caplog.text


def test_validation_warns(training, caplog):
    task, model, criterion = training
    model.decoder.output.bias.data[7] = math.nan
    task.valid_step(sample(), model, criterion)
    assert "the validation cost is nan in a batch of sentences 3, 17, 170" in caplog.text
