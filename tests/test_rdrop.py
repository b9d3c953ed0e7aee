"""--rdrop-alpha: its cost and gradient from the definition, and that only training has it."""

import math

import pytest
import torch
from models import EOS, PAD, SOURCES, TARGETS, batch_of, build_model, random_model
from test_criterion import Stub, criterion_of, logged, task_of
from torch.testing import assert_close

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels import rdrop
from fairseq_rnnsearch.kernels.rdrop import rdrop_cost
from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterion


def rdrop_of(model, alpha, label_smoothing=0.0):
    return AlignmentHeatmapCriterion(
        task_of(model), "sum", label_smoothing=label_smoothing, rdrop_alpha=alpha
    )


def by_definition(logits, words, present, smoothing, alpha):
    """The cost, the mean -log p and the divergence, word by word; each sentence stands twice."""
    cost = nll = apart = 0.0
    readings = logits[::2][present], logits[1::2][present]
    for x, y, word in zip(*readings, words[present], strict=True):
        p, q = torch.softmax(x, 0), torch.softmax(y, 0)
        wanted = torch.full_like(p, smoothing / (len(p) - 1))
        wanted[word] = 1 - smoothing
        cost = cost - (wanted * (p.log() + q.log())).sum() / 2
        nll = nll - (p[word].log() + q[word].log()) / 2
        apart = apart + ((p * (p / q).log()).sum() + (q * (q / p).log()).sum()) / 2
    return cost + alpha / 2 * apart, nll, apart


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("alpha", [0.5, 5.0])
@pytest.mark.parametrize("numbers", [None, 1, 30, 2**18])  # in C; one row at a time, three, or all
def test_cost_and_gradient_by_definition(smoothing, alpha, numbers, monkeypatch):
    if numbers is not None:
        monkeypatch.setattr(rdrop, "FUNCTIONS", rdrop.FUNCTIONS._replace(types=()))
        monkeypatch.setitem(rdrop._NUMBERS, "cpu", numbers)
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(4, 4, 10, generator=generator, dtype=torch.double, requires_grad=True)
    words = torch.randint(10, (2, 4), generator=generator)
    present = torch.tensor([[1, 1, 0, 1], [1, 1, 0, 1]], dtype=torch.bool)
    arguments = logits, words, present, smoothing, alpha
    expected, found = by_definition(*arguments), rdrop_cost(*arguments)
    assert_close(torch.stack(found), torch.stack(expected), rtol=1e-12, atol=0)
    ours, theirs = (torch.autograd.grad(3 * cost[0], logits)[0] for cost in (found, expected))
    assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    assert not ours[::2][~present].any() and not ours[1::2][~present].any()


@pytest.mark.parametrize(
    ("dtype", "most"), [(torch.float32, 1e-6), (torch.bfloat16, 2**-9)], ids=["float32", "bfloat16"]
)
def test_gradients_in_c_are_those_of_torch(dtype, most, monkeypatch):
    generator = torch.Generator().manual_seed(4)
    logits = 3 * torch.randn(4, 3, 70, generator=generator)
    words = torch.randint(70, (2, 3), generator=generator)
    present = torch.tensor([[1, 1, 1], [1, 1, 0]], dtype=torch.bool)
    gradients = []
    for _ in range(2):
        given = logits.to(dtype).requires_grad_()
        rdrop_cost(given, words, present, 0.1, 2.0)[0].backward()
        gradients.append(given.grad)
        monkeypatch.setattr(rdrop, "FUNCTIONS", rdrop.FUNCTIONS._replace(types=()))
    assert gradients[0].dtype == dtype
    assert_close(*gradients, rtol=0, atol=most)


def test_words_of_another_type_or_shape():
    """C would read numbers of 32 bits as half as many of 64, and words that are not there."""
    logits = torch.randn(4, 3, 50)
    words, present = torch.randint(50, (2, 3)), torch.ones(2, 3, dtype=torch.bool)
    expected = rdrop_cost(logits, words, present, 0.0, 5.0)
    assert_close(rdrop_cost(logits, words.int(), present, 0.0, 5.0), expected, rtol=0, atol=0)
    for wrong in ((logits[:3], words, present), (logits, words[:1], present[:1])):
        with pytest.raises(ValueError, match=r"must be \(2 batch, target, symbols\)"):
            rdrop_cost(*wrong, 0.0, 5.0)


