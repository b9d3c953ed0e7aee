"""What Triton's kernels compute in its interpreter, beside the reference; no GPU is needed.

Most are slow: after a change of ``kernels/gpu`` or ``fused_adadelta``, run

    bash tests/run.sh --all tests/test_interpreted.py
"""

# ruff: noqa: E402  (without Triton nothing below can be imported)

import math

import numpy as np
import pytest
import test_kernels
import torch
from test_kernels import CASES, SMALL, outputs_and_gradients, randn
from torch.testing import assert_close

tl = pytest.importorskip("triton.language", reason="triton is not installed: pip install .[gpu]")

from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from fairseq_rnnsearch.kernels import BACKENDS, gpu
from fairseq_rnnsearch.kernels.gpu import (
    attention,
    attentive_recurrence,
    fused_cost,
    masked_cost,
    products,
    word_vectors,
)
from fairseq_rnnsearch.paper.equations import BiasedEmbedding
from fairseq_rnnsearch.plugin import fused_adadelta
from fairseq_rnnsearch.plugin.one_pass_adadelta import OnePassAdadelta

REFERENCE, GPU = BACKENDS["reference"], BACKENDS["gpu"]
TYPES = ((torch.float32, 2e-5), (torch.bfloat16, 0.3))
# what is no tensor, as the weight of smoothing, reaches a kernel in float32
EXACT = ((torch.float64, 1e-7),)

BLOCKS = {  # so that rows of 17 numbers have whole blocks and a rest
    products: {"K_BYTES": 128, "PROGRAMS": 4, "WIDTH": 8, "ROWS": 4},  # 16 numbers of float64
    attention: {"POSITIONS": 2, "WIDTH": 8, "TILE": 32},
    word_vectors: {"ROWS": 2, "COLUMNS": 4},
    fused_cost: {"BYTES": 16},
    masked_cost: {"LOGITS": 200},
    fused_adadelta: {"BLOCK": 256, "BLOCK_OF_NORM": 256},
}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    for module, sizes in BLOCKS.items():
        for name, size in sizes.items():
            monkeypatch.setattr(module, name, size)
    for module, name in ((gpu, "_takes"), (gpu, "runs_triton"), (masked_cost, "runs_triton")):
        monkeypatch.setattr(module, name, lambda tensor: True)
    multiply = InterpreterBuilder.create_dot

    def widened(x):
        """The interpreter keeps bfloat16 as whole numbers, and multiplies these."""
        if x.data.dtype != np.uint16:
            return x
        return TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def with_bfloat16(self, a, b, *others):
        return multiply(self, widened(a), widened(b), *others)

    monkeypatch.setattr(InterpreterBuilder, "create_dot", with_bfloat16)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_each_function_equals_the_reference(name):
    expected = outputs_and_gradients(REFERENCE, CASES[name], torch.float64)
    for dtype, close in TYPES + (EXACT if name in SMALL else ()):
        found = outputs_and_gradients(GPU, CASES[name], dtype)
        assert_close(found, expected, rtol=close, atol=close, msg=f"{{}} in {dtype}".format)


@pytest.mark.slow
def test_the_reference_s_loop_reads_longer_sentences(monkeypatch):
    """Those of more positions than a program takes."""
    monkeypatch.setattr(attentive_recurrence, "decoder_recurrence", None)
    monkeypatch.setattr(attention, "LONGEST", 6)
    test_each_function_equals_the_reference("decoder")


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_vectors_of_words(kind):
    """The second word comes once, the first and last of the table often, some never."""
    embedding = BiasedEmbedding(7, 6).to(kind)
    torch.nn.init.normal_(embedding.weight)
    torch.nn.init.normal_(embedding.bias)
    words = torch.tensor([[6, 0, 6, 4, 6], [0, 6, 3, 4, 6], [6, 6, 0, 1, 0]])
    d, found = torch.randn(3, 5, 6, dtype=kind), []
    for backend in (GPU, REFERENCE):
        x = backend.vectors(words, embedding)
        found.append((x, *torch.autograd.grad((x * d).sum(), list(embedding.parameters()))))
    close = 1e-6 if kind == torch.float32 else 0.1
    assert_close(*found, rtol=close, atol=close)


@pytest.mark.parametrize("is_one_row", [False, True])
def test_gradients_of_vectors(is_one_row):
    """They may be cut out of wider rows, or be one row for all words."""
    words, columns = torch.tensor([[0, 1], [1, 2]]), torch.arange(5.0)
    d = columns[:3].expand(2, 2, 3) if is_one_row else columns.repeat(2, 2, 1)[..., :3]
    table = torch.zeros(4, 3, requires_grad=True)
    [found] = torch.autograd.grad(word_vectors.vectors(words, table), table, d)
    assert_close(found, torch.zeros(4, 3).index_add_(0, words.flatten(), d.reshape(4, 3)))


