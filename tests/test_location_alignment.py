"""The ablations' alignment models with a state: against NumPy float64, searched and trained."""

import numpy as np
import pytest
import test_network
import torch
from models import (
    EOS,
    PAD,
    SOURCES,
    TARGETS,
    arm,
    arrays_of,
    batch_of,
    build_model,
    cost_of,
    random_model,
    score,
    talker,
)
from oracles import numpy_rnnsearch as oracle
from test_network import EXACT
from torch.testing import assert_close

from fairseq_rnnsearch.decoding.search import BeamSearch
from fairseq_rnnsearch.network import DECODER_ORDERS

LOCATION, COVERAGE = arm("location"), arm("coverage")
KINDS = pytest.mark.parametrize("kind", [LOCATION, COVERAGE], ids=["location", "coverage"])
F = "decoder.alignment_model.location_weight"


# --- the oracle: the authors' arrays and f, (2r + 1, n'), under our name --------------------------


def attend(p, annotations, s, b):
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


def forward(p, x, y, order, kind):
    """log p(. | y_<i, x), (Ty, K), and alpha, (Ty, Tx)."""
    annotations, y_prev, found = oracle.encode(p, x), None, []
    s, b = oracle.initial_state(p, annotations), np.zeros(len(x))
    for word in y:
        c, alpha = attend(p, annotations, s, b)
        following = oracle.transition(p, s, word if order == "program" else y_prev, c)
        read = following if order == "section3" else s
        found.append((oracle.readout(p, read, y_prev, c), alpha))
        s, y_prev, b = following, word, alpha if kind is LOCATION else b + alpha
    return [np.array(side) for side in zip(*found, strict=True)]


@KINDS
@pytest.mark.parametrize("order", DECODER_ORDERS)
def test_outputs_and_gradients_equal_the_oracle(order, kind):
    model = random_model(output_layer="factorised", decoder_order=order, kind=kind)
    p, scored = arrays_of(model), score(model, SOURCES, TARGETS)
    for x, y, found in zip(SOURCES, TARGETS, scored, strict=True):
        assert_close(found, tuple(map(torch.tensor, forward(p, x, y, order, kind))), **EXACT)
    cost_of(scored, TARGETS).backward()

    def cost():
        pairs = zip(SOURCES, TARGETS, strict=True)
        return -sum(forward(p, x, y, order, kind)[0][range(len(y)), y].sum() for x, y in pairs)

    gradient = model.get_parameter(F).grad
    place = np.unravel_index(gradient.abs().argmax().item(), gradient.shape)
    slope = oracle.numeric_gradient(cost, p[F], place[::-1])
    assert gradient[place].item() == pytest.approx(slope, rel=1e-6)


@KINDS
def test_what_holds_for_any_parameters_holds_for_these(kind):
    """Padding, steps, a beam that is reordered, and bfloat16."""
    options = {"kind": kind}
    for left in (False, True):
        test_network.test_padding_changes_nothing(options, left, left)
        test_network.test_steps_equal_teacher_forcing(options, left)
    test_network.test_reordered_beam_equals_starting_again(options)
    test_network.test_bfloat16_is_close_to_float32(options)


@KINDS
@pytest.mark.parametrize("order", DECODER_ORDERS)
@pytest.mark.parametrize("most", [1, 4])
def test_beam_search_equals_scoring_of_whole_translations(order, kind, most):
    """All translations of one word, and the best of longer ones, see the weights before."""
    model = talker(decoder_order=order, kind=kind)
    words = model.decoder.dictionary
    search = BeamSearch([model], words, beam_size=len(words) - 2, max_len_a=0, max_len_b=most)
    for x, beam in zip(SOURCES, search.generate([model], batch_of(SOURCES, SOURCES)), strict=True):
        found = [one["tokens"].tolist() for one in beam]
        every = [[word, EOS] for word in range(len(words)) if word not in (PAD, EOS)]
        expected = every if most == 1 else found
        scored = score(model, [x] * len(expected), expected)
        means = [
            lprobs[range(len(y)), y].mean().item()
            for (lprobs, _), y in zip(scored, expected, strict=True)
        ]
        best = sorted(range(len(means)), key=means.__getitem__, reverse=True)
        assert found == [expected[n] for n in best]
        assert [float(one["score"]) for one in beam] == pytest.approx([means[n] for n in best])
        for one, n in zip(beam, best, strict=True):
            alpha = one["attention"].T[:, : len(x)].double()
            assert_close(alpha, scored[n][1], rtol=0, atol=1e-6)  # float32


@KINDS
def test_it_learns(kind):
    torch.manual_seed(1)
    model = build_model(kind=kind)
    assert model.decoder.backend.name == "reference"
    before = model.get_parameter(F).detach().clone()
    optimizer, costs = torch.optim.Adam(model.parameters(), lr=0.03), []
    for _ in range(30):
        optimizer.zero_grad()
        costs.append(cost_of(score(model, SOURCES, TARGETS), TARGETS))
        costs[-1].backward()
        optimizer.step()
    assert costs[-1] < 0.7 * costs[0]
    assert not torch.equal(model.get_parameter(F), before)
