"""What must hold for any parameters: padding, batches, steps, precision, the start of training."""

import itertools
import math

import pytest
import torch
from models import (
    EOS,
    PAD,
    SOURCES,
    TARGETS,
    build_model,
    cost_of,
    padded,
    previous,
    random_model,
    score,
)
from torch.testing import assert_close

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.network import DECODER_ORDERS
from fairseq_rnnsearch.plugin.model import RNNSearchConfig

MODELS = [
    pytest.param(
        {"decoder_order": order, "fixed_context": encdec, "output_layer": output},
        id=f"{order}-{'rnnencdec' if encdec else 'rnnsearch'}-{output}",
    )
    for order, (encdec, output) in itertools.product(
        DECODER_ORDERS, [(False, "single"), (False, "factorised"), (True, "single")]
    )
]
EXACT = {"rtol": 1e-12, "atol": 1e-13}


def gradients(model, scored, targets):
    model.zero_grad()
    cost_of(scored, targets).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.requires_grad}


# --- padding and batches -------------------------------------------------------------------------


@pytest.mark.parametrize("options", MODELS)
@pytest.mark.parametrize(("left_source", "left_target"), [(0, 0), (1, 1)])
def test_padding_changes_nothing(options, left_source, left_target):
    """A row of a padded batch is the sentence alone: outputs, weights, gradients."""
    model = random_model(**options)
    together = score(model, SOURCES, TARGETS, left_source, left_target)
    together_gradients = gradients(model, together, TARGETS)
    alone_gradients = dict.fromkeys(together_gradients, 0.0)
    for pair, (lprobs, weights) in zip(zip(SOURCES, TARGETS, strict=True), together, strict=True):
        source, target = pair
        [(lprobs_alone, weights_alone)] = alone = score(model, [source], [target])
        assert_close(lprobs, lprobs_alone, **EXACT)
        assert_close(weights, weights_alone, **EXACT) if weights is not None else None
        for name, gradient in gradients(model, alone, [target]).items():
            alone_gradients[name] = alone_gradients[name] + gradient
    for name, gradient in together_gradients.items():
        assert gradient.abs().max() > 0, name
        assert_close(gradient, alone_gradients[name], **EXACT, msg=name)


@pytest.mark.parametrize("left", [False, True])
def test_weights_at_padding_are_zero_and_rows_sum_to_one(left, **options):
    model = random_model(**options)
    source = padded(SOURCES, left)
    _, extra = model(source, None, padded(previous(TARGETS)))
    [weights] = extra["attn"]
    assert weights.shape == (4, 5, 6)
    assert not weights.transpose(1, 2)[source.eq(PAD)].any()
    assert_close(weights.sum(-1), torch.ones(4, 5, dtype=torch.float64), **EXACT)


# --- one step at a time --------------------------------------------------------------------------


def step(model, tokens, encoder_out, incremental):
    """log p of the next word, (rows, words), and weights, as the search calls the decoder."""
    output = model.decoder(tokens, encoder_out, incremental_state=incremental)
    assert output[0].shape[1] == 1
    weights = output[1]["attn"]
    lprobs = model.get_normalized_probs(output, log_probs=True)
    return lprobs[:, 0], None if weights is None else weights[0][:, 0]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("options", MODELS)
def test_steps_equal_teacher_forcing(options, left):
    model = random_model(**options)
    source, target = padded(SOURCES, left), padded(previous(TARGETS))
    output = model(source, None, target)
    forced = model.get_normalized_probs(output, log_probs=True)
    encoder_out, incremental = model.encoder(source), {}
    for i in range(target.size(1)):
        lprobs, weights = step(model, target[:, : i + 1], encoder_out, incremental)
        assert_close(lprobs, forced[:, i], **EXACT)
        if weights is not None:
            assert_close(weights, output[1]["attn"][0][:, i], **EXACT)


# Rows to go on with after each step, as the search asks for them: three sentences, beam of two.
BEAM_ORDERS = [
    [1, 0, 2, 2, 5, 4],  # swapped; the first copied; swapped
    [0, 0, 3, 2, 4, 4],  # within sentences again
    [2, 3, 5, 5],  # the first sentence has ended
    [1, 1, 3, 2],
    [3, 2],  # the second has ended
    [1, 1],
]


