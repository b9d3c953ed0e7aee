"""The Hansards recipe's target foresight: against an oracle in NumPy float64, and trained."""

import sys

import numpy as np
import pytest
import test_network
import torch
from commands import LAST_ONLY, MODEL, ROOT, sides, train
from models import (
    EOS,
    SOURCES,
    TARGETS,
    arrays_of,
    build_model,
    cost_of,
    padded,
    random_model,
    score,
)
from oracles import numpy_rnnsearch as oracle
from test_arms import assert_slope
from test_network import EXACT
from torch.testing import assert_close

from fairseq_rnnsearch import UserError, load
from fairseq_rnnsearch.models.authors_parameters import PARAMETERS
from fairseq_rnnsearch.network import DECODER_ORDERS

sys.path.insert(0, str(ROOT / "recipes" / "hansards"))

from foresight import V_A, ForesightModel

USER_DIR = ROOT / "recipes" / "hansards" / "foresight"


# --- the oracle: the authors' arrays and V_a, (m, n'), under our name ----------------------------


def attend(p, annotations, s, y):
    """c_i, (2n,), and alpha_i, (Tx,), of e_ij = v_a . tanh(W_a s + U_a h_j + V_a e(y_i))."""
    query = s @ p["B_dec_transition_0"] + oracle.embed_target(p, y) @ p[V_A]
    hidden = np.tanh(query + annotations @ p["A_dec_transition_0"])
    alpha = np.exp(oracle.log_softmax(hidden @ p["D_dec_transition_0"][:, 0]))
    return alpha @ annotations, alpha


def forward(p, x, y, order):
    """log p(. | y_<i, x), (Ty, K), and alpha, (Ty, Tx)."""
    annotations, y_prev, found = oracle.encode(p, x), None, []
    s = oracle.initial_state(p, annotations)
    for word in y:
        c, alpha = attend(p, annotations, s, word)
        following = oracle.transition(p, s, word if order == "program" else y_prev, c)
        read = following if order == "section3" else s
        found.append((oracle.readout(p, read, y_prev, c), alpha))
        s, y_prev = following, word
    return [np.array(side) for side in zip(*found, strict=True)]


@pytest.mark.parametrize("order", DECODER_ORDERS)
def test_outputs_and_gradients_equal_the_oracle(order):
    model = random_model(output_layer="factorised", decoder_order=order, kind=ForesightModel)
    p, scored = arrays_of(model), score(model, SOURCES, TARGETS)
    for x, y, found in zip(SOURCES, TARGETS, scored, strict=True):
        assert_close(found, tuple(map(torch.tensor, forward(p, x, y, order))), **EXACT)
    cost_of(scored, TARGETS).backward()

    def cost():
        pairs = zip(SOURCES, TARGETS, strict=True)
        return -sum(forward(p, x, y, order)[0][range(len(y)), y].sum() for x, y in pairs)

    for name in (V_A, "decoder.alignment_model.state_weight"):
        array = p[PARAMETERS.get(name, (name,))[0]]
        assert_slope(model.get_parameter(name).grad, array, cost, name)
    # e(y_i) is a use of its own of the embedding, which the last word has alone
    embedding = "decoder.embedding.weight"
    slope = oracle.numeric_gradient(cost, p[PARAMETERS[embedding][0]], (EOS, 0))
    gradient = model.get_parameter(embedding).grad[EOS, 0].item()
    assert gradient == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing(left):
    test_network.test_padding_changes_nothing({"kind": ForesightModel}, left, left)


def test_it_does_not_search():
    model = build_model(kind=ForesightModel)
    encoded = model.encoder(padded(SOURCES))
    with pytest.raises(UserError, match="cannot translate"):
        model.decoder.begin(encoded)
    with pytest.raises(UserError, match="cannot translate"):
        model.decoder(padded(TARGETS), encoded, incremental_state={})


# --- over a model that stays as it is ------------------------------------------------------------


def test_a_model_without_it_attends_as_before_until_it_is_trained():
    plain = random_model()
    foresight = random_model(kind=ForesightModel)
    foresight.load_state_dict(plain.state_dict())
    for before, now in zip(
        score(plain, SOURCES, TARGETS), score(foresight, SOURCES, TARGETS), strict=True
    ):
        assert_close(now, before, **EXACT)


def test_only_the_alignment_model_is_trained_and_aligns(barely_trained, tmp_path):
    corpus, trained = barely_trained.corpus, barely_trained.checkpoint
    adam = "--criterion alignment_heatmap --optimizer adam --lr 0.01 --batch-size 20"
    options = f"{MODEL} {adam} {LAST_ONLY} --max-update 2 --arch foresight_alone"
    options += f" --user-dir {USER_DIR} --finetune-from-model {trained}"
    train(corpus.data, tmp_path / "model", options).ok()
    checkpoint = tmp_path / "model/checkpoint_last.pt"
    before, after = (
        torch.load(path, weights_only=False)["model"] for path in (trained, checkpoint)
    )
    assert set(after) - set(before) == {V_A} and after[V_A].any()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all(".alignment_model." in name for name in changed)
    pairs = sides(corpus.text, "test")
    text = ([" ".join(words) for words in side] for side in zip(*pairs, strict=True))
    aligned = load(checkpoint, corpus.data).align(*text)
    shapes = [(len(target) + 1, len(source) + 1) for source, target in pairs]
    assert [one.weights.shape for one in aligned] == shapes


def test_the_weights_depend_on_the_word():
    """Of the first position, whose previous words are the same whatever the word."""
    for model, differs in ((random_model(kind=ForesightModel), True), (random_model(), False)):
        first, other = (score(model, SOURCES[:1], [[word, EOS]])[0][1][0] for word in (5, 6))
        assert ((first - other).abs().max() > 0.01) == differs
