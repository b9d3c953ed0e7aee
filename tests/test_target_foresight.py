"""--target-foresight: against an oracle in NumPy float64, and what it refuses."""

import numpy as np
import pytest
import test_network
import torch
from commands import LAST_ONLY, MODEL, PAPER, generate, run, train
from models import EOS, SOURCES, TARGETS, build_model, cost_of, padded, random_model, score
from oracles import numpy_rnnsearch as oracle
from test_network import EXACT
from torch.testing import assert_close

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.living.stored_weights import stored_model
from fairseq_rnnsearch.paper.network import DECODER_ORDERS
from fairseq_rnnsearch.plugin.authors_parameters import PARAMETERS, groundhog_from_state_dict

pytest_plugins = ["trained"]

V_A = "decoder.network.alignment_model.foresight_weight"


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


def arrays_of(model):
    arrays = {}
    for name, value in model.state_dict().items():
        parts = PARAMETERS.get(name, (name,))
        for part, block in zip(parts, value.chunk(len(parts)), strict=True):
            array = (block if name.endswith("embedding.weight") else block.T).numpy().copy()
            arrays[part] = array[:, None] if name.endswith("energy_weight") else array
    return arrays


@pytest.mark.parametrize("order", DECODER_ORDERS)
@pytest.mark.parametrize("kernels", ["reference", "fast"])
def test_outputs_and_gradients_equal_the_oracle(order, kernels):
    model = random_model(
        output_layer="factorised", decoder_order=order, target_foresight=True, kernels=kernels
    )
    p, scored = arrays_of(model), score(model, SOURCES, TARGETS)
    for x, y, found in zip(SOURCES, TARGETS, scored, strict=True):
        assert_close(found, tuple(map(torch.tensor, forward(p, x, y, order))), **EXACT)
    cost_of(scored, TARGETS).backward()

    def cost():
        pairs = zip(SOURCES, TARGETS, strict=True)
        return -sum(forward(p, x, y, order)[0][range(len(y)), y].sum() for x, y in pairs)

    for name in (V_A, "decoder.network.alignment_model.state_weight"):
        gradient = model.get_parameter(name).grad
        place = np.unravel_index(gradient.abs().argmax().item(), gradient.shape)
        slope = oracle.numeric_gradient(cost, p[PARAMETERS.get(name, (name,))[0]], place[::-1])
        assert gradient[place].item() == pytest.approx(slope, rel=1e-6), name
    # e(y_i) is a use of its own of the embedding, which the last word has alone
    embedding = "decoder.network.embedding.weight"
    slope = oracle.numeric_gradient(cost, p[PARAMETERS[embedding][0]], (EOS, 0))
    gradient = model.get_parameter(embedding).grad[EOS, 0].item()
    assert gradient == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing(left):
    test_network.test_padding_changes_nothing({"target_foresight": True}, left, left)


REFUSED = [
    ({"fixed_context": True}, "--fixed-context"),
    ({"alignment_model": "general"}, "--alignment-model general"),
]


@pytest.mark.parametrize(("options", "other"), REFUSED)
def test_what_excludes_it_is_refused(options, other):
    with pytest.raises(UserError, match=f"--target-foresight {other}: only the additive"):
        build_model(target_foresight=True, **options)


def test_it_neither_searches_nor_leaves_this_program():
    model = build_model(target_foresight=True, output_layer="factorised")
    assert model.decoder.backend().name == "fast"
    encoded = model.encoder(padded(SOURCES))
    for search in (
        lambda: model.decoder.begin(encoded),
        lambda: model.decoder(padded(TARGETS), encoded, incremental_state={}),
        lambda: stored_model(model, "float32"),
    ):
        with pytest.raises(UserError, match=r"--target-foresight.* cannot translate"):
            search()
    with pytest.raises(UserError, match=r"these parameters differ: .*foresight_weight"):
        groundhog_from_state_dict(model.state_dict())


def test_commands_align_and_do_not_translate(small_corpus, tmp_path):
    options = f"{MODEL} {PAPER} {LAST_ONLY} --target-foresight --max-epoch 2"
    folders = f"{small_corpus.data}:{small_corpus.data}"  # one an epoch
    log = train(folders, tmp_path / "model", options).ok().out
    assert log.count("--target-foresight alone: attention can tell the decoder the word") == 1
    checkpoint = tmp_path / "model/checkpoint_last.pt"
    refused = generate(small_corpus.data, checkpoint, "--beam 2 --batch-size 4").error()
    assert "--target-foresight" in refused and "cannot translate" in refused
    text = small_corpus.text
    run(
        "fairseq_rnnsearch.inference.align", checkpoint, f"--data={small_corpus.data}",
        f"--source={text / 'test.en'}", f"--target={text / 'test.fr'}",
        f"--out={tmp_path / 'aligned'} --heatmap-format pharaoh",
    ).ok()  # fmt: skip
    lines = (tmp_path / "aligned/alignments.pharaoh").read_text().splitlines()
    words = [len(line.split()) for line in (text / "test.fr").read_text().splitlines()]
    assert [len(line.split()) for line in lines] == words


# --- over a model that stays as it is ------------------------------------------------------------


def test_a_model_without_it_attends_as_before_until_it_is_trained():
    plain = random_model()
    foresight = random_model(target_foresight=True)
    foresight.load_state_dict(plain.state_dict())
    for before, now in zip(
        score(plain, SOURCES, TARGETS), score(foresight, SOURCES, TARGETS), strict=True
    ):
        assert_close(now, before, **EXACT)


ONLY = "--train-alignment-model-only"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"fixed_context": True}, f"{ONLY} --fixed-context: RNNencdec has no alignment model"),
        ({"alignment_model": "dot"}, f"{ONLY} --alignment-model dot: it has no parameters"),
    ],
)
def test_nothing_to_train_is_refused(options, line):
    sizes = {"encoder_hidden_size": 4, "decoder_hidden_size": 8}
    with pytest.raises(UserError, match=line):
        build_model(train_alignment_model_only=True, **sizes, **options)


def test_only_the_alignment_model_is_trained(barely_trained, tmp_path):
    data, trained = barely_trained.corpus.data, barely_trained.checkpoint
    adam = "--criterion alignment_heatmap --optimizer adam --lr 0.01 --batch-size 20"
    options = f"{MODEL} {adam} {LAST_ONLY} --max-update 2 {ONLY}"
    assert f"{ONLY} leaves all else" in train(data, tmp_path / "none", options).error()
    options += f" --target-foresight --finetune-from-model {trained}"
    assert "--target-foresight alone" not in train(data, tmp_path / "model", options).ok().out
    before, after = (
        torch.load(path, weights_only=False)["model"]
        for path in (trained, tmp_path / "model/checkpoint_last.pt")
    )
    assert set(after) - set(before) == {V_A} and after[V_A].any()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all(".alignment_model." in name for name in changed)
    model = random_model(target_foresight=True, train_alignment_model_only=True)
    learns = {name for name, value in model.named_parameters() if value.requires_grad}
    assert learns == {name for name in after if ".alignment_model." in name}
