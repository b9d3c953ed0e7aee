"""The functions of the GPU backend, on a CPU, beside the reference: they run on any device."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from interpreted import CHECKS, gradients_and_results
from test_kernels import CASES
from torch.testing import assert_close

from fairseq_rnnsearch.kernels import BACKENDS
from fairseq_rnnsearch.kernels.gpu import GPU
from fairseq_rnnsearch.kernels.gpu.recordings import Recordings

ROOT = Path(__file__).resolve().parents[1]


class Stub:
    """In the place of a CUDA graph: computes again, into the same memory."""

    room = True

    @classmethod
    def has_room(cls):
        return cls.room

    def __init__(self, function):
        self._function, self.returned = function, function()

    def launch(self):
        for place, result in zip(self.returned, self._function(), strict=True):
            if place is not None:
                place.copy_(result)


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_the_references(name):
    kind, call, tensors = CASES[name]
    expected = gradients_and_results(getattr(BACKENDS["reference"], kind), call, tensors)
    found = gradients_and_results(getattr(BACKENDS["gpu"], kind), call, tensors)
    assert_close(found, expected, rtol=0, atol=1e-10)


def test_recordings_are_launched_for_similar_lengths():
    """A shape is recorded when it comes again, and other numbers do not see the last ones."""
    recordings = Recordings(Stub, kind="cpu")
    backend, launched = GPU(recordings), []
    names = [name for name in CASES if not name.startswith("cost")]
    for _ in range(3):
        for name in names:
            kind, call, tensors = CASES[name]
            for scale in (1.0, 0.5):
                scaled = [scale * x for x in tensors]
                expected = gradients_and_results(getattr(BACKENDS["reference"], kind), call, scaled)
                found = gradients_and_results(getattr(backend, kind), call, scaled)
                assert_close(found, expected, rtol=0, atol=1e-10)
        launched.append(len(recordings._made))
    assert launched[0] > 0 and launched[-1] == launched[1] <= 2 * len(names)


def test_what_was_recorded_returns_memory_of_its_own():
    recordings = Recordings(Stub, kind="cpu")

    def double(x):
        return (2 * x,)

    results = [recordings.run(double, torch.full((2,), float(i)))[0] for i in range(4)]
    assert [x.tolist() for x in results] == [[0, 0], [2, 2], [4, 4], [6, 6]]
    assert len(recordings._made) == 1


def test_nothing_is_recorded_without_room(monkeypatch):
    monkeypatch.setattr(Stub, "room", False)
    recordings = Recordings(Stub, kind="cpu")
    for number in range(3):
        assert recordings.run(torch.neg, torch.tensor(number)) == -number
    assert not recordings._made


@pytest.mark.parametrize("name", BACKENDS)
def test_padding_costs_nothing(name):
    leaves = [torch.randn(shape, requires_grad=True) for shape in ((4, 3), (5, 3), (5,))]
    t, weight, bias = leaves
    words, present = torch.tensor([1, 2, 3, 4]), torch.tensor([True, False, True, True])
    costs = BACKENDS[name].output_cost(t, weight, bias, words, 0.1, present)
    kept = BACKENDS[name].output_cost(t[present], weight, bias, words[present], 0.1)
    assert_close(costs, kept)
    assert_close(*(torch.autograd.grad(cost, leaves) for cost, _ in (costs, kept)))


# --- Triton's kernels, without a GPU --------------------------------------------------------------

needs_triton = pytest.mark.skipif(
    not find_spec("triton"), reason="triton is not installed: pip install .[gpu]"
)


@pytest.fixture(scope="module")
def interpreted():
    """What is wrong with each of interpreted.py's checks."""
    ran = subprocess.run(
        [sys.executable, "interpreted.py"],
        cwd=ROOT / "tests",
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return dict(map(json.loads, ran.stdout.splitlines()))


@needs_triton
@pytest.mark.parametrize("check", CHECKS)
def test_triton_computes_what_torch_does(check, interpreted):
    assert not interpreted[check], interpreted[check]


@needs_triton
@pytest.mark.slow
def test_triton_compiles_for_a_gpu_that_is_not_here(tmp_path):
    """The interpreter takes more than the compiler; memory is read 16 bytes at a time."""
    ran = subprocess.run(
        [sys.executable, ROOT / "recipes/gpu/compile.py", "sm_90", "--products", "bfloat16"],
        env=os.environ | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    rows = [line.split() for line in ran.stdout.splitlines()[2:]]
    assert {row[0] for row in rows} == {
        *("_unit_gates", "_unit_state", "_unit_backward", "_unit_backward_reset"),
        *("_align", "_align_backward", "_cost_of_rows", "_update"),
    }
    for _, _, _, registers, spilled, _, x, width, *_ in rows:
        assert int(registers) <= 128 and (spilled, x, width[:3]) == ("0", "x", "128"), ran.stdout