@pytest.mark.parametrize("options", MODELS)
def test_reordered_beam_equals_starting_again(options):
    model = random_model(1, **options)
    words = torch.Generator().manual_seed(2)
    sources = [SOURCES[0], SOURCES[2], SOURCES[1]]
    encoder_out, incremental = model.encoder(padded(sources)), {}
    rows = torch.arange(3)
    tokens = torch.full((3, 1), EOS)
    for order in map(torch.tensor, [[0, 0, 1, 1, 2, 2], *BEAM_ORDERS]):
        model.decoder.reorder_incremental_state(incremental, order)  # nothing before any step
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        rows, tokens = rows[order], tokens[order]
        if incremental:  # each row goes on with another word: no two histories are the same
            new = torch.randint(4, 13, (len(order), 1), generator=words)
            tokens = torch.cat((tokens, new), 1)
        lprobs, weights = step(model, tokens, encoder_out, incremental)
        again = model(padded([sources[row] for row in rows]), None, tokens)
        expected = model.get_normalized_probs(again, log_probs=True)[:, -1]
        assert_close(lprobs, expected, **EXACT)
        if weights is not None:
            expected = again[1]["attn"][0][:, -1]
            assert_close(weights[:, : expected.size(1)], expected, **EXACT)
    assert rows.tolist() == [2, 2]


def test_weights_that_are_changed_from_outside_do_not_change_what_follows():
    """As fairseq changes them when it averages an ensemble's."""
    model = random_model()
    encoder_out, tokens = model.encoder(padded(SOURCES)), padded(previous(TARGETS))
    found = []
    for factor in (1, 3):
        state = {}
        step(model, tokens[:, :1], encoder_out, state)[1].mul_(factor)
        found.append(step(model, tokens[:, :2], encoder_out, state))
    assert_close(*found, **EXACT)


# --- precision -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e4, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_large_energies_do_not_overflow(dtype, scale):
    """The authors' program overflows above 88."""
    model = random_model().to(dtype)
    with torch.no_grad():
        model.decoder.alignment_model.energy_weight.mul_(scale)
    scored = score(model, SOURCES, TARGETS)
    for lprobs, weights in scored:
        assert lprobs.isfinite().all()
        assert_close(weights.float().sum(-1), torch.ones(len(weights)), rtol=0, atol=0.01)
        assert weights.max() > 0.99  # the energies are as large as they were meant to be
    for name, gradient in gradients(model, scored, TARGETS).items():
        assert gradient.isfinite().all(), name


# --- dropout -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "encoder", "embedding", "readout"),
    [
        ({}, 0.0, 0.0, 0.0),
        ({"dropout": 0.3}, 0.3, 0.3, 0.3),
        ({"embedding_dropout": 0.2}, 0.2, 0.2, 0.0),
        ({"readout_dropout": 0.4}, 0.0, 0.0, 0.4),
        ({"dropout": 0.3, "readout_dropout": 0.0}, 0.3, 0.3, 0.0),
    ],
)
def test_dropout_only_where_asked_for_and_only_while_training(options, encoder, embedding, readout):
    model = random_model(**options)
    source, target = padded(SOURCES), padded(previous(TARGETS))
    expected = random_model()(source, None, target)[0]
    assert_close(model(source, None, target)[0], expected, rtol=0, atol=0)
    network = model.decoder
    assert model.encoder.embedding_dropout.p == encoder
    assert network.embedding_dropout.p == embedding
    assert network.readout_dropout.p == readout
    model.train()
    torch.manual_seed(1)
    features = model.decoder(target, model.encoder(source), features_only=True)[0]
    dropped = features.eq(0).double().mean().item()
    assert (dropped > 0) == (readout > 0)
    changed = not torch.equal(model(source, None, target)[0], expected)
    assert changed == bool(encoder or embedding or readout)


def test_embedding_dropout_drops_the_words_and_keeps_their_mean():
    torch.manual_seed(3)
    network = random_model(embedding_dropout=0.25, decoder_embed_dim=400).decoder.train()
    words = torch.full((50, 3), 7)
    embedded = network.embed(words).rows
    assert not embedded[0].any()  # y_0
    later = embedded[1:] / network.embedding(words[1:])
    kept = later[later != 0]
    assert_close(kept, torch.full_like(kept, 4 / 3), rtol=1e-12, atol=0)
    assert later.mean().item() == pytest.approx(1.0, abs=0.02)


# --- the start of training -----------------------------------------------------------------------

BY_STANDARD_DEVIATION = {  # appendix B.1, parameter by parameter; None: orthogonal blocks
    0.01: "encoder.embedding.weight decoder.embedding.weight decoder.initial_weight"
    " decoder.unit.context_weight decoder.readout.state_weight decoder.readout.word_weight"
    " decoder.readout.context_weight decoder.output.inner_weight decoder.output.weight"
    " encoder.forward_unit.input_weight encoder.backward_unit.input_weight"
    " decoder.unit.input_weight",
    0.001: "decoder.alignment_model.state_weight decoder.alignment_model.annotation_weight",
    0.0: "encoder.embedding.bias decoder.embedding.bias decoder.initial_bias"
    " decoder.alignment_model.energy_weight decoder.readout.bias decoder.output.bias"
    " encoder.forward_unit.input_bias encoder.backward_unit.input_bias decoder.unit.input_bias",
    None: "encoder.forward_unit.recurrent_gates encoder.forward_unit.recurrent_proposed"
    " encoder.backward_unit.recurrent_gates encoder.backward_unit.recurrent_proposed"
    " decoder.unit.recurrent_gates decoder.unit.recurrent_proposed",
}
INITIAL = {name: std for std, names in BY_STANDARD_DEVIATION.items() for name in names.split()}


