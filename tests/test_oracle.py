"""The oracle itself: against the authors' program, and against numbers worked by hand.

Everything else in the suite is compared with the oracle, so it is held to 1e-12 here.
"""

import itertools
from math import exp, log, tanh

import numpy as np
import pytest
from authors import SEARCHES, recorded_searches
from numpy.testing import assert_allclose
from oracles import numpy_rnnsearch as oracle

EXACT = {"rtol": 1e-12, "atol": 1e-12}

SIZES = {"embed": 3, "hidden": 4, "attention": 5, "maxout": 2, "source_words": 7, "target_words": 6}
X, Y = [3, 1, 4, 6], [2, 1, 3, 5]


def reference_pairs(reference):
    """The batch as unpadded pairs; sentence b of the batch is sent{b}."""
    return [(reference[f"sent{b}/x"], reference[f"sent{b}/y"]) for b in range(4)]


# --- against the authors' program ----------------------------------------------------------------


def test_forward_agrees_with_the_program(groundhog_params, reference):
    x_mask, y_mask = reference["x_mask"] > 0, reference["y_mask"] > 0
    for b, (x, y) in enumerate(reference_pairs(reference)):
        Tx, Ty = len(x), len(y)
        assert (x_mask[:, b].sum(), y_mask[:, b].sum()) == (Tx, Ty)
        out = oracle.forward(groundhog_params, x, y)
        recorded = {
            "annotations": reference["annotations"][:Tx, b],
            "init_state": reference["init_state"][b],
            "alignment": reference["alignment"][:Ty, :Tx, b],
            "word_logprobs": reference["word_logprobs"][:Ty, b],
            "states": reference[f"sent{b}/dec_states"],
            "next_logprobs": np.log(reference[f"sent{b}/next_probs"]),
        }
        for name, expected in recorded.items():
            assert_allclose(getattr(out, name), expected, **EXACT, err_msg=name)
        loglik = oracle.log_likelihood(groundhog_params, x, y)
        assert_allclose(loglik, reference["loglik_per_sentence"][b], **EXACT)
    cost = oracle.cost(groundhog_params, reference_pairs(reference))
    assert_allclose(cost, reference["train_cost"], **EXACT)


@pytest.mark.parametrize(
    ("order", "expected"),
    [("program", -21.823068), ("appendix", -21.604705), ("section3", -21.830878)],
)
def test_three_orders_differ_as_recorded(groundhog_params, reference, order, expected):
    x, y = reference_pairs(reference)[0]
    assert_allclose(oracle.log_likelihood(groundhog_params, x, y, order), expected, atol=5e-7)


