"""Numbers that are not finite: who is named, what happens to the update, when training stops."""

import math

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from models import EOS, adadelta, batch_of, build_model, poison, training_task
from torch.testing import assert_close

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels.cpu.compiled import operations
from fairseq_rnnsearch.kernels.cpu.operations import Operations
from fairseq_rnnsearch.paper.equations import AlignmentModel, alignment_weights
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
    ours = adadelta(model)
    assert not torch.isfinite(update(task, model, criterion, ours))
    assert "the parameter decoder.output.bias is not finite itself" in caplog.text
    # the same without a parameter to blame
    model.decoder.output.bias.data[7] = 0
    output = model.decoder.output
    shift = torch.zeros(16).index_fill(0, torch.tensor([7]), -math.inf)

    def cost(t, words, smoothing, present):
        logits = t[present] @ output.weight.T + output.bias + shift
        words = words[present]
        return [torch.nn.functional.cross_entropy(logits, words, reduction="sum")] * 2

    model.decoder.output_cost = cost
    caplog.clear()
    assert not torch.isfinite(update(task, model, criterion, ours))
    assert "sentence 170 of 3 has no finite gradient" in caplog.text


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


def test_too_many_in_a_row_stop(training):
    task, model, criterion = training
    before = [p.clone() for p in model.parameters()]
    ours = adadelta(model, nonfinite_limit=3)
    poison(model, 6)
    for number in range(2):
        update(task, model, criterion, ours, number)
    with pytest.raises(UserError, match=r"3 updates in a row .*--nonfinite-limit 3.*sentence 17"):
        update(task, model, criterion, ours, 2)
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


def test_a_sound_update_ends_the_row(training):
    task, model, criterion = training
    ours = adadelta(model, nonfinite_limit=2)
    for number in range(6):
        ours.zero_grad()
        task.train_step(sample(), model, criterion, ours, number)
        if number % 2:
            model.encoder.embedding.weight.grad[0, 0] = math.nan
        ours.clip_grad_norm(1.0)
    assert ours._nonfinite_updates == 3


def test_validation_warns(training, caplog):
    task, model, criterion = training
    model.decoder.output.bias.data[7] = math.nan
    task.valid_step(sample(), model, criterion)
    assert "the validation cost is nan in a batch of sentences 3, 17, 170" in caplog.text


# --- energies that exponentials cannot hold -------------------------------------------------------


def reference_energies(query, keys, v):
    """``(batch, source)``, of one hypothesis a sentence."""
    model = AlignmentModel(8, 8, 8)
    del model.state_weight, model.energy_weight
    model.state_weight, model.energy_weight = torch.eye(8, dtype=v.dtype), v
    return model.energies(query.unsqueeze(1), keys).squeeze(1)


def largest(dtype, scale):
    """Energies up to ``scale``, of which the two largest are equal: neither weight is 0 or 1."""
    generator = torch.Generator().manual_seed(0)
    keys, query, v = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((2, 5, 8), (2, 8), (8,))
    )
    keys[:, :2] = v - query.unsqueeze(1)
    v *= scale / reference_energies(query, keys, v).max()
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    return [t.to(dtype) for t in (keys, query, v)], padding


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_energies_of_ten_thousand(dtype):
    """Both kernels; against exponentials of differences in float64."""
    (keys, query, v), padding = largest(dtype, 1.5e4)
    keys, query, v = (t.requires_grad_() for t in (keys, query, v))
    e = reference_energies(query, keys, v)
    assert e.amax(dim=1).min() > 1e4
    alpha = alignment_weights(e.unsqueeze(1), padding).squeeze(1)
    exact = torch.zeros(2, 5, dtype=dtype).index_fill(1, torch.tensor([0, 1]), 0.5)
    assert_close(alpha, exact)
    d_alpha = torch.arange(10.0, dtype=dtype).view(2, 5)
    wanted = torch.autograd.grad(alpha, (keys, query, v), d_alpha)

    for ops in (operations(dtype), Operations()):
        found, d_query = torch.empty_like(alpha), torch.empty_like(query)
        d_keys, d_v = torch.zeros_like(keys), v.new_zeros(ops.parts, len(v))
        with torch.no_grad():
            ops.align(keys, query, v, padding, found)
            ops.align_backward(keys, query, v, found, d_alpha, d_keys, d_v, d_query)
        assert_close(found, exact)
        for gradient, expected in zip((d_keys, d_query, d_v.sum(0)), wanted, strict=True):
            assert torch.isfinite(expected).all()
            near = 1e-4 * max(float(expected.abs().max()), 1.0)
            assert_close(gradient, expected, rtol=1e-4, atol=near)
        assert d_keys.abs().max() > 100