@pytest.fixture(scope="module")
def fresh_model():
    torch.manual_seed(0)
    sizes = {"encoder_embed_dim": 100, "encoder_hidden_size": 120, "decoder_embed_dim": 110}
    sizes |= {"decoder_hidden_size": 130, "attention_size": 140, "maxout_size": 90}
    return build_model(400, 300, **sizes, output_layer="factorised")


def test_the_table_names_every_parameter_and_which_start_at_zero(fresh_model):
    found = {name: not parameter.any() for name, parameter in fresh_model.named_parameters()}
    assert found == {name: std == 0 for name, std in INITIAL.items()}


def test_the_uniform_start_is_that_of_fairseqs_lstm():
    """Five standard errors of the variance of numbers from -a to a, which is a^2 / 3."""
    for name, parameter in build_model(400, 300, initialization="uniform").named_parameters():
        assert parameter.abs().max() <= 0.1, name
        assert parameter.square().mean().item() == pytest.approx(
            0.01 / 3, rel=5 * math.sqrt(4 / 5 / parameter.numel())
        ), name


@pytest.mark.parametrize(("name", "std"), [(n, std) for n, std in INITIAL.items() if std])
def test_gaussian_weights(fresh_model, name, std):
    """At least 8,000 numbers each: five standard errors."""
    weight = fresh_model.get_parameter(name).detach().double()
    count = weight.numel()
    assert count >= 8000
    assert weight.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * count))
    assert weight.mean().item() == pytest.approx(0.0, abs=5 * std / math.sqrt(count))
    # normal, not uniform: 4.55 per cent lie beyond two standard deviations
    beyond = (weight.abs() > 2 * std).double().mean().item()
    assert beyond == pytest.approx(0.0455, abs=5 * math.sqrt(0.0455 / count))


@pytest.mark.parametrize("name", [name for name, std in INITIAL.items() if std is None])
def test_recurrent_matrices_are_orthogonal(fresh_model, name):
    weight = fresh_model.get_parameter(name).detach().double()
    n = weight.size(1)
    blocks = weight.split(n)
    assert [tuple(block.shape) for block in blocks] == [(n, n)] * (2 if "gates" in name else 1)
    for block in blocks:
        assert_close(block @ block.T, torch.eye(n).double(), rtol=0, atol=1e-5)
        assert 0.5 / math.sqrt(n) < block.std().item() < 1.5 / math.sqrt(n)  # no permutation
        assert abs(block.trace().item()) < 6  # no identity: the trace is about N(0, 1)
    assert len({block[0, 0].item() for block in blocks}) == len(blocks)


PAPER_SIZES = {"encoder_embed_dim": 620, "encoder_hidden_size": 1000, "decoder_embed_dim": 620}
PAPER_SIZES |= {"decoder_hidden_size": 1000, "attention_size": 1000, "maxout_size": 500}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"output_layer": "factorised"}, 84_349_101),  # the authors' program
        # W_o of 500 x 30,001 in place of 500 x 620 and 620 x 30,001
        ({"output_layer": "single"}, 84_349_101 - 500 * 620 - 120 * 30_001),
        # no backward unit, no alignment model, C and C_o half as wide
        (
            {"output_layer": "factorised", "fixed_context": True},
            84_349_101
            - (3 * 1000 * 620 + 1000 + 3 * 1000 * 1000)
            - (1000 * 1000 + 1000 * 2000 + 1000)
            - (3 * 1000 * 1000 + 1000 * 1000),
        ),
    ],
)
def test_parameter_count_at_the_paper_s_size(options, count):
    with torch.device("meta"):
        model = build_model(30_001, 30_001, **PAPER_SIZES, **options)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_the_paper_s_sizes_are_the_defaults():
    paper = PAPER_SIZES | {"decoder_order": "program", "output_layer": "single"}
    paper |= {"dropout": 0.0, "fixed_context": False}
    config = RNNSearchConfig()
    assert {name: getattr(config, name) for name in paper} == paper


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("symbols", "language"), [((15, 13), "source"), ((14, 12), "target"), ((14, 16), "target")]
)
def test_checkpoint_of_other_dictionaries_is_refused(symbols, language):
    with pytest.raises(UserError, match=f"the {language} dictionary has"):
        build_model(*symbols).load_state_dict(build_model().state_dict())