def test_gradient_of_the_cost_agrees_with_the_program(groundhog_params, reference):
    pairs = reference_pairs(reference)
    for name, array in groundhog_params.items():
        expected = reference[f"grad/{name}"]
        index = np.unravel_index(np.argmax(np.abs(expected)), expected.shape)
        estimate = oracle.numeric_gradient(
            lambda: oracle.cost(groundhog_params, pairs), array, index, 1e-5
        )
        assert_allclose(estimate, expected[index], rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("label", SEARCHES)
def test_beam_search_agrees_with_the_program(groundhog_params, label):
    runs, changed = recorded_searches(label)
    groundhog_params |= changed
    assert len(runs) >= 8
    for run in runs:
        # The oracle is left to its default limits, which are these.
        words_and_end = len(run["source"])
        assert (run["minlen"], run["max_steps"]) == (words_and_end // 2, 3 * words_and_end)
        # The last call is the one that found something; those before it came back empty.
        for call, (beam, ignore_unk) in enumerate(run["search_calls"], start=1):
            found = oracle.beam_search(
                groundhog_params,
                run["source"],
                beam,
                24,  # ends a sentence in the recorded runs
                1,  # the unknown word
                ignore_unk,
            )
            if call < len(run["search_calls"]):
                assert found == ([], [])
        translations, costs = found
        assert translations == run["translations"]
        assert translations[0] == run["best"]
        assert_allclose(costs, run["costs"], **EXACT)


# --- without the authors' numbers ----------------------------------------------------------------


def sigmoid(a):
    return 1 / (1 + exp(-a))


@pytest.mark.parametrize("order", oracle.ORDERS)
def test_rnnencdec_of_size_one_by_hand(order):
    """n = m = l = 1, three target words, every sum written out in scalars."""
    column = {
        # e(x) = 0.5, -1.0 plus 0.1
        "W_0_enc_approx_embdr": [[0.5], [-1.0]],
        "b_0_enc_approx_embdr": [0.1],
        "W_0_enc_input_embdr_0": [[0.7]],
        "b_0_enc_input_embdr_0": [-0.2],
        "W_0_enc_update_embdr_0": [[0.3]],
        "W_0_enc_reset_embdr_0": [[-0.6]],
        "W_enc_transition_0": [[1.1]],
        "G_enc_transition_0": [[0.4]],
        "R_enc_transition_0": [[-0.9]],
        # e(y) = 0.2, 0.8, -0.4 plus 0.05
        "W_0_dec_approx_embdr": [[0.2], [0.8], [-0.4]],
        "b_0_dec_approx_embdr": [0.05],
        "W_0_dec_input_embdr_0": [[-0.5]],
        "b_0_dec_input_embdr_0": [0.3],
        "W_0_dec_update_embdr_0": [[0.9]],
        "W_0_dec_reset_embdr_0": [[0.25]],
        "W_dec_transition_0": [[-0.8]],
        "G_dec_transition_0": [[0.15]],
        "R_dec_transition_0": [[0.35]],
        "W_0_dec_dec_inputter_0": [[1.3]],
        "W_0_dec_dec_updater_0": [[-0.7]],
        "W_0_dec_dec_reseter_0": [[0.45]],
        "W_0_dec_initializer_0": [[2.0]],
        "b_0_dec_initializer_0": [0.6],
        "W_0_dec_hid_readout_0": [[1.0, -1.5]],
        "b_0_dec_hid_readout_0": [0.1, -0.1],
        "W_0_dec_prev_readout_0": [[0.4, 0.6]],
        "W_0_dec_repr_readout": [[-0.2, 0.5]],
        "W1_dec_deep_softmax": [[2.0]],
        "W2_dec_deep_softmax": [[0.5, -1.0, 1.5]],
        "b_dec_deep_softmax": [0.0, 0.3, -0.3],
    }
    params = {name: np.array(values) for name, values in column.items()}

    # Source words 0, 1: e = 0.6, -0.9. The first state starts from zero, so its reset gate is idle.
    h_1 = sigmoid(0.3 * 0.6) * tanh(0.7 * 0.6 - 0.2)
    z = sigmoid(0.3 * -0.9 + 0.4 * h_1)
    r = sigmoid(-0.6 * -0.9 - 0.9 * h_1)
    h_2 = z * tanh(0.7 * -0.9 - 0.2 + 1.1 * r * h_1) + (1 - z) * h_1
    c = h_2
    s_0 = tanh(2.0 * c + 0.6)

    def f(s, e):
        z = sigmoid(0.9 * e + 0.15 * s - 0.7 * c)
        r = sigmoid(0.25 * e + 0.35 * s + 0.45 * c)
        return z * tanh(-0.5 * e + 0.3 - 0.8 * r * s + 1.3 * c) + (1 - z) * s

    def logprob(s, e, word):
        t = max(1.0 * s + 0.1 + 0.4 * e - 0.2 * c, -1.5 * s - 0.1 + 0.6 * e + 0.5 * c)
        logits = [2.0 * t * w + b for w, b in ((0.5, 0.0), (-1.0, 0.3), (1.5, -0.3))]
        return logits[word] - log(sum(exp(logit) for logit in logits))

    # Target words 1, 2: e = 0.85, -0.35; before the first word e = 0, not its bias 0.05.
    if order == "program":
        s_1, s_2 = f(s_0, 0.85), f(f(s_0, 0.85), -0.35)
        expected = [logprob(s_0, 0.0, 1), logprob(s_1, 0.85, 2)]
    else:
        s_1, s_2 = f(s_0, 0.0), f(f(s_0, 0.0), 0.85)
        read = (s_0, s_1) if order == "appendix" else (s_1, s_2)
        expected = [logprob(read[0], 0.0, 1), logprob(read[1], 0.85, 2)]

    out = oracle.forward(params, [0, 1], [1, 2], order)
    assert_allclose(out.annotations, [[h_1], [h_2]], rtol=1e-14)
    assert_allclose(out.states, [[s_0], [s_1], [s_2]], rtol=1e-14)
    assert_allclose(out.word_logprobs, expected, rtol=1e-13)


@pytest.mark.parametrize("order", oracle.ORDERS)
def test_rnnencdec_is_rnnsearch_with_the_context_fixed(order):
    """On a source of one position the context cannot move (A.2.2: "if we fix c_i")."""
    encdec = oracle.random_params(np.random.default_rng(3), **SIZES, rnnencdec=True)
    search = oracle.random_params(np.random.default_rng(4), **SIZES)
    n = SIZES["hidden"]
    for name, array in encdec.items():
        if name in ("W_0_dec_repr_readout",) or name.startswith("W_0_dec_dec_"):
            # The context's backward half counts for nothing.
            array = np.concatenate([array, np.zeros_like(array)])
        search[name] = array
        if "_enc_" in name and "approx" not in name:
            # Over one position both directions then agree, so s_0 does too.
            search[name.replace("enc", "back_enc")] = array
    one, other = (oracle.forward(params, [4], Y, order) for params in (encdec, search))
    assert one.annotations.shape == (1, n)
    assert_allclose(other.alignment, 1.0, rtol=0)
    assert_allclose(other.states, one.states, rtol=1e-13)
    assert_allclose(other.next_logprobs, one.next_logprobs, rtol=1e-13)


@pytest.mark.parametrize(
    ("missing", "order", "message"),
    [(("A_", "B_", "D_"), "program", "RNNsearch has both"), ((), "paper", "'paper'")],
)
def test_half_an_rnnencdec_and_unknown_orders_are_refused(missing, order, message):
    params = oracle.random_params(np.random.default_rng(5), **SIZES)
    params = {name: array for name, array in params.items() if not name.startswith(missing)}
    with pytest.raises(ValueError, match=message):
        oracle.forward(params, X, Y, order)


def test_clip_by_hand():
    grads = {"a": np.array([3.0]), "b": np.array([[0.0, -4.0]])}  # of norm 5
    clipped = oracle.clip(grads, 1.0)
    assert_allclose(clipped["a"], [0.6], rtol=1e-15)
    assert_allclose(clipped["b"], [[0.0, -0.8]], rtol=1e-15)
    assert_allclose(oracle.clip(grads, 10.0)["b"], grads["b"], rtol=0)
    grads["a"][0] = np.inf
    params = {"a": np.array([7.0]), "b": np.array([[1.0, -2.0]])}
    assert_allclose(oracle.clip(grads, 1.0, params)["b"], [[0.1, -0.2]], rtol=1e-15)
    with pytest.raises(ValueError, match="norm is inf"):
        oracle.clip(grads, 1.0)


def test_numeric_gradient_of_a_known_function():
    array = np.array([[1.0, 2.0], [3.0, 4.0]])
    estimate = oracle.numeric_gradient(lambda: float((array**3).sum()), array, (1, 0), 1e-4)
    assert_allclose(estimate, 27.0, rtol=1e-8)
    assert array[1, 0] == 3.0


@pytest.mark.parametrize("order", oracle.ORDERS)
@pytest.mark.parametrize("ignore_unk", [False, True])
def test_wide_beam_finds_every_translation(order, ignore_unk):
    """With a place for everyone, the search must list all sequences, dearest last."""
    eos, unk, max_steps = 3, 1, 3
    params = oracle.random_params(np.random.default_rng(7), **{**SIZES, "target_words": 4})
    words = [w for w in (0, 1, 2) if not (ignore_unk and w == unk)]
    expected = {
        (*prefix, eos): -oracle.log_likelihood(params, X, [*prefix, eos], order)
        for length in range(1, max_steps)  # minlen = 1 forbids the empty translation
        for prefix in itertools.product(words, repeat=length)
    }
    translations, costs = oracle.beam_search(
        params, X, 1000, eos, unk, ignore_unk, minlen=1, max_steps=max_steps, order=order
    )
    assert {tuple(t) for t in translations} == set(expected)
    assert_allclose(costs, sorted(expected.values()), rtol=1e-13)
    assert_allclose(costs, [expected[tuple(t)] for t in translations], rtol=1e-13)


@pytest.mark.parametrize(("x", "shortest", "longest"), [([6], 1, 3), (X[1:], 2, 9), (X, 3, 12)])
def test_default_lengths_of_the_search(x, shortest, longest):
    """At least floor(Tx / 2) symbols precede the end, and at most 3 Tx are generated with it.

    There are two symbols, 0 and the end symbol 1: a translation is known by its length alone.
    """
    params = oracle.random_params(np.random.default_rng(8), **{**SIZES, "target_words": 2})
    translations, _ = oracle.beam_search(params, x, 1000, 1, 9, False)
    assert sorted(map(len, translations)) == list(range(shortest, longest + 1))
