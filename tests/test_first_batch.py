"""A GPU's kernels are compared with the plain ones on a training's first batch."""

import logging
from contextlib import nullcontext

import pytest
import torch
from models import SOURCES, TARGETS, batch_of, build_model, training_task

from fairseq_rnnsearch import kernels
from fairseq_rnnsearch.kernels.gpu import GPU
from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterion
from fairseq_rnnsearch.plugin.first_batch import check_kernels


class OnThisMachine(GPU):
    """The kernels for a GPU, on a CPU."""

    def why_not(self, parts):
        return None


class WrongGradients(OnThisMachine):
    def recurrence(self, directions, initial=None, present=None):
        states = super().recurrence(directions, initial, present)
        return states + 0.02 * (states - states.detach())


class Undefined(OnThisMachine):
    def recurrence(self, directions, initial=None, present=None):
        return super().recurrence(directions, initial, present) * float("nan")


class Failing(OnThisMachine):
    def decoder_recurrence(self, *args):
        raise RuntimeError("an illegal memory access\nin a kernel")


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        (OnThisMachine, "the first batch agrees with the reference kernels"),
        (WrongGradients, "wrong on the first batch, the gradient of encoder."),
        (Undefined, "wrong on the first batch, the cost is off by nan of it"),
        (Failing, "wrong on the first batch, nothing came (an illegal memory access in a kernel)"),
    ],
)
def test_wrong_kernels_do_not_train(backend, said, monkeypatch, caplog):
    monkeypatch.setitem(kernels.BACKENDS, "gpu", backend())
    model = build_model(kernels="gpu", dropout=0.5).train()
    criterion = AlignmentHeatmapCriterion(training_task("", 14, 13), "sum", 0.0)
    with caplog.at_level(logging.INFO, "fairseq_rnnsearch.plugin"):
        check_kernels(model, criterion, batch_of(SOURCES, TARGETS))
    _, line = [one.message for one in caplog.records if one.name.endswith("first_batch")]
    assert line.startswith(f"gpu kernels: {said}")
    assert model.decoder.kernels == ("gpu" if backend is OnThisMachine else "reference")
    assert model.training and all(p.grad is None for p in model.parameters())


class NeedsMemory(AlignmentHeatmapCriterion):
    """Lets the reference kernels compute no more than a number of sentences."""

    most = 1

    def forward(self, model, sample):
        is_reference = model.decoder.kernels == "reference"
        if is_reference and len(sample["id"]) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().forward(model, sample)


@pytest.mark.parametrize("most", [1, 0])
def test_without_memory_for_the_reference(most, monkeypatch, caplog):
    monkeypatch.setitem(kernels.BACKENDS, "gpu", OnThisMachine())
    model = build_model(kernels="gpu").train()
    criterion = NeedsMemory(training_task("", 14, 13), "sum", 0.0)
    criterion.most = most
    refused = nullcontext() if most else pytest.raises(torch.OutOfMemoryError)
    with caplog.at_level(logging.INFO, "fairseq_rnnsearch.plugin"), refused:
        check_kernels(model, criterion, batch_of(SOURCES, TARGETS))
    if most:
        assert caplog.messages[-1].startswith("gpu kernels: the first batch agrees")
    assert model.decoder.kernels == "gpu" and model.training


def test_other_kernels_are_not_asked(caplog):
    model = build_model(kernels="auto")
    with caplog.at_level(logging.INFO):
        check_kernels(model, None, batch_of(SOURCES, TARGETS))
        check_kernels(torch.nn.Linear(1, 1), None, {})
    assert not caplog.messages
    assert model.decoder.kernels == "auto"