def test_bfloat16_logits_are_summed_in_float32():
    logits = torch.zeros(2, 1000, 8, dtype=torch.bfloat16)  # it would keep two digits of the sum
    words = torch.zeros(1, 1000, dtype=torch.long)
    cost, _, apart = rdrop_cost(logits, words, torch.ones_like(words).bool(), 0.0, 1.0)
    assert cost.item() == pytest.approx(1000 * math.log(8), rel=1e-6)
    assert apart == 0


class TwoReadings(Stub):
    """A model that predicts otherwise at each reading of a batch, and shows what it was given."""

    def __init__(self, logits):
        super().__init__(logits, ())
        self.logits = torch.nn.Parameter(logits)
        self.given = None

    def forward(self, **net_input):
        self.given = net_input
        weights = torch.arange(len(self.logits)).view(-1, 1, 1).expand(-1, 2, 2) / 4
        return self.logits, {"attn": [weights]}


def test_a_batch_is_read_twice_in_training():
    logits = torch.randn(4, 2, 8, dtype=torch.double, generator=torch.Generator().manual_seed(5))
    model, batch = TwoReadings(logits), batch_of([[4, EOS], [EOS]], [[6, EOS], [EOS]])
    criterion = rdrop_of(build_model(), 2.0, label_smoothing=0.2)
    loss, _, output = criterion(model, batch)
    for name, given in batch["net_input"].items():
        assert_close(model.given[name], given[[0, 0, 1, 1]])
    words = batch["target"]
    cost, nll, apart = by_definition(model.logits.detach(), words, words != PAD, 0.2, 2.0)
    assert_close(loss.detach(), cost, rtol=1e-12, atol=0)
    found = logged(criterion, [output])
    assert found["loss"] == pytest.approx(float(cost) / 2 / math.log(2), abs=6e-4)
    assert found["nll_loss"] == pytest.approx(float(nll) / 3 / math.log(2), abs=6e-4)
    assert found["rdrop_loss"] == pytest.approx(float(apart) / 3 / math.log(2), abs=6e-4)
    assert found["attn_max"] == pytest.approx(2 / 4 / 3, abs=6e-4)  # of the first reading alone


def test_dropout_drops_other_elements_at_each_reading():
    model = random_model(dropout=0.5).train()
    torch.manual_seed(0)
    _, _, output = rdrop_of(model, 1.0)(model, batch_of(SOURCES, TARGETS))
    assert output["rdrop_loss"] > 0.01


def test_validation_reads_a_batch_once():
    model = random_model(dropout=0.5)
    plain, twice = criterion_of(model), rdrop_of(model, 5.0)
    expected, found = (c(model, batch_of(SOURCES, TARGETS)) for c in (plain, twice))
    assert found == expected
    assert "rdrop_loss" not in logged(twice, [found[2]])


def test_guided_attention_is_that_of_the_first_reading():
    model = random_model().train()
    batch = batch_of(SOURCES, TARGETS)
    batch |= {"alignments": torch.tensor([[0, 0], [1, 15]]), "align_weights": torch.ones(2)}
    outputs = [c(model, batch)[2] for c in (criterion_of(model), rdrop_of(model, 1.0))]
    costs = [output["alignment_loss"].item() for output in outputs]
    assert costs[0] == pytest.approx(costs[1]) and outputs[1]["linked"] == 2
    kept = [x for output in outputs for x in output.values() if isinstance(x, torch.Tensor)]
    assert not any(x.requires_grad for x in kept)  # or batches would pile up in the memory


def test_without_dropout_it_is_refused():
    none = build_model(dropout=0.2, embedding_dropout=0.0, readout_dropout=0.0)
    rdrop_of(none, 0.0).check_training(none)
    with pytest.raises(UserError, match="--rdrop-alpha"):
        rdrop_of(none, 1.0).check_training(none)
    some = build_model(readout_dropout=0.2)
    rdrop_of(some, 1.0).check_training(some)
