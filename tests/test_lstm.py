"""The ablations' LSTM: against an oracle in NumPy float64, torch's own, and step by step."""

import numpy as np
import pytest
import test_network
import torch
from models import PAD, SOURCES, TARGETS, arm, build_model, cost_of, padded, random_model, score
from oracles import numpy_rnnsearch as oracle
from test_network import EXACT
from torch.testing import assert_close

from fairseq_rnnsearch.models.authors_parameters import PARAMETERS
from fairseq_rnnsearch.network import DECODER_ORDERS

LSTM = arm("long_short_term_memory")
MODELS = [{"decoder_order": o, "fixed_context": f} for o in DECODER_ORDERS for f in (False, True)]
EVERY_MODEL = pytest.mark.parametrize("options", MODELS, ids=str)
SIDES = {"encoder.forward_unit": "enc", "encoder.backward_unit": "back_enc"}
SIDES |= {"decoder.unit": "dec"}


# --- the oracle: NumPy alone, a sentence at a time, every matrix used as x @ W -------------------


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


def forward(p, x, y, order):
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


def cost(p, order):
    pairs = zip(SOURCES, TARGETS, strict=True)
    return -sum(forward(p, x, y, order)[range(len(y)), y].sum() for x, y in pairs)


def array_name(name):
    unit, _, kind = name.rpartition(".")
    return f"{SIDES[unit]}.{kind}" if unit in SIDES else PARAMETERS[name][0]


@EVERY_MODEL
def test_outputs_and_gradients_equal_the_oracle(options):
    model = random_model(kind=LSTM, output_layer="factorised", **options)
    order, scored = options["decoder_order"], score(model, SOURCES, TARGETS)
    tensors = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    p = {array_name(name): v if "embedding" in name else v.T for name, v in tensors.items()}
    p |= {name: v_a[:, None] for name, v_a in p.items() if name == "D_dec_transition_0"}
    for x, y, (lprobs, _) in zip(SOURCES, TARGETS, scored, strict=True):
        assert_close(lprobs, torch.tensor(forward(p, x, y, order)), **EXACT)
    cost_of(scored, TARGETS).backward()
    for name in filter(lambda name: "unit." in name, tensors):
        parts = np.split(p[array_name(name)], 4, axis=-1)  # views: a part for each gate
        for part, gradient in zip(parts, model.get_parameter(name).grad.chunk(4), strict=True):
            place = np.unravel_index(gradient.abs().argmax().item(), gradient.shape)
            slope = oracle.numeric_gradient(lambda: cost(p, order), part, place[::-1])
            assert gradient[place].item() == pytest.approx(slope, rel=1e-6), name


def test_the_encoder_equals_torch_s():
    model, theirs = random_model(kind=LSTM), torch.nn.LSTM(4, 5, bidirectional=True).double()
    network, weights = model.encoder, []
    for unit in (network.forward_unit, network.backward_unit):
        weights += [unit.input_weight, unit.recurrent_weight, unit.input_bias, 0 * unit.input_bias]
    theirs.load_state_dict(dict(zip(theirs.state_dict(), weights, strict=True)))
    for tokens in (padded(SOURCES), padded(SOURCES, left=True)):
        found = model.encoder(tokens).source.annotations
        for row, words, source in zip(found, tokens, SOURCES, strict=True):
            expected, _ = theirs(network.embedding(torch.tensor(source)))
            assert_close(row[words.ne(PAD)], expected, **EXACT)


@EVERY_MODEL
def test_what_holds_for_any_parameters_holds_for_these(options):
    """Padding, steps, a beam that is reordered, and bfloat16, as of gated units."""
    options = options | {"kind": LSTM}
    for left in (False, True):
        test_network.test_padding_changes_nothing(options, left, left)
        test_network.test_steps_equal_teacher_forcing(options, left)
    test_network.test_reordered_beam_equals_starting_again(options)
    test_network.test_bfloat16_is_close_to_float32(options)


def test_it_starts_by_the_table_of_appendix_b1():
    model = build_model(kind=LSTM)
    for unit in map(model.get_submodule, SIDES):
        assert not unit.input_bias.any()
        for U in unit.recurrent_weight.detach().split(unit.hidden_size):
            assert_close(U @ U.T, torch.eye(len(U)), rtol=0, atol=1e-5)


def test_the_reference_kernels_run_it():
    model = build_model(kind=LSTM, output_layer="factorised")
    assert model.decoder.backend.name == "reference"
