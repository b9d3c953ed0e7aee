"""What Triton's kernels compute in its interpreter, beside the reference.

    TRITON_INTERPRET=1 python tests/interpreted.py

prints a line of JSON for each of ``CHECKS``: its name, and what is wrong. Triton looks at the
variable when it is imported, and so this is a program of its own.
"""

import json
import math
import traceback
from functools import partial
from unittest import mock

import numpy as np
import torch
from test_kernels import CASES, SMALL, randn
from torch.testing import assert_close

from fairseq_rnnsearch.kernels import BACKENDS, gpu
from fairseq_rnnsearch.kernels.gpu import masked_cost
from fairseq_rnnsearch.paper.equations import BiasedEmbedding
from fairseq_rnnsearch.plugin.one_pass_adadelta import OnePassAdadelta

REFERENCE, GPU = BACKENDS["reference"], BACKENDS["gpu"]
TYPES = ((torch.float32, 2e-5), (torch.bfloat16, 0.3))
# what is no tensor, as the weight of smoothing, reaches a kernel in float32
EXACT = ((torch.float64, 1e-7),)


def make_blocks_small():
    """Let rows of 17 numbers have whole blocks and a rest."""
    from fairseq_rnnsearch.kernels.gpu import attention, fused_cost, products, word_vectors
    from fairseq_rnnsearch.plugin import fused_adadelta

    products.K_BYTES, products.PROGRAMS, products.WIDTH = 128, 4, 8  # 16 numbers of float64
    products.ROWS = 4
    attention.POSITIONS, attention.WIDTH, attention.TILE = 2, 8, 32
    word_vectors.ROWS, word_vectors.COLUMNS = 2, 4
    fused_cost.BYTES, masked_cost.LOGITS = 16, 200
    fused_adadelta.BLOCK = fused_adadelta.BLOCK_OF_NORM = 256


def let_it_multiply_bfloat16():
    """The interpreter keeps bfloat16 as whole numbers, and multiplies these."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    create_dot = InterpreterBuilder.create_dot

    def widened(x):
        if x.data.dtype != np.uint16:
            return x
        return TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def with_bfloat16(self, a, b, *others):
        return create_dot(self, widened(a), widened(b), *others)

    InterpreterBuilder.create_dot = with_bfloat16


def gradients_and_results(function, call, tensors, dtype=torch.float64):
    leaves = [x.detach().clone().to(dtype).requires_grad_() for x in tensors]
    found = call(function, *leaves)
    found = found if isinstance(found, tuple) else (found,)
    draw = torch.Generator().manual_seed(0)
    weights = [torch.randn(x.shape, generator=draw, dtype=torch.float64) for x in found]
    pairs = zip(found, weights, strict=True)
    total = sum((x * weight).sum() for x, weight in pairs if x.requires_grad)
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    missing = zip(gradients, leaves, strict=True)
    gradients = [torch.zeros_like(leaf) if x is None else x for x, leaf in missing]
    return [x.detach().double() for x in (*found, *gradients)]


def as_the_reference(name):
    kind, call, tensors = CASES[name]
    expected = gradients_and_results(getattr(REFERENCE, kind), call, tensors)
    for dtype, close in TYPES + (EXACT if name in SMALL else ()):
        found = gradients_and_results(getattr(GPU, kind), call, tensors, dtype)
        assert_close(found, expected, rtol=close, atol=close, msg=f"{{}} in {dtype}".format)


def long_sentences():
    """More positions than a program takes: the reference's loop reads them."""
    from fairseq_rnnsearch.kernels.gpu import attention, attentive_recurrence

    with (
        mock.patch.object(attentive_recurrence, "decoder_recurrence", side_effect=AssertionError),
        mock.patch.object(attention, "LONGEST", 6),
    ):
        as_the_reference("decoder")


def vectors(kind):
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


def gradients_of_vectors(kind):
    """Gradients may be cut out of wider rows, or be one row for all words."""
    from fairseq_rnnsearch.kernels.gpu import word_vectors

    words, columns = torch.tensor([[0, 1], [1, 2]]), torch.arange(5.0)
    d = {"cut out": columns.repeat(2, 2, 1)[..., :3], "one row": columns[:3].expand(2, 2, 3)}[kind]
    table = torch.zeros(4, 3, requires_grad=True)
    [found] = torch.autograd.grad(word_vectors.vectors(words, table), table, d)
    assert_close(found, torch.zeros(4, 3).index_add_(0, words.flatten(), d.reshape(4, 3)))


