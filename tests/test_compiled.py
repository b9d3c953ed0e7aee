"""The steps in C: made once, for this machine, kept privately, and left out where that fails."""

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import ROOT
from torch.testing import assert_close

from fairseq_rnnsearch.equations.alignment_model import alignment_weights, energies
from fairseq_rnnsearch.kernels import compiled
from fairseq_rnnsearch.kernels.elementwise import Elementwise


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A home without libraries; nothing is remembered before or afterwards."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    compiled.library.cache_clear()
    yield tmp_path / "fairseq_rnnsearch"
    compiled.library.cache_clear()


def libraries(cache):
    return sorted(cache.iterdir())


def test_libraries_are_made_once_for_each_type(cache):
    for _ in range(2):
        compiled.library.cache_clear()
        for dtype in compiled.TYPES:
            assert isinstance(compiled.elementwise(dtype), compiled.Compiled)
        made = libraries(cache)
        assert len(made) == 3 and {path.suffix for path in made} == {".so"}
        assert stat.S_IMODE(cache.stat().st_mode) == 0o700
        times = {path.stat().st_mtime_ns for path in made}
    assert times == {path.stat().st_mtime_ns for path in libraries(cache)}


def test_another_source_or_compiler_is_another_library(cache, tmp_path, monkeypatch):
    compiled.library(torch.float32)
    source = tmp_path / "elementwise.c"
    source.write_bytes(compiled.SOURCE.read_bytes() + b"\n")
    monkeypatch.setattr(compiled, "SOURCE", source)
    compiled.library.cache_clear()
    compiled.library(torch.float32)
    monkeypatch.setenv("CC", "cc -DANOTHER")
    compiled.library.cache_clear()
    compiled.library(torch.float32)
    assert len(libraries(cache)) == 3


BROKEN = {
    "false": "non-zero exit status",
    "no-such-compiler": "no-such-compiler",
    "cc -no-such-option": "no-such-option",
}


@pytest.mark.parametrize("compiler", BROKEN)
def test_without_a_compiler_torch_does_the_work(compiler, cache, monkeypatch, caplog):
    monkeypatch.setenv("CC", compiler)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            assert type(compiled.elementwise(torch.float32)) is Elementwise
    [line] = caplog.messages
    assert line.startswith("steps are not compiled, which makes them slower: ")
    assert BROKEN[compiler] in line
    assert not cache.exists() or not libraries(cache)


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_where_others_may_write_is_not_used(mode, cache):
    cache.mkdir()
    cache.chmod(mode)
    assert compiled.library(torch.float32)
    assert not libraries(cache)


def test_a_home_that_cannot_be_written_to_is_done_without(cache, monkeypatch):
    cache.write_text("a file")
    assert compiled.library(torch.float32)
    assert cache.read_text() == "a file"


def test_there_is_one_pool_of_threads():
    """Two would wait for each other's work on the same cores."""
    if not Path("/proc/self/task").exists():
        pytest.skip("reads /proc")
    program = """
import os, torch
from fairseq_rnnsearch.kernels import compiled
torch.set_num_threads(3)
ops, x, y = compiled.elementwise(torch.float32), torch.rand(1000, 1000), torch.empty(1000, 1000)
counts = []
for work in (lambda: x.exp(), lambda: ops.log_softmax(x, 1.0, y), lambda: x.exp()):
    work()
    counts.append(len(os.listdir("/proc/self/task")))
assert type(ops) is compiled.Compiled and counts[0] >= 3 and len(set(counts)) == 1, counts
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.mark.parametrize("dtype", compiled.TYPES)
def test_padding_does_not_count_however_well_it_would_fit(dtype):
    torch.manual_seed(1)
    exact = torch.promote_types(dtype, torch.float32)
    v, query = torch.full((8,), 50, dtype=exact), torch.randn(2, 8).to(dtype)
    keys, padding = torch.randn(2, 5, 8, dtype=exact), torch.zeros(2, 5, dtype=torch.bool)
    keys[1, 3:], padding[1, 3:] = 20, True
    one = torch.eye(8, dtype=exact)
    e = energies(query.to(exact).unsqueeze(1), keys, one, v)
    expected = alignment_weights(e, padding)
    for ops in (compiled.elementwise(dtype), Elementwise()):
        found = torch.empty(2, 5, dtype=exact)
        ops.align(keys, query, v, padding, found)
        assert_close(found, expected.squeeze(1), rtol=1e-4, atol=1e-6)
        assert found[1, 3:].tolist() == [0, 0]


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FFFFFFF, -1])
def test_what_is_not_a_number_stays_so_in_bfloat16(bits):
    h = torch.full((1, 4), bits, dtype=torch.int32).view(torch.float32)
    x, a, reset_h = torch.zeros(1, 8), torch.empty(1, 12), torch.empty(1, 4, dtype=torch.bfloat16)
    ops = compiled.elementwise(torch.bfloat16)
    ops.unit_gates(x, x.bfloat16(), None, h, None, a, reset_h)
    assert reset_h.isnan().all() and not a[:, 4:].isnan().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_squashing_functions_are_exact_to_rounding(dtype):
    """sigma and tanh, over what they do not squash to a constant and far beyond."""
    x = torch.cat([torch.linspace(-30, 30, 4001), torch.tensor([-1e30, -200.0, 200.0, 1e30])])
    x = x.to(dtype).unsqueeze(0)
    n, zero = x.size(1), torch.zeros_like(x)
    a, reset_h, out = x.new_empty(1, 3 * n), torch.empty_like(x), torch.empty_like(x)
    ops = compiled.elementwise(dtype)
    gates = torch.cat((x, x), dim=1)
    ops.unit_gates(gates, torch.zeros_like(gates), None, zero, None, a, reset_h)
    ops.unit_state(x, zero, None, zero, a, out)
    rounding = torch.finfo(dtype).eps
    z, r, proposed = a[:, n : 2 * n], a[:, 2 * n :], a[:, :n]
    sigmoid = torch.sigmoid(x.double())
    for gate in (z, r):
        assert (gate - sigmoid).abs().max() <= rounding
        assert ((gate - sigmoid) / sigmoid)[sigmoid > 1e-30].abs().max() <= 4 * rounding
    assert (proposed - torch.tanh(x.double())).abs().max() <= 2 * rounding
