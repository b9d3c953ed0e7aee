"""The fast kernels against the reference, which the other tests hold to the paper."""

import logging
import random

import pytest
import torch
from models import (
    EOS,
    SOURCES,
    TARGETS,
    cost_of,
    padded,
    previous,
    random_model,
    score,
)
from slow_cases import cases
from torch.testing import assert_close

from fairseq_rnnsearch import kernels
from fairseq_rnnsearch.kernels import BACKENDS, Direction, choose
from fairseq_rnnsearch.kernels.cpu import output_cost
from fairseq_rnnsearch.network import DECODER_ORDERS
from fairseq_rnnsearch.paper.equations import AlignmentModel, GatedUnit, Memory

fast, reference = BACKENDS["fast"], BACKENDS["reference"]
CLOSE = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(autouse=True)
def fresh_memory_is_nan():
    """Let memory that is read before it is written show as numbers that are none."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


def randn(*shape, seed=0):
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def mask(rows, columns):
    """Return a mask of which about a third is true, never a whole row, and none of a single row."""
    drawn = torch.rand(rows, columns, generator=torch.Generator().manual_seed(rows)) < 0.35
    drawn[:, columns // 2 : columns // 2 + 1] = False
    return drawn & (rows > 1)


# --- cases: each the name of a function, a call on it, and its tensors ----------------------------


def having(module, **tensors):
    """A module with these tensors in the place of its parameters."""
    for name, tensor in tensors.items():
        delattr(module, name)
        setattr(module, name, tensor)
    return module


def unit_of(gates, proposed, **others):
    """Without products of words: only the type of W matters, to the states before the first."""
    return having(
        GatedUnit(1, len(proposed), 1),
        recurrent_gates=gates,
        recurrent_proposed=proposed,
        input_weight=gates,
        **others,
    )


def one_recurrence(T, B, n, masked, reverse):
    def call(function, x, h, *weights):
        present = ~mask(B, T).T if masked else None
        return function([Direction(x, unit_of(*weights), reverse)], h, present)

    return "recurrence", call, (randn(T, B, 3 * n), randn(B, n), *unit(n))


def two_recurrences(T, B, n):
    def call(function, x, y, *w):
        ways = Direction(x, unit_of(*w[:2])), Direction(y, unit_of(*w[2:]), True)
        return function(ways, present=~mask(B, T).T)

    inputs = randn(T, B, 3 * n), randn(T, B, 3 * n, seed=1)
    return "recurrence", call, (*inputs, *unit(n), *unit(n, seed=1))


def decoder(updates, steps, B, S, n, a):
    def call(function, x, s, h, keys, gates, proposed, C, W_a, v_a):
        unit = unit_of(gates, proposed, context_weight=C)
        model = having(AlignmentModel(a, n, 2 * n), state_weight=W_a, energy_weight=v_a)
        return function(x, s, steps, Memory(h, keys, mask(B, S)), unit, model)

    memory = randn(B, S, 2 * n), randn(B, S, a)
    weights = *unit(n), randn(3 * n, 2 * n), randn(a, n), randn(a)
    return "decoder_recurrence", call, (randn(updates, B, 3 * n), randn(B, n), *memory, *weights)


def cost(positions, symbols, l, label_smoothing):
    words = torch.randint(symbols, (positions,), generator=torch.Generator().manual_seed(0))

    def call(function, t, weight, bias):
        return function(t, weight, bias, words, label_smoothing)

    return "output_cost", call, (randn(positions, l), randn(symbols, l), randn(symbols))


def unit(n, seed=0):
    return randn(2 * n, n, seed=seed), randn(n, n, seed=seed + 1)


CASES = {
    # each function once plainly, and with what alone can fail: no step, one row, one number
    "one, no step": one_recurrence(0, 3, 4, masked=True, reverse=False),
    "one": one_recurrence(5, 3, 4, masked=False, reverse=False),
    "one, masked, reversed": one_recurrence(5, 3, 4, masked=True, reverse=True),
    "one, one row": one_recurrence(7, 1, 3, masked=False, reverse=True),
    "two": two_recurrences(5, 3, 4),
    "two, wide": two_recurrences(2, 9, 17),
    "decoder, no update": decoder(0, 1, 3, 5, 4, 3),  # one target word
    "decoder": decoder(4, 5, 3, 7, 4, 6),
    "decoder, one row": decoder(5, 5, 1, 3, 3, 2),
    "decoder, one source word": decoder(6, 7, 9, 1, 5, 17),
    "cost, no word": cost(0, 5, 3, 0.1),
    "cost": cost(9, 11, 2, 0.0),
    "cost, smoothed": cost(8, 5, 3, 0.2),
    "cost, rows that are rounded up": cost(33, 11, 2, 0.1),
    "cost, the same together": cost(33, 11, 2, 0.1),
}
SMALL = ("one, masked, reversed", "two", "decoder, one row", "cost, smoothed")


@pytest.fixture(params=CASES)
def case(request, monkeypatch):
    """The name of the function, a call on it, and its tensors."""
    monkeypatch.setattr(output_cost, "LOGITS", 100)  # one part, whole ones, and a rest
    at_once = 2**26 if "rounded" in request.param else 250
    monkeypatch.setattr(output_cost, "GRADIENTS", at_once)
    monkeypatch.setattr(output_cost, "TOGETHER", 2**25 if "together" in request.param else 0)
    # memory may come full of anything
    monkeypatch.setattr(
        output_cost, "_scratch", lambda size, dtype: torch.full((size,), torch.nan, dtype=dtype)
    )
    return CASES[request.param]


def outputs(backend, case, tensors=None):
    name, call, own = case
    found = call(getattr(backend, name), *(own if tensors is None else tensors))
    return found if isinstance(found, tuple) else (found,)


def outputs_and_gradients(backend, case, dtype):
    """All as float64; zeros for a gradient that is missing."""
    given = [x.detach().to(dtype).requires_grad_() for x in case[2]]
    found = outputs(backend, case, given)
    grads = zip(gradients(found, given), given, strict=True)
    grads = [torch.zeros_like(x) if gradient is None else gradient for gradient, x in grads]
    return [x.detach().double() for x in (*found, *grads)]


def gradients(found, tensors, only=None):
    """Return the gradients of a sum in which each number of the outputs has a weight of its own.

    Args:
        only: the number of the one output that is summed, instead of all.
    """
    found = [x for i, x in enumerate(found) if x.requires_grad and only in (None, i)]
    if not found:
        return [None] * len(tensors)
    given = [randn(*x.shape, 3).detach()[..., 0].to(x.dtype).contiguous() for x in found]
    kept = [x.clone() for x in given]
    result = torch.autograd.grad(found, tensors, given, allow_unused=True, retain_graph=True)
    assert_close(given, kept, rtol=0, atol=0)  # a backward pass may read them, not write to them
    return result


def assert_same_gradients(found, expected, only=None):
    for one, other in zip(found, expected, strict=True):
        if only is not None and other is None:  # one output alone may not depend on everything
            other = torch.zeros_like(one)
        assert_close(one, other, **CLOSE)


def test_fast_equals_reference(case):
    tensors = case[2]
    expected, found = outputs(reference, case), outputs(fast, case)
    assert [x.requires_grad for x in found] == [x.requires_grad for x in expected]
    assert_close(found, expected, **CLOSE)
    for only in (None, *(i for i, x in enumerate(expected) if x.requires_grad)):
        theirs = gradients(expected, tensors, only)
        assert_same_gradients(gradients(found, tensors, only), theirs, only)
        # what the backward pass works on is still what it was
        assert_same_gradients(gradients(found, tensors, only), theirs, only)


@pytest.mark.parametrize(
    "case", cases(SMALL, "one, masked, reversed", "cost, smoothed"), indirect=True
)
def test_gradcheck(case):
    """Against differences of the function itself: autograd's own gradients could be wrong too."""
    assert torch.autograd.gradcheck(
        lambda *x: [o for o in outputs(fast, case, x) if o.requires_grad], case[2]
    )


