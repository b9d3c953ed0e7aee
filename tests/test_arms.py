"""The ablations' models: against oracles in NumPy float64, and step by step."""

import numpy as np
import pytest
import test_network
import torch
from models import (
    SOURCES,
    TARGETS,
    arm,
    arrays_of,
    build_model,
    cost_of,
    random_model,
    score,
)
from oracles import numpy_rnnsearch as oracle
from slow_cases import cases
from test_network import EXACT
from torch.testing import assert_close

from fairseq_rnnsearch.models.authors_parameters import PARAMETERS
from fairseq_rnnsearch.network import DECODER_ORDERS

LSTM, LOCATION, COVERAGE = {"kind": arm("long_short_term_memory")}, arm("location"), arm("coverage")
DOT = {"kind": arm("dot"), "decoder_hidden_size": 10}  # twice the 5 of the encoder
GENERAL = {"kind": arm("general")}
UNITS = [
    LSTM | {"decoder_order": order, "fixed_context": fixed}
    for order in DECODER_ORDERS
    for fixed in (False, True)
]
PRODUCTS = [kind | {"decoder_order": order} for kind in (GENERAL, DOT) for order in DECODER_ORDERS]
STATEFUL = [{"kind": kind} for kind in (LOCATION, COVERAGE)]
CHANGES = ("forward_encoder", "tanh_readout", "start_from_mean", "start_from_zero", "reset_after")
CHANGED = [{"kind": arm(name)} for name in CHANGES]  # each has a test in test_ablations.py
KINDS = pytest.mark.parametrize("kind", [LOCATION, COVERAGE], ids=["location", "coverage"])
PAIRS = list(zip(SOURCES, TARGETS, strict=True))


def assert_slope(gradient, array, cost, name):
    """The largest number of a gradient is what the oracle's cost changes by."""
    place = np.unravel_index(gradient.abs().argmax().item(), gradient.shape)
    slope = oracle.numeric_gradient(cost, array, place[::-1])
    assert gradient[place].item() == pytest.approx(slope, rel=1e-6), name


# --- LSTM units: every matrix is used as x @ W ----------------------------------------------------

SIDES = {"encoder.forward_unit": "enc", "encoder.backward_unit": "back_enc"}
SIDES |= {"decoder.unit": "dec"}


def lstm(p, unit, e, context, h, c):
    """h' and c', each (n,), from e (m,), h, c and the context (C,), None in the encoder."""
    x = e @ p[f"{unit}.input_weight"] + h @ p[f"{unit}.recurrent_weight"] + p[f"{unit}.input_bias"]
    if context is not None:
        x = x + context @ p[f"{unit}.context_weight"]
    i, f, g, o = np.split(x, 4)
    c = oracle.sigmoid(f) * c + oracle.sigmoid(i) * np.tanh(g)
    return oracle.sigmoid(o) * np.tanh(c), c


def encode(p, x):
    """Annotations, (Tx, 2n), or (Tx, n) for RNNencdec."""
    e, sides = p["W_0_enc_approx_embdr"][x] + p["b_0_enc_approx_embdr"], []
    for unit, order in (("enc", 1), ("back_enc", -1))[: 1 if oracle.is_rnnencdec(p) else 2]:
        states = [np.zeros((2, len(p["enc.recurrent_weight"])))]  # h and c
        for e_j in e[::order]:
            states.append(lstm(p, unit, e_j, None, *states[-1]))
        sides.append([h for h, _ in states[1:]][::order])
    return np.concatenate(sides, axis=1)


def forward_of_lstm(p, x, y, order):
    """log p(. | y_<i, x), (Ty, K)."""
    annotations, y_prev, found = encode(p, x), None, []
    h = oracle.initial_state(p, annotations)
    c = np.zeros_like(h)
    for word in y:
        context, _ = oracle.attend(p, annotations, h)
        e = oracle.embed_target(p, word if order == "program" else y_prev)
        s, c = lstm(p, "dec", e, context, h, c)
        found.append(oracle.readout(p, s if order == "section3" else h, y_prev, context))
        h, y_prev = s, word
    return np.array(found)


def array_name(name):
    unit, _, kind = name.rpartition(".")
    return f"{SIDES[unit]}.{kind}" if unit in SIDES else PARAMETERS[name][0]


@pytest.mark.parametrize("options", UNITS, ids=str)
def test_lstm_units_equal_the_oracle(options):
    model = random_model(output_layer="factorised", **options)
    order, scored = options["decoder_order"], score(model, SOURCES, TARGETS)
    tensors = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    p = {array_name(name): v if "embedding" in name else v.T for name, v in tensors.items()}
    p |= {name: v_a[:, None] for name, v_a in p.items() if name == "D_dec_transition_0"}
    for (x, y), (lprobs, _) in zip(PAIRS, scored, strict=True):
        assert_close(lprobs, torch.tensor(forward_of_lstm(p, x, y, order)), **EXACT)
    cost_of(scored, TARGETS).backward()

    def cost():
        return -sum(forward_of_lstm(p, x, y, order)[range(len(y)), y].sum() for x, y in PAIRS)

    for name in filter(lambda name: "unit." in name, tensors):
        parts = np.split(p[array_name(name)], 4, axis=-1)  # views: a part for each gate
        for part, gradient in zip(parts, model.get_parameter(name).grad.chunk(4), strict=True):
            assert_slope(gradient, part, cost, name)