def output_layer(rows=9, symbols=11, width=2):
    return randn(rows, width), randn(symbols, width), randn(symbols)


def leaves_of(tensors):
    return [x.detach().float().requires_grad_() for x in tensors]


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_padding_costs_nothing(label_smoothing):
    """Whatever stands in rows of padding, they cost nothing and change nothing."""
    words, present = torch.arange(9), torch.arange(9) % 3 != 1
    t, weight, bias = leaves = leaves_of(output_layer())
    with torch.no_grad():
        t[~present] = 1e30
    expected = REFERENCE.output_cost(t[present], weight, bias, words[present], label_smoothing)
    found = GPU.output_cost(*leaves, words, label_smoothing, present)
    assert_close(found, expected)
    (d_t, *others), wanted = (torch.autograd.grad(cost, leaves) for cost, _ in (found, expected))
    assert_close([d_t[present], *others], [wanted[0][present], *wanted[1:]])
    assert not d_t[~present].any()


@pytest.mark.slow
def test_costs_without_gradients():
    given, words = output_layer(), torch.arange(9)
    with torch.no_grad():
        found = [backend.output_cost(*given, words, 0.1) for backend in (GPU, REFERENCE)]
    assert_close(*found, rtol=1e-6, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e3, 1e30])
def test_costs_of_words_that_are_next_to_impossible(scale):
    test_kernels.test_costs_of_words_that_are_next_to_impossible(scale, GPU)


@pytest.mark.slow
def test_large_logits():
    """Beside them the logarithm of how many there are is still seen."""
    t, weight, bias = output_layer()
    leaves = leaves_of((t, 0 * weight, 0 * bias + 1e7))
    cost, _ = GPU.output_cost(*leaves, torch.arange(9))
    assert_close(cost, torch.tensor(9 * math.log(11)))
    present = torch.nn.functional.one_hot(torch.arange(9), 11).sum(dim=0)
    assert_close(torch.autograd.grad(cost, leaves)[2], 9 / 11 - present.float())


@pytest.mark.slow
@pytest.mark.parametrize("word", [-1, 11])
def test_a_word_of_no_dictionary_costs_nan(word):
    leaves = leaves_of(output_layer())
    words = torch.arange(9)
    words[4] = word
    cost, _ = GPU.output_cost(*leaves, words)
    d_t = torch.autograd.grad(cost, leaves)[0]
    assert cost.isnan() and d_t.isnan().all(dim=1).nonzero().tolist() == [[4]]


@pytest.mark.slow
@pytest.mark.parametrize("sound, factor", [(None, None), (True, None), (False, None), (True, 0.25)])
def test_adadelta(sound, factor):
    """An update of torch's, or none where the device finds the gradient not to be sound.

    With a factor torch's has a gradient that was multiplied before.
    """
    torch.manual_seed(0)
    start = [torch.randn(37, 41), torch.randn(5), torch.randn(2, 256)]
    ours, theirs = ([torch.nn.Parameter(x.clone()) for x in start] for _ in "ab")
    fused, plain = (OnePassAdadelta(p, rho=0.95, weight_decay=0.1) for p in (ours, theirs))
    for _ in range(3):
        gradients = [torch.randn_like(x) for x in start]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient if factor is None else factor * gradient
        if sound is not False:
            plain.step()
        truth = None if sound is None else torch.tensor(sound, dtype=torch.int32)
        by = None if factor is None else torch.tensor(factor)
        averages = [fused._averages_of(parameter) for parameter in ours]
        triples = zip(ours, gradients, averages, strict=True)
        rows = [(parameter.data, gradient, *both) for parameter, gradient, both in triples]
        fused_adadelta.update(rows, fused.param_groups[0], truth, by)
    assert_close(ours, theirs)
    assert_close(averages, [plain._averages_of(parameter) for parameter in theirs])


def test_the_norm_of_gradients():
    """Of tensors that end within a block, at its end, in the second, and begin anywhere."""
    torch.manual_seed(0)
    gradients = [torch.randn(size) for size in (5, 256, 257, 1)]
    assert_close(fused_adadelta.norm_of(gradients), torch.cat(gradients).norm())
    gradients.append(torch.randn(300)[1:])
    assert_close(fused_adadelta.norm_of(gradients), torch.cat(gradients).norm())
