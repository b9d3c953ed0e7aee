"""The steps in C: made once, for this machine, kept privately, and left out where that fails."""

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
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


# --- rounding ------------------------------------------------------------------------------------

EXACT = [torch.float32, torch.float64]


def numbers(dtype):
    """Of each size from the smallest subnormal one to the largest, both signs, and what is none."""
    largest = np.log10(torch.finfo(dtype).max)
    with np.errstate(over="ignore"):
        sizes = 10 ** np.linspace(-largest - 20, largest, 4001)
    sizes = np.concatenate([sizes, np.linspace(0, 90, 4001)])
    x = torch.from_numpy(np.concatenate([sizes, -sizes, [np.inf, -np.inf, np.nan, 0.0]]))
    return x.to(dtype)


def assert_exact(found, expected, units=4):
    """To four units of rounding; below the smallest normal number, which may be taken for 0, to it.

    Args:
        expected: by NumPy, in a type wider than double where the machine has one.
    """
    limits = torch.finfo(found.dtype)
    found = found.numpy().astype(np.longdouble)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    with np.errstate(invalid="ignore"):
        off = np.where(found == expected, 0, abs(found - expected))
    allowed = np.maximum(units * limits.eps * abs(expected), limits.tiny)
    assert not (off > allowed).any(), (found[off > allowed], expected[off > allowed])


@pytest.fixture(params=["compiled", "torch"])
def implementation(request):
    return compiled.elementwise if request.param == "compiled" else lambda dtype: Elementwise()


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x.numpy().astype(np.longdouble)))


def tanh(x):
    return np.tanh(x.numpy().astype(np.longdouble))


@pytest.mark.parametrize("dtype", EXACT)
def test_gates_are_exact_to_rounding(dtype, implementation):
    x = numbers(dtype).unsqueeze(0)
    n, zero = x.size(1), torch.zeros_like(x)
    a, reset_h = x.new_empty(1, 3 * n), torch.empty_like(x)
    gates = torch.cat((x, x), dim=1)
    implementation(dtype).unit_gates(gates, torch.zeros_like(gates), None, zero, None, a, reset_h)
    for gate in a[:, n:].split(n, dim=1):
        assert_exact(gate, sigmoid(x))


@pytest.mark.parametrize("dtype", EXACT)
def test_proposed_states_are_exact_to_rounding(dtype, implementation):
    x = numbers(dtype).unsqueeze(0)
    n, zero = x.size(1), torch.zeros_like(x)
    a, out = x.new_zeros(1, 3 * n), torch.empty_like(x)
    implementation(dtype).unit_state(x, zero, None, zero, a, out)
    assert_exact(a[:, :n], tanh(x))
    # nor are subnormal numbers taken for 0
    assert torch.equal(a[:, :n][x.abs() < 1e-30], x[x.abs() < 1e-30])


@pytest.mark.parametrize("dtype", EXACT)
def test_hidden_units_of_the_alignment_model_are_exact_to_rounding(dtype, implementation):
    """Where appendix B.1 begins, they are some 1e-4. Seen in the gradient of v, for two positions
    with equal weights of which the second has a hidden unit of zero."""
    x = numbers(dtype)
    x = x[x.isfinite()]
    keys, ops = torch.stack((x, torch.zeros_like(x))).unsqueeze(0), implementation(dtype)
    query, weights = x.new_zeros(1, len(x)), x.new_full((1, 2), 0.5)
    v, d_keys = torch.zeros_like(x), torch.zeros_like(keys)
    d_v, d_query = x.new_zeros(ops.parts, len(x)), torch.empty_like(query)
    d_alpha = x.new_tensor([[2.0, -2.0]])
    ops.align_backward(keys, query, v, weights, d_alpha, d_keys, d_v, d_query)
    assert_exact(d_v.sum(dim=0), tanh(x))


@pytest.mark.parametrize("dtype", EXACT)
def test_probabilities_are_exact_to_rounding(dtype, implementation):
    """Those of two words, as the gradients of their logits tell them, and their logarithms."""
    x = numbers(dtype)
    x = x[x <= 0]
    logits, ops = torch.stack((torch.zeros_like(x), x), dim=1), implementation(dtype)
    words, d_x = torch.zeros(len(x), dtype=torch.int64), torch.empty_like(logits)
    ops.cost_of_words(logits, words, 0.0, d_x, x.new_zeros(ops.parts, 2))
    assert_exact(d_x[:, 1], sigmoid(x))
    out = torch.empty_like(logits)
    ops.log_softmax(logits, 1.0, out)
    with np.errstate(invalid="ignore"):
        wide = x.numpy().astype(np.longdouble)
        assert_exact(out[:, 1], wide - np.log1p(np.exp(wide)))


@pytest.mark.parametrize("offset", [0.0, 1e2, -1e4, 1e6, -1e30])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("dtype", EXACT)
def test_logits_of_any_size_keep_their_differences(dtype, temperature, offset, implementation):
    torch.manual_seed(1)
    logits = (torch.randn(6, 50) * 3 + offset).to(dtype)
    words, ops = torch.arange(6), implementation(dtype)
    wide = logits.numpy().astype(np.longdouble)
    below = wide - wide.max(axis=1, keepdims=True)
    scaled = below / temperature
    out = torch.empty_like(logits)
    ops.log_softmax(logits, temperature, out)
    assert_exact(out, scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True)), units=8)
    lprobs = below - np.log(np.exp(below).sum(axis=1, keepdims=True))
    nll = -lprobs[range(6), range(6)].sum()
    spread = 0.1 / 49
    for label_smoothing, expected in (
        (0.0, nll),
        (0.1, (0.9 - spread) * nll - spread * lprobs.sum()),
    ):
        cost, found = ops.cost_of_words(
            logits, words, label_smoothing, None, logits.new_zeros(ops.parts, 50)
        )
        assert_exact(found, nll, units=8)
        assert_exact(cost, expected, units=8)
