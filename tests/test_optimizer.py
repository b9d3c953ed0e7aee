"""Adadelta as the paper ran it: the step that really is taken, and what is kept of it."""

import copy
import logging
import math

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from fairseq.optim import OPTIMIZER_REGISTRY
from fairseq.optim.lr_scheduler.fixed_schedule import FixedLRSchedule, FixedLRScheduleConfig
from numpy.testing import assert_allclose
from oracles import numpy_rnnsearch as oracle
from torch.testing import assert_close

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.plugin import one_pass_adadelta as one_pass
from fairseq_rnnsearch.plugin.adadelta import RNNSearchAdadelta, RNNSearchAdadeltaConfig

START = ([[1.0, -2.0], [0.5, 3.0]], [-1.5, 0.25])


def parameters(dtype=torch.float64):
    return [torch.nn.Parameter(torch.tensor(values, dtype=dtype)) for values in START]


def build(params, lr=0.25, **options):
    return RNNSearchAdadelta(RNNSearchAdadeltaConfig(lr=[lr], **options), params)


def give_gradients(params, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in params:
        gradient = torch.randn(parameter.shape, dtype=torch.float64, generator=generator)
        parameter.grad = gradient.to(parameter.dtype)


def update(optimizer, params, seed, clip_norm=1.0):
    give_gradients(params, seed)
    optimizer.clip_grad_norm(clip_norm)
    optimizer.step()


def values(params):
    return [parameter.detach().clone() for parameter in params]


def accumulators(optimizer):
    return [
        optimizer.optimizer.state[p][key].clone()
        for p in optimizer.params
        for key in ("square_avg", "acc_delta")
    ]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def oracle_updates(seeds, step=1.0, clip_norm=1.0, rho=0.95, eps=1e-6):
    """The oracle's parameters after one update for each seed."""
    arrays = [np.array(v) for v in START]
    g2, dx2 = ([np.zeros_like(a) for a in arrays] for _ in range(2))
    for seed in seeds:
        params = parameters()
        give_gradients(params, seed)
        grads = oracle.clip({i: p.grad.numpy() for i, p in enumerate(params)}, clip_norm)
        for i, gradient in grads.items():
            new, g2[i], dx2[i] = oracle.adadelta_step(
                arrays[i], gradient, g2[i], dx2[i], rho=rho, eps=eps
            )
            arrays[i] = arrays[i] + step * (new - arrays[i])
    return arrays


def assert_equals(params, arrays):
    for parameter, array in zip(params, arrays, strict=True):
        assert_allclose(parameter.detach(), array, rtol=1e-13, atol=1e-14)


# --- the step ------------------------------------------------------------------------------------


def test_the_paper_s_values_are_the_defaults():
    config = RNNSearchAdadeltaConfig()
    found = config.adadelta_rho, config.adadelta_eps, config.adadelta_step, config.weight_decay
    assert found == (0.95, 1e-6, 1.0, 0.0)
    assert config.nonfinite == "skip"
    assert OPTIMIZER_REGISTRY["rnnsearch_adadelta"] is RNNSearchAdadelta


@pytest.mark.parametrize("lr", [0.25, 7.0])
def test_the_step_is_one_whatever_lr_says(lr):
    """fairseq's fixed scheduler sets the learning rate to --lr again and again."""
    params = parameters()
    optimizer = build(params, lr)
    scheduler = FixedLRSchedule(FixedLRScheduleConfig(lr=[lr]), optimizer)
    scheduler.step_begin_epoch(1)
    for number, seed in enumerate((1, 2, 3)):
        scheduler.step_update(number)
        update(optimizer, params, seed)
    assert_equals(params, oracle_updates((1, 2, 3)))
    assert optimizer.get_lr() == pytest.approx(lr)


@pytest.mark.parametrize(
    "options",
    [
        {"nonfinite": "skip"},
        {"nonfinite": "shrink"},
        {"nonfinite": "raise"},
        {"adadelta_step": 0.5},
        {"adadelta_rho": 0.8},
        {"adadelta_eps": 1e-3},
        {"adadelta_step": 2.0, "adadelta_rho": 0.5, "adadelta_eps": 1e-8},
    ],
)
def test_each_option_reaches_the_update(options):
    params = parameters()
    optimizer = build(params, **options)
    for seed in (1, 2):
        update(optimizer, params, seed)
    expected = {name.removeprefix("adadelta_"): value for name, value in options.items()}
    expected.pop("nonfinite", None)  # these gradients are finite
    assert_equals(params, oracle_updates((1, 2), **expected))


@pytest.mark.parametrize("clip_norm", [0, 0.5])
def test_weight_decay_reaches_the_update_and_is_not_clipped(clip_norm):
    params, plain = parameters(), parameters()
    optimizer = build(params, weight_decay=0.1)
    update(optimizer, params, 1, clip_norm)
    give_gradients(plain, 1)
    clipped = oracle.clip(dict(enumerate(p.grad.numpy() for p in plain)), clip_norm or math.inf)
    for i, parameter in enumerate(plain):
        parameter.grad = torch.from_numpy(clipped[i]) + 0.1 * parameter.detach()
    build(plain).step()
    assert_equals(params, [p.detach().numpy() for p in plain])


@pytest.mark.parametrize(("lr", "scaled"), [(0.25, 1.0), (0.125, 0.5), (1.0, 4.0), (0.0, 0.0)])
@pytest.mark.parametrize("step", [1.0, 0.3])
def test_schedulers_scale_the_step_by_lr_over_initial_lr(lr, scaled, step):
    params = parameters()
    optimizer = build(params, 0.25, adadelta_step=step)
    optimizer.set_lr(lr)
    assert optimizer.get_lr() == pytest.approx(lr)
    update(optimizer, params, 1)
    assert_equals(params, oracle_updates((1,), step=step * scaled))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("threads", [1, 2])
def test_one_pass_equals_torch_s_own(dtype, weight_decay, threads, monkeypatch):
    """Few numbers and many; and either goes on from the other's state."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    generator = torch.Generator().manual_seed(0)
    shapes = [(64,), (3, 5), (130, 129), (), (0, 4), (128, 2)]
    ours, theirs = (
        [torch.nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in shapes] for _ in range(2)
    )
    optimizers = [
        kind(params, lr=1.0, rho=0.95, eps=1e-6, weight_decay=weight_decay)
        for kind, params in ((one_pass.OnePassAdadelta, ours), (torch.optim.Adadelta, theirs))
    ]
    for update in range(6):
        for one, other in zip(ours, theirs, strict=True):
            if one.numel() != 15 or update % 2:  # one has no gradient now and then
                one.grad = torch.randn(one.shape, dtype=dtype, generator=generator)
                other.grad = one.grad.clone()
            else:
                one.grad = other.grad = None
        for optimizer in optimizers:
            optimizer.step()
        if update == 3:
            states = [copy.deepcopy(optimizer.state_dict()) for optimizer in optimizers]
            for optimizer, state in zip(optimizers, reversed(states), strict=True):
                optimizer.load_state_dict(state)
        rtol = 8 * torch.finfo(dtype).eps  # C rounds once where it multiplies and adds
        assert_close(ours, theirs, rtol=rtol, atol=rtol)
        states = [optimizer.state_dict()["state"] for optimizer in optimizers]
        assert_close(*states, rtol=rtol, atol=0)


def test_numbers_that_are_stored_in_another_way_are_updated_too():
    """C would read and write what is beside them; a checkpoint may hold such averages."""
    starts = torch.ones(5, 3), torch.ones(3, 5).T, torch.ones(5, 3)
    params = [torch.nn.Parameter(start) for start in starts]
    for parameter in params:
        optimizer = one_pass.OnePassAdadelta([parameter], lr=1.0)
        for _ in range(2):
            parameter.grad = torch.arange(15.0).view(5, 3)
            optimizer.step()
            if parameter is params[-1]:
                state = optimizer.state[parameter]
                state["square_avg"] = state["square_avg"].T.contiguous().T
    assert not params[1].is_contiguous() and not state["square_avg"].is_contiguous()
    for parameter in params[1:]:
        assert_close(parameter, params[0], rtol=1e-6, atol=0)
    assert (parameter != 1).any()


@pytest.mark.parametrize("on_a_gpu", [False, True])
def test_what_lies_between_a_parameters_numbers_stays(on_a_gpu, monkeypatch):
    monkeypatch.setattr(one_pass, "runs_triton", lambda tensor: on_a_gpu)
    memory = torch.ones(4, 5)
    parameter = torch.nn.Parameter(memory[:, :3])
    parameter.grad = torch.ones(4, 3)
    one_pass.OnePassAdadelta([parameter]).step()
    assert (memory[:, :3] < 1).all() and (memory[:, 3:] == 1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_norm_does_not_depend_on_threads(dtype, monkeypatch):
    gradients = [torch.randn(size, dtype=dtype) for size in (3, 100_003, 0)]
    norms = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        norms.append(one_pass.norm_of(gradients))
    assert norms[0].dtype is dtype and norms[0] == norms[1] == norms[2]
    expected = math.sqrt(sum((gradient.double() ** 2).sum() for gradient in gradients))
    assert norms[0].item() == pytest.approx(expected, rel=torch.finfo(dtype).eps)


def test_a_norm_is_finite_although_its_square_is_not():
    gradients = [torch.full((3,), 1e25), torch.tensor([2e25])]
    assert float(one_pass.norm_of(gradients)) == pytest.approx(math.sqrt(7) * 1e25, rel=1e-6)


@pytest.mark.parametrize("factor", [1, 0.25, torch.tensor(0.5)])
def test_gradients_are_multiplied(factor):
    params = parameters()
    give_gradients(params, 1)
    expected = [parameter.grad * factor for parameter in params]
    build(params).multiply_grads(factor)
    assert same([parameter.grad for parameter in params], expected)


# --- clipping ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clip_norm", "factor"), [(1.0, 0.2), (2.5, 0.5), (5.0, 1.0), (6.0, 1.0), (0.0, 1.0)]
)
@pytest.mark.parametrize(
    ("dtype", "rtol"), [(torch.float64, 1e-15), (torch.float32, 1e-6), (torch.bfloat16, 1e-2)]
)
def test_clipping(clip_norm, factor, dtype, rtol):
    """A gradient of norm 5; fairseq's own adds 1e-6 to it and cannot measure it in float64."""
    params = parameters(dtype)
    params[0].grad = torch.tensor([[3.0, 0.0], [0.0, 0.0]], dtype=dtype)
    params[1].grad = torch.tensor([0.0, -4.0], dtype=dtype)
    optimizer = build(params)
    norm = optimizer.clip_grad_norm(clip_norm)
    assert norm.item() == pytest.approx(5.0, rel=1e-6)
    optimizer.step()
    # the sizes of the gradients that the update has used, from its E[g^2]
    rest = 1 - optimizer.cfg.adadelta_rho
    states = optimizer.optimizer.state.values()
    first, second = ((state["square_avg"] / rest).sqrt() for state in states)
    assert first[0, 0].item() == pytest.approx(3.0 * factor, rel=rtol)
    assert second[1].item() == pytest.approx(4.0 * factor, rel=rtol)
    assert not first[1].any()
    assert params[1][1] > START[1][1]


def test_gradients_that_are_none_or_zero_change_nothing():
    params = parameters()
    optimizer, before = build(params), values(params)
    for gradient in (None, torch.zeros(2, dtype=torch.float64)):
        params[1].grad = gradient
        assert optimizer.clip_grad_norm(1.0) == 0
        optimizer.step()
        assert same(values(params), before)  # no 0 / 0


# --- a gradient that is not finite ---------------------------------------------------------------


def poisoned(bad, **options):
    """Return an optimizer that has made two updates, and then a gradient with one bad number."""
    params = parameters()
    optimizer = build(params, **options)
    for seed in (1, 2):
        update(optimizer, params, seed)
    give_gradients(params, 3)
    params[0].grad[1, 0] = bad
    return optimizer, params


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
@pytest.mark.parametrize("clip_norm", [1.0, 0.0])
def test_skip_touches_nothing_and_is_counted(caplog, bad, clip_norm):
    optimizer, params = poisoned(bad, nonfinite="skip")
    before, state = values(params), accumulators(optimizer)
    with metrics.aggregate() as logged, caplog.at_level(logging.WARNING):
        norm = optimizer.clip_grad_norm(clip_norm)
        assert not torch.isfinite(norm) and optimizer.handles_nonfinite()
        optimizer.step()
        assert same(values(params), before)
        assert same(accumulators(optimizer), state)
        give_gradients(params, 4)
        params[1].grad[0] = bad
        optimizer.clip_grad_norm(clip_norm)
        optimizer.step()
    assert same(values(params), before)
    assert logged.get_smoothed_values()["nonfinite"] == 2
    assert "update skipped (--nonfinite skip; 2 so far)" in caplog.text
    # the next good gradient counts again, as if nothing had been
    update(optimizer, params, 5)
    assert_equals(params, oracle_updates((1, 2, 5)))


def test_an_interruption_does_not_reset_the_count_of_a_row():
    optimizer = build(parameters(), nonfinite_limit=3)
    with metrics.aggregate(), pytest.raises(UserError, match="3 updates in a row had a gradient"):
        for _ in range(4):
            params, resumed = parameters(), optimizer.state_dict()
            optimizer = build(params, nonfinite_limit=3)
            optimizer.load_state_dict(resumed)
            give_gradients(params, 3)
            params[0].grad[1, 0] = math.nan
            optimizer.clip_grad_norm(1.0)
            optimizer.step()


def test_a_limit_of_zero_never_ends_a_training(caplog):
    optimizer, _ = poisoned(math.nan, nonfinite_limit=0)
    with metrics.aggregate():
        for _ in range(25):
            optimizer.clip_grad_norm(1.0)
            optimizer.step()
    assert "25 so far" in caplog.text


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_raise_hands_the_norm_to_the_trainer(bad):
    optimizer, _ = poisoned(bad, nonfinite="raise")
    assert not torch.isfinite(optimizer.clip_grad_norm(1.0)) and not optimizer.handles_nonfinite()