def test_lstm_units_start_by_the_table_of_appendix_b1():
    model = build_model(**LSTM)
    for unit in map(model.get_submodule, SIDES):
        assert not unit.input_bias.any()
        for U in unit.recurrent_weight.detach().split(unit.hidden_size):
            assert_close(U @ U.T, torch.eye(len(U)), rtol=0, atol=1e-5)


# --- alignment models with a state: the authors' arrays and f, (2r + 1, n'), under our name -------

F = "decoder.alignment_model.location_weight"


def attend_by_location(p, annotations, s, b):
    """c_i, (2n,), and alpha_i, (Tx,), where b, (Tx,), is what is known of earlier weights."""
    reach, energies = len(p[F]) // 2, []
    for j, h_j in enumerate(annotations):
        x = s @ p["B_dec_transition_0"] + h_j @ p["A_dec_transition_0"]
        for k in range(-reach, reach + 1):
            if 0 <= j + k < len(b):
                x = x + b[j + k] * p[F][k + reach]
        energies.append(np.tanh(x) @ p["D_dec_transition_0"][:, 0])
    alpha = np.exp(oracle.log_softmax(np.array(energies)))
    return alpha @ annotations, alpha


def forward_with_a_state(p, x, y, order, kind):
    """log p(. | y_<i, x), (Ty, K), and alpha, (Ty, Tx)."""
    annotations, y_prev, found = oracle.encode(p, x), None, []
    s, b = oracle.initial_state(p, annotations), np.zeros(len(x))
    for word in y:
        c, alpha = attend_by_location(p, annotations, s, b)
        following = oracle.transition(p, s, word if order == "program" else y_prev, c)
        read = following if order == "section3" else s
        found.append((oracle.readout(p, read, y_prev, c), alpha))
        s, y_prev, b = following, word, alpha if kind is LOCATION else b + alpha
    return [np.array(side) for side in zip(*found, strict=True)]


@KINDS
@pytest.mark.parametrize("order", DECODER_ORDERS)
def test_alignment_models_with_a_state_equal_the_oracle(order, kind):
    model = random_model(output_layer="factorised", decoder_order=order, kind=kind)
    p, scored = arrays_of(model), score(model, SOURCES, TARGETS)

    def forward(x, y):
        return forward_with_a_state(p, x, y, order, kind)

    for pair, found in zip(PAIRS, scored, strict=True):
        assert_close(found, tuple(map(torch.tensor, forward(*pair))), **EXACT)
    cost_of(scored, TARGETS).backward()
    gradient = model.get_parameter(F).grad
    assert_slope(
        gradient, p[F], lambda: -sum(forward(x, y)[0][range(len(y)), y].sum() for x, y in PAIRS), F
    )


# --- general and dot: the authors' arrays, but another a ------------------------------------------


def attend_by_product(p, annotations, s):
    """c_i, (2n,), and alpha_i, (Tx,), of e_ij = s . h_j A; A, (2n, n), is the identity for dot."""
    energies = np.array([s @ (h_j @ p["A_dec_transition_0"]) for h_j in annotations])
    alpha = np.exp(oracle.log_softmax(energies))
    return sum(alpha_j * h_j for alpha_j, h_j in zip(alpha, annotations, strict=True)), alpha


@pytest.mark.parametrize("options", PRODUCTS, ids=str)
def test_products_as_energies_equal_the_oracle(options, monkeypatch):
    monkeypatch.setattr(oracle, "attend", attend_by_product)
    model = random_model(output_layer="factorised", **options)
    arrays = {"A_dec_transition_0": np.eye(10)} | arrays_of(model)
    order, scored = options["decoder_order"], score(model, SOURCES, TARGETS)
    for (x, y), (lprobs, weights) in zip(PAIRS, scored, strict=True):
        expected = oracle.forward(arrays, x, y, order)
        assert_close(lprobs, torch.tensor(expected.next_logprobs), **EXACT)
        assert_close(weights, torch.tensor(expected.alignment), **EXACT)
    cost_of(scored, TARGETS).backward()
    for name, parameter in model.named_parameters():
        if len(PARAMETERS[name]) == 1 and parameter.dim() == 2 and "embedding" not in name:
            array = arrays[PARAMETERS[name][0]]
            assert_slope(parameter.grad, array, lambda: oracle.cost(arrays, PAIRS, order), name)


# --- all of them ----------------------------------------------------------------------------------

MODELS = [*UNITS, *STATEFUL, *PRODUCTS, *CHANGED]
QUICK = UNITS[0], UNITS[-1], *STATEFUL, PRODUCTS[0], PRODUCTS[-1], *CHANGED


@pytest.mark.parametrize("options", cases(MODELS, *QUICK), ids=str)
def test_what_holds_for_any_parameters_holds_for_these(options):
    """Padding, gradients of all parameters, steps, and a beam that is reordered."""
    for left in (False, True):
        test_network.test_padding_changes_nothing(options, left, left)
        test_network.test_steps_equal_teacher_forcing(options, left)
        if not options.get("fixed_context"):
            test_network.test_weights_at_padding_are_zero_and_rows_sum_to_one(left, **options)
    test_network.test_reordered_beam_equals_starting_again(options)