def output_layer(rows=9, symbols=11, width=2):
    return randn(rows, width), randn(symbols, width), randn(symbols)


def leaves_of(tensors):
    return [x.detach().float().requires_grad_() for x in tensors]


def padding(label_smoothing):
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


def without_gradients():
    given, words = output_layer(), torch.arange(9)
    with torch.no_grad():
        found = [backend.output_cost(*given, words, 0.1) for backend in (GPU, REFERENCE)]
    assert_close(*found, rtol=1e-6, atol=0)


def next_to_impossible(scale):
    t, weight, bias = output_layer(5, 5)
    leaves = leaves_of((t, weight, bias * scale))
    costs = [backend.output_cost(*leaves, torch.arange(5), 0.1) for backend in (GPU, REFERENCE)]
    assert_close(*costs, rtol=1e-5, atol=0)
    gradients = [torch.autograd.grad(cost[0], leaves) for cost in costs]
    assert_close(*gradients, rtol=1e-5, atol=1e-6)


def large_logits():
    """Beside them the logarithm of how many there are is still seen."""
    t, weight, bias = output_layer()
    leaves = leaves_of((t, 0 * weight, 0 * bias + 1e7))
    cost, _ = GPU.output_cost(*leaves, torch.arange(9))
    assert_close(cost, torch.tensor(9 * math.log(11)))
    present = torch.nn.functional.one_hot(torch.arange(9), 11).sum(dim=0)
    assert_close(torch.autograd.grad(cost, leaves)[2], 9 / 11 - present.float())


def no_symbol(word):
    leaves = leaves_of(output_layer())
    words = torch.arange(9)
    words[4] = word
    cost, _ = GPU.output_cost(*leaves, words)
    d_t = torch.autograd.grad(cost, leaves)[0]
    assert cost.isnan() and d_t.isnan().all(dim=1).nonzero().tolist() == [[4]]


def adadelta(sound, factor=None):
    """An update of torch's, or none where the device finds the gradient not to be sound.

    With a factor torch's has a gradient that was multiplied before.
    """
    from fairseq_rnnsearch.plugin import fused_adadelta

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


def norm():
    """Of tensors that end within a block, at its end, in the second, and begin anywhere."""
    from fairseq_rnnsearch.plugin import fused_adadelta

    torch.manual_seed(0)
    gradients = [torch.randn(size) for size in (5, 256, 257, 1)]
    assert_close(fused_adadelta.norm_of(gradients), torch.cat(gradients).norm())
    gradients.append(torch.randn(300)[1:])
    assert_close(fused_adadelta.norm_of(gradients), torch.cat(gradients).norm())


CHECKS = {name: partial(as_the_reference, name) for name in CASES} | {
    "vectors": partial(vectors, torch.float32),
    "vectors, bfloat16": partial(vectors, torch.bfloat16),
    "vectors, cut out": partial(gradients_of_vectors, "cut out"),
    "vectors, one row": partial(gradients_of_vectors, "one row"),
    "decoder, long sentences": long_sentences,
    "cost, padding": partial(padding, 0.0),
    "cost, padding, smoothed": partial(padding, 0.1),
    "cost, without gradients": without_gradients,
    "cost, next to impossible": partial(next_to_impossible, 1e3),
    "cost, all but impossible": partial(next_to_impossible, 1e30),
    "cost, large logits": large_logits,
    "cost, word below all": partial(no_symbol, -1),
    "cost, word above all": partial(no_symbol, 11),
    "adadelta": partial(adadelta, None),
    "adadelta, sound": partial(adadelta, True),
    "adadelta, not sound": partial(adadelta, False),
    "adadelta, clipped": partial(adadelta, True, 0.25),
    "norm": norm,
}

if __name__ == "__main__":
    import triton.language as tl

    make_blocks_small()
    let_it_multiply_bfloat16()
    gpu._takes = gpu.runs_triton = masked_cost.runs_triton = lambda tensor: True
    for name, check in CHECKS.items():
        try:
            check()
            wrong = None
        except Exception:
            wrong = traceback.format_exc()
        print(json.dumps([name, wrong]), flush=True)
