"""The functions of the GPU backend, on a CPU, beside the reference: they run on any device."""

import math

import pytest
import torch
from models import EOS, PAD, SOURCES, TARGETS, padded, previous, random_model
from test_kernels import CASES, outputs_and_gradients
from torch.testing import assert_close

from fairseq_rnnsearch.kernels import BACKENDS
from fairseq_rnnsearch.kernels.gpu.recordings import Recordings


class Stub:
    """In the place of CUDA graphs: computes again, into the same memory."""

    room = True

    @classmethod
    def has_room(cls):
        return cls.room

    def __init__(self, cost, gradients, pool):
        self._cost, self._gradients = cost, gradients
        self._total, *others = cost()
        self.returned = self._total.detach().clone(), *others
        self.gradients = gradients(self._total, torch.ones_like(self._total))

    @staticmethod
    def memory():
        return 0, 0

    def launch(self):
        self._total, *_ = results = self._cost()
        for place, result in zip(self.returned, results, strict=True):
            if place is not None:
                place.copy_(result.detach())
        for gradient in self.gradients:  # its memory may be another recording's
            gradient.fill_(math.nan)

    def launch_gradients(self, d_cost):
        found = self._gradients(self._total, d_cost)
        for place, result in zip(self.gradients, found, strict=True):
            place.copy_(result)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("cost")])
def test_costs_and_gradients_are_the_references(name):
    expected, found = (
        outputs_and_gradients(BACKENDS[backend], CASES[name], torch.float64)
        for backend in ("reference", "gpu")
    )
    assert_close(found, expected, rtol=0, atol=1e-10)


# --- recordings -----------------------------------------------------------------------------------

BATCHES = [  # of lengths that are rounded up to 8 and 8, or 16 and 8
    (SOURCES, TARGETS),
    ([[5, 6, EOS], [7, EOS], [4, 9, EOS], [EOS]], TARGETS),
    ([[5] * 9 + [EOS], [7, EOS], [4, 9, EOS], [EOS]], TARGETS),
]


def words_of(sources, targets, left=False):
    return padded(sources, left), padded(previous(targets)), padded(targets)


def recorded_cost(recordings, model, words, label_smoothing=0.1):
    return recordings.cost(model._cost, model, words, (PAD, PAD, PAD), label_smoothing)


def made(recordings, model):
    return len(recordings._of_models[model].made)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("options", [{}, {"fixed_context": True}], ids=["RNNsearch", "RNNencdec"])
def test_a_recorded_cost_is_the_models_own(options, left):
    """A shape is recorded when it comes again, and other words do not see the last ones."""
    model, recordings = random_model(**options), Recordings(Stub, kind="cpu")
    parameters, count = list(model.parameters()), []
    for _ in range(3):
        for batch in BATCHES:
            words = words_of(*batch, left)
            expected = model._cost(*words, 0.1)
            found = recorded_cost(recordings, model, words)
            assert_close(found, expected, rtol=0, atol=1e-10)
            gradients = [torch.autograd.grad(2 * x[0], parameters) for x in (found, expected)]
            assert_close(*gradients, rtol=0, atol=1e-10)
        count.append(made(recordings, model))
    assert count == [1, 2, 2]


def test_gradients_are_to_be_taken_once_and_before_the_next_launch():
    model, recordings = random_model(), Recordings(Stub, kind="cpu")
    words = words_of(*BATCHES[0])
    costs = [recorded_cost(recordings, model, words, smoothing)[0] for smoothing in 4 * [0.1]]
    assert costs[2].data_ptr() != costs[3].data_ptr()
    costs[3].backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="before another batch's cost"):
        costs[2].backward()
    with pytest.raises(RuntimeError, match="computed once"):
        costs[3].backward()


@pytest.mark.parametrize("order", [(0, 0, 2, 1, 0), (2, 0, 2)])
def test_gradients_of_several_batches_are_added(order):
    """A parameter's gradient lies in a recording's memory, until the next batch needs it."""
    models, recordings = [random_model() for _ in "ab"], Recordings(Stub, kind="cpu")
    models[1].load_state_dict(models[0].state_dict())
    for i in (0, 2, 0, 2):  # recorded the second time
        recorded_cost(recordings, models[0], words_of(*BATCHES[i]))
    for k, i in enumerate(order):
        words = words_of(*BATCHES[i])
        recorded_cost(recordings, models[0], words)[0].backward()
        models[1]._cost(*words, 0.1)[0].backward()
        if k == 0:
            lent = recordings._of_models[models[0]].lent
            assert all(parameter.grad.data_ptr() in lent for parameter in models[0].parameters())
        found, expected = ([p.grad for p in model.parameters()] for model in models)
        assert_close(found, expected, rtol=0, atol=1e-10)


def test_dropout_draws_as_if_nothing_was_recorded(monkeypatch):
    found = []
    for room in (True, False):
        monkeypatch.setattr(Stub, "room", room)
        model = random_model(dropout=0.5).train()
        recordings = Recordings(Stub, kind="cpu")
        torch.manual_seed(1)
        costs = [recorded_cost(recordings, model, words_of(*BATCHES[0]))[0] for _ in range(4)]
        assert made(recordings, model) == room
        found.append(torch.stack(costs).tolist())
    assert found[0] == found[1] and len(set(found[0])) == 4


def test_parameters_that_move_are_recorded_anew():
    model, recordings = random_model(), Recordings(Stub, kind="cpu")
    words = words_of(*BATCHES[0])
    for scale in (1.0, 0.5):
        for parameter in model.parameters():
            parameter.data = scale * parameter.data
        for _ in range(3):
            assert_close(recorded_cost(recordings, model, words), model._cost(*words, 0.1))
        assert made(recordings, model) == 1


@pytest.mark.parametrize("name", BACKENDS)
def test_padding_costs_nothing(name):
    leaves = [torch.randn(shape, requires_grad=True) for shape in ((4, 3), (5, 3), (5,))]
    t, weight, bias = leaves
    words, present = torch.tensor([1, 2, 3, 4]), torch.tensor([True, False, True, True])
    costs = BACKENDS[name].output_cost(t, weight, bias, words, 0.1, present)
    kept = BACKENDS[name].output_cost(t[present], weight, bias, words[present], 0.1)
    assert_close(costs, kept)
    assert_close(*(torch.autograd.grad(cost, leaves) for cost, _ in (costs, kept)))
