"""The ablations' general and dot alignment models: against NumPy float64, and step by step."""

import numpy as np
import pytest
import test_network
import torch
from models import (
    PAD,
    SOURCES,
    TARGETS,
    arm,
    arrays_of,
    build_model,
    cost_of,
    padded,
    previous,
    random_model,
    score,
)
from oracles import numpy_rnnsearch as oracle
from test_network import EXACT
from torch.testing import assert_close

from fairseq_rnnsearch.models.authors_parameters import PARAMETERS
from fairseq_rnnsearch.network import DECODER_ORDERS

DOT = {"kind": arm("dot"), "decoder_hidden_size": 10}  # twice the 5 of the encoder
GENERAL = {"kind": arm("general")}
MODELS = [
    *(GENERAL | {"decoder_order": order} for order in DECODER_ORDERS),
    *(DOT | {"decoder_order": order} for order in DECODER_ORDERS),
]
EVERY_MODEL = pytest.mark.parametrize("options", MODELS, ids=str)


# --- the oracle: the authors' arrays, but another a ---------------------------------------------


def attend(p, annotations, s):
    """c_i, (2n,), and alpha_i, (Tx,), of e_ij = s . h_j A; A, (2n, n), is the identity for dot."""
    energies = np.array([s @ (h_j @ p["A_dec_transition_0"]) for h_j in annotations])
    alpha = np.exp(oracle.log_softmax(energies))
    return sum(alpha_j * h_j for alpha_j, h_j in zip(alpha, annotations, strict=True)), alpha


@pytest.mark.parametrize("options", MODELS, ids=str)
def test_outputs_and_gradients_equal_the_oracle(options, monkeypatch):
    monkeypatch.setattr(oracle, "attend", attend)
    model = random_model(output_layer="factorised", **options)
    arrays = {"A_dec_transition_0": np.eye(10)} | arrays_of(model)
    order = options["decoder_order"]
    scored, pairs = score(model, SOURCES, TARGETS), list(zip(SOURCES, TARGETS, strict=True))
    for (x, y), (lprobs, weights) in zip(pairs, scored, strict=True):
        expected = oracle.forward(arrays, x, y, order)
        assert_close(lprobs, torch.tensor(expected.next_logprobs), **EXACT)
        assert_close(weights, torch.tensor(expected.alignment), **EXACT)
    cost_of(scored, TARGETS).backward()
    for name, parameter in model.named_parameters():
        if len(PARAMETERS[name]) == 1 and parameter.dim() == 2 and "embedding" not in name:
            place = np.unravel_index(parameter.grad.abs().argmax().item(), parameter.shape)
            slope = oracle.numeric_gradient(
                lambda: oracle.cost(arrays, pairs, order), arrays[PARAMETERS[name][0]], place[::-1]
            )
            assert parameter.grad[place].item() == pytest.approx(slope, rel=1e-6), name


@EVERY_MODEL
def test_what_holds_for_any_parameters_holds_for_these(options):
    """Padding, gradients of all parameters, steps, a beam that is reordered, and bfloat16."""
    for left in (False, True):
        test_network.test_padding_changes_nothing(options, left, left)
        test_network.test_steps_equal_teacher_forcing(options, left)
        source = padded(SOURCES, left)
        weights = random_model(**options)(source, None, padded(previous(TARGETS)))[1]["attn"][0]
        assert not weights.transpose(1, 2)[source.eq(PAD)].any()
        assert_close(weights.sum(-1), torch.ones(4, 5).double(), **EXACT)
    test_network.test_reordered_beam_equals_starting_again(options)
    test_network.test_bfloat16_is_close_to_float32(options)


@pytest.mark.parametrize("options", [DOT, GENERAL])
def test_the_reference_kernels_run_it(options):
    model = build_model(output_layer="factorised", **options)
    assert model.decoder.backend.name == "reference"
