"""The steps in C: made once, for this machine, kept privately, and left out where that fails."""

import itertools
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from fairseq_rnnsearch.engine import c_library
from fairseq_rnnsearch.kernels import _announce, choose
from fairseq_rnnsearch.kernels.c_functions import TYPES, Functions
from fairseq_rnnsearch.kernels.cpu.operations import ARGUMENTS, Operations
from fairseq_rnnsearch.paper.equations import GatedUnit


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A home without libraries; nothing is remembered before or afterwards."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    begin_again()
    yield tmp_path / ".cache" / "fairseq_rnnsearch"
    begin_again()


@pytest.fixture
def functions(cache, tmp_path):
    """Of a file that is compiled at once."""
    source = tmp_path / "tiny.c"
    source.write_text("void nothing(void) {}\n")
    return Functions(source, {"nothing": ()})


def test_each_source_type_compiler_and_processor_has_its_library(
    functions, cache, tmp_path, monkeypatch
):
    """The compiler says what it would use of a processor, on ARM and without /proc as well."""
    compiler = tmp_path / "compiler"
    macro = 'echo "#define __ARM_FEATURE_$PROCESSOR 1"'
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *-dM*) {macro} ;; *) exec cc "$@" ;; esac\n')
    compiler.chmod(0o700)
    other = functions._replace(source=tmp_path / "other" / "tiny.c")
    other.source.parent.mkdir()
    other.source.write_text("void nothing(void) { }\n")
    made = 0
    for CC, PROCESSOR in (("cc", ""), ("cc -DX", ""), (compiler, "NEON"), (compiler, "SVE")):
        monkeypatch.setenv("CC", str(CC))
        monkeypatch.setenv("PROCESSOR", PROCESSOR)
        for one, dtype in itertools.product((functions, other), functions.types):
            made += 1
            for _ in range(2):
                begin_again()
                one.of_type(dtype).nothing()
                assert len(list(cache.iterdir())) == made
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


BROKEN = {
    "no-such-compiler": "no-such-compiler",
    "cc -no-such-option": "no-such-option",
    "cc 'quoted": "No closing quotation",
}


@pytest.mark.parametrize("compiler", BROKEN)
def test_without_a_compiler_torch_does_the_work(compiler, cache, monkeypatch, caplog):
    monkeypatch.setenv("CC", compiler)
    _announce.cache_clear()  # it says once which kernels run
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            assert choose("auto", [GatedUnit(2, 3)], "test").name == "reference"
    line, _ = caplog.messages
    assert BROKEN[compiler] in line
    assert not list(cache.glob("*.so"))


def begin_again():
    """As another process would: nothing is remembered."""
    c_library._load.cache_clear()
    c_library._macros.cache_clear()


def test_threads_and_processes_that_begin_together_share_one_library(functions, cache):
    children = []
    for _ in range(6):
        child = os.fork()
        if not child:
            found = ()
            try:
                with ThreadPoolExecutor(4) as pool:
                    found = set(map(id, pool.map(functions.of_type, [torch.float32] * 4)))
            finally:
                os._exit(len(found) != 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert len(list(cache.iterdir())) == 1
    functions.of_type(torch.float32).nothing()


@pytest.mark.parametrize("dtype", TYPES)
def test_padding_does_not_count_however_well_it_would_fit(dtype):
    torch.manual_seed(1)
    exact = torch.promote_types(dtype, torch.float32)
    v, query = torch.full((8,), 50, dtype=exact), torch.randn(2, 8).to(dtype)
    keys, padding = torch.randn(2, 5, 8, dtype=exact), torch.zeros(2, 5, dtype=torch.bool)
    keys[1, 3:], padding[1, 3:] = 20, True
    e = (torch.tanh(query.to(exact).unsqueeze(1) + keys) @ v).masked_fill(padding, -torch.inf)
    found = torch.empty(2, 5, dtype=exact)
    Operations(dtype).align(keys, query, v, padding, found)
    assert_close(found, e.softmax(dim=1), rtol=1e-4, atol=1e-6)
    assert found[1, 3:].tolist() == [0, 0]


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FFFFFFF, -1])
def test_what_is_not_a_number_stays_so_in_bfloat16(bits):
    h = torch.full((1, 4), bits, dtype=torch.int32).view(torch.float32)
    x, a, reset_h = torch.zeros(1, 8), torch.empty(1, 12), torch.empty(1, 4, dtype=torch.bfloat16)
    ops = Operations(torch.bfloat16)
    ops.unit_gates(x, x.bfloat16(), None, h, None, a, reset_h)
    assert reset_h.isnan().all() and not a[:, 4:].isnan().any()


# --- what goes to C ------------------------------------------------------------------------------

B, S, N, V, PARTS = 3, 5, 4, 7, 2