def test_without_gradients_the_values_are_the_same(case):
    with torch.no_grad():
        found = outputs(fast, case)
    assert not any(x.requires_grad for x in found)
    assert_close(found, tuple(x.detach() for x in outputs(reference, case)), **CLOSE)


def test_each_tensor_may_go_without_gradient_and_be_stored_in_any_way(case):
    tensors = case[2]
    for wanted in range(len(tensors)):
        given = []
        for i, tensor in enumerate(tensors):
            spread = torch.stack((tensor.detach(), tensor.detach()), dim=-1)[..., 1]
            given.append(spread.requires_grad_(i == wanted))
        expected = gradients(outputs(reference, case, given), [given[wanted]])
        assert_same_gradients(gradients(outputs(fast, case, given), [given[wanted]]), expected)


def test_second_order_gradients_are_refused(case):
    found = next(x for x in outputs(fast, case) if x.requires_grad)
    with pytest.raises(NotImplementedError, match="--kernels reference"):
        torch.autograd.grad(found.sum(), case[2], create_graph=True, allow_unused=True)


@pytest.mark.parametrize("scale", [1e3, 1e30])
def test_costs_of_words_that_are_next_to_impossible(scale, backend=fast):
    t, weight, bias = output_layer()
    leaves = [x.float().requires_grad_() for x in (t, weight, bias * scale)]
    costs = [one.output_cost(*leaves, torch.arange(5), 0.1) for one in (backend, reference)]
    assert_close(*costs, rtol=1e-5, atol=0)
    assert costs[0][0] > scale
    gradients = [torch.autograd.grad(cost[0], leaves) for cost in costs]
    assert_close(*gradients, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("word", [-1, 7])
def test_words_that_are_in_no_dictionary_are_refused(word):
    with pytest.raises(IndexError, match=f"words .*{word}.* of 7"):
        fast.output_cost(*output_layer(), torch.tensor([0, 3, word, 6, 1]))


def output_layer():
    """Return for five positions t, and for seven words the weights and the biases."""
    return [randn(*shape).detach() for shape in [(5, 3), (7, 3), (7,)]]


@pytest.mark.parametrize("case", SMALL, indirect=True)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_lower_precisions_lose_no_more_than_the_reference(case, dtype, size):
    """Against float64; small numbers too, as at the start of training.

    There float32 keeps fewer digits of the query's gradient, in which the positions of the source
    cancel each other to the square of their hidden units.
    """
    case = *case[:2], [x.detach() * size for x in case[2]]
    expected = outputs_and_gradients(reference, case, torch.float64)
    theirs, ours = (
        [
            (x - y).norm() / (y.norm() + 1e-30)
            for x, y in zip(outputs_and_gradients(backend, case, dtype), expected, strict=True)
        ]
        for backend in (reference, fast)
    )
    rounding = torch.finfo(dtype).eps / (size if dtype == torch.float32 else 1)
    for one, other in zip(theirs, ours, strict=True):
        assert other <= 3 * one + 8 * rounding


# --- the whole network ---------------------------------------------------------------------------


@pytest.mark.parametrize("order", DECODER_ORDERS)
@pytest.mark.parametrize("fixed_context", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_network(order, fixed_context, left):
    results = []
    for name in ("reference", "fast"):
        model = random_model(decoder_order=order, fixed_context=fixed_context, kernels=name)
        scored = score(model, SOURCES, TARGETS, left, left)
        cost_of(scored, TARGETS).backward()
        values = [x for pair in scored for x in pair if x is not None]
        results.append([*values, *(p.grad for p in model.parameters())])
    assert_close(*results, **CLOSE)


def random_case(seed):
    """A model of any kind, and a batch: often of one sentence, of one word, or both."""
    draw = random.Random(seed)
    options = {
        "decoder_order": DECODER_ORDERS[seed % 3],
        "fixed_context": draw.random() < 0.3,
        "output_layer": draw.choice(["single", "factorised"]),
    }
    batch, longest = draw.choice([1, 1, 2, 5]), draw.choice([1, 1, 2, 8])

    def sentences(symbols):
        lengths = [longest, *(draw.choice([1, longest]) for _ in range(batch - 1))]
        draw.shuffle(lengths)
        return [[draw.randrange(4, symbols) for _ in range(n - 1)] + [EOS] for n in lengths]

    return options, sentences(14), sentences(13), draw.random() < 0.5


def cost_and_gradients(kernels, dtype, options, sources, targets, left):
    model = random_model(kernels=kernels, **options).to(dtype)
    words, given = padded(targets), padded(previous(targets))
    (cost, _), _ = model(padded(sources, left), None, given, target=words, label_smoothing=0.1)
    cost.backward()
    return cost, {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("seed", cases(range(120), *range(18)))
def test_networks_and_batches_of_all_kinds(seed):
    """No gradient is missing, also of a unit that takes no step because targets are of one word:
    an optimizer would leave such parameters where zeros let its averages decay."""
    case, dtype = random_case(seed), (torch.float64, torch.float32, torch.bfloat16)[seed // 3 % 3]
    expected, found = (cost_and_gradients(k, dtype, *case) for k in ("reference", "fast"))
    missing = [n for _, grads in (expected, found) for n, g in grads.items() if g is None]
    assert not missing
    if dtype == torch.bfloat16:  # where which of two maxout units is larger is a matter of rounding
        return
    close = CLOSE if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-4}
    assert_close(found, expected, **close)


# --- the choice ----------------------------------------------------------------------------------


def unit_on(device="cpu", dtype=torch.float32, recurrent_dtype=None):
    unit = GatedUnit(1, 1).to(device=device, dtype=dtype)
    unit.recurrent_gates.data = unit.recurrent_gates.data.to(recurrent_dtype or dtype)
    return unit


class OtherUnit(GatedUnit):
    """A unit of other equations, as somebody may write one."""

    def step(self, inputs, h):
        return super().step(inputs, h) / 2


class OtherModel(AlignmentModel):
    def energies(self, s, keys):
        return super().energies(s, keys) * 2


CHOICES = [
    # name, the unit, what the log says, or the error
    ("auto", unit_on(), "fast kernels run the encoder (--kernels auto: on a CPU)"),
    ("auto", unit_on(dtype=torch.bfloat16), "fast kernels"),
    ("auto", unit_on(dtype=torch.float64), "fast kernels"),
    ("auto", unit_on(dtype=torch.float16), "reference kernels run the encoder "
                                           "(--kernels auto: no fast ones for float16)"),
    ("auto", unit_on("meta"), "gpu kernels run the encoder (--kernels auto: on a GPU)"),
    ("auto", OtherUnit(1, 1).to("meta"), "no fast ones for OtherUnit, no gpu ones for OtherUnit)"),
    ("gpu", unit_on("meta"), "gpu kernels run the encoder (--kernels gpu)"),
    ("gpu", unit_on(), ValueError("--kernels gpu runs on a GPU, .* and not with device cpu")),
    ("gpu", unit_on("meta", torch.float16), ValueError("not with float16: use --kernels auto")),
    ("gpu", OtherUnit(1, 1).to("meta"), ValueError("not with OtherUnit: use --kernels auto")),
    ("auto", OtherUnit(1, 1), "reference kernels run the encoder "
                              "(--kernels auto: no fast ones for OtherUnit)"),
    ("auto", OtherModel(1, 1, 1), "no fast ones for OtherModel)"),
    ("reference", unit_on(), "reference kernels run the encoder (--kernels reference)"),
    ("reference", unit_on(dtype=torch.float16), "reference kernels"),
    ("fast", unit_on(), "fast kernels run the encoder (--kernels fast)"),
    ("fast", unit_on(dtype=torch.float16), ValueError("not with float16: use --kernels auto")),
    ("fast", unit_on("meta"), ValueError("not with device meta")),
    ("fast", unit_on(recurrent_dtype=torch.float64), ValueError("with float32 beside float64")),
    ("fast", OtherUnit(1, 1), ValueError("not with OtherUnit: use --kernels auto")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "unit", "expected"), CHOICES)
def test_choice_is_made_and_told_once(name, unit, expected, caplog):
    kernels._announce.cache_clear()
    if isinstance(expected, Exception):
        with pytest.raises(type(expected), match=str(expected)):
            choose(name, [unit], "encoder")
        return
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            backend = choose(name, [unit], "encoder")
    [record] = caplog.records
    assert expected in record.getMessage()
    assert backend is BACKENDS[record.getMessage().split()[0]]


def test_the_choice_is_made_anew_when_parameters_are_cast(monkeypatch):
    network, seen = random_model().float().decoder, []
    monkeypatch.setattr(kernels, "choose", lambda *args: seen.append(args) or choose(*args))
    assert {network.backend.name for _ in range(3)} == {"fast"} and len(seen) == 1
    network.bfloat16()
    assert {network.backend.name for _ in range(3)} == {"fast"} and len(seen) == 2
    network.half()
    assert network.backend.name == "reference" and len(seen) == 3
    network.double().kernels = "reference"
    assert network.backend is reference
    network.kernels = "auto"
    with torch.autocast("cpu", torch.bfloat16):
        assert network.backend is reference  # not for float64
    assert network.backend.name == "fast"


def test_kernels_of_another_machine_are_for_its_training_alone():
    """A model that was trained with --kernels gpu translates where there is none."""
    network = random_model(kernels="gpu").float().decoder
    with pytest.raises(ValueError, match="--kernels gpu runs on a GPU"):
        network.train().backend  # noqa: B018
    assert network.eval().backend.name == "fast"