def calls(dtype):
    """A right call of each function: its arguments by name, each freely writable."""
    exact = torch.promote_types(dtype, torch.float32)
    rows = torch.rand(B, 3 * N).to(dtype)

    def some(*shape):
        return torch.rand(*shape, dtype=exact)

    def operand(*shape):
        return some(*shape).to(dtype)

    unit = {"unit": some(B, 3 * N), "state": some(B, N)}
    return {
        "unit_gates": {"inputs": some(B, 3 * N)[:, N:], "recurrent": rows[:, N:],
                       "context": rows[:, N:], "present": some(B), "reset_state": operand(B, N),
                       **unit},
        "unit_state": {"inputs": some(B, N), "recurrent": rows[:, :N], "context": rows[:, :N],
                       "new_state": some(B, N), **unit},
        "unit_backward": {"d_state": some(B, N), "d_output": rows[:, :N],
                          "d_from_product": rows[:, :N], **unit,
                          "d_inputs": operand(B, 4 * N)[:, : 3 * N]},
        "unit_backward_reset": {"d_state": some(B, N), "d_reset_state": operand(B, N), **unit,
                                "d_inputs": operand(B, 4 * N)[:, : 3 * N]},
        "align": {"keys": some(B, S, N), "query": operand(B, 2 * N)[:, N:], "v": some(N),
                  "padding": torch.zeros(B, S, dtype=torch.bool), "alpha": some(B, S)},
        "align_backward": {"keys": some(B, S, N), "query": rows[:, :N], "v": some(N),
                           "alpha": some(B, S), "d_alpha": some(B, S), "d_keys": some(B, S, N),
                           "d_v": some(PARTS, N), "d_query": operand(B, 2 * N)[:, :N]},
        "cost_of_words": {"logits": operand(B, V), "words": torch.tensor([0, 3, V - 1]),
                          "d_logits": operand(B, V), "d_bias": some(PARTS, V)},
    }  # fmt: skip


OTHERS = {"cost_of_words": {"label_smoothing": 0.1}}


WRONG = {
    "type": lambda x: x.to(torch.float16 if x.is_floating_point() else torch.int32),
    "device": lambda x: x.to("meta"),
    "each followed by another": lambda x: torch.stack((x, x), dim=-1)[..., 0],
    "fewer rows": lambda x: x[:-1],
    "longer rows": lambda x: torch.cat((x, x), dim=-1),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("function", ARGUMENTS)
def test_a_wrong_tensor_is_refused_before_anything_is_written(function, dtype):
    torch.manual_seed(1)
    ops, right = Operations(dtype), calls(dtype)[function]
    ops.parts = PARTS
    before = {name: x.clone() for name, x in right.items()}
    refused = 0
    for name, x in right.items():
        for change in WRONG.values():
            arguments = {**right, name: change(x), **OTHERS.get(function, {})}
            with pytest.raises(ValueError, match=f"^{function}: [a-z_]+ must be .* not "):
                getattr(ops, function)(**arguments)
            refused += 1
    for name, x in right.items():
        assert torch.equal(x, before[name]), name
    assert refused >= 2 * len(WRONG)
    getattr(ops, function)(**right, **OTHERS.get(function, {}))


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


@pytest.mark.parametrize("dtype", EXACT)
def test_gates_and_proposed_states_are_exact_to_rounding(dtype):
    x = numbers(dtype).unsqueeze(0)
    n, zero = x.size(1), torch.zeros_like(x)
    a, reset_h = x.new_empty(1, 3 * n), torch.empty_like(x)
    gates = torch.cat((x, x), dim=1)
    Operations(dtype).unit_gates(gates, torch.zeros_like(gates), None, zero, None, a, reset_h)
    wide = x.numpy().astype(np.longdouble)
    with np.errstate(over="ignore"):
        sigmoid = 1 / (1 + np.exp(-wide))
    for gate in a[:, n:].split(n, dim=1):
        assert_exact(gate, sigmoid)
    Operations(dtype).unit_state(x, zero, None, zero, a, reset_h)
    proposed = a[:, :n]
    assert_exact(proposed, np.tanh(wide))
    # nor are subnormal numbers taken for 0
    assert torch.equal(proposed[x.abs() < 1e-30], x[x.abs() < 1e-30])


@pytest.mark.parametrize("offset", [0.0, 1e2, -1e4, 1e6, -1e30])
@pytest.mark.parametrize("dtype", EXACT)
def test_logits_of_any_size_keep_their_differences(dtype, offset):
    torch.manual_seed(1)
    logits = (torch.randn(6, 50) * 3 + offset).to(dtype)
    words, ops = torch.arange(6), Operations(dtype)
    wide = logits.numpy().astype(np.longdouble)
    below = wide - wide.max(axis=1, keepdims=True)
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
