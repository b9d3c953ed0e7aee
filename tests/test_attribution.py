"""Whether what attention looked at mattered: against an oracle in NumPy float64, and use."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from models import (
    EOS,
    SOURCES,
    TARGETS,
    arm,
    arrays_of,
    networks,
    padded,
    previous,
    random_model,
    score,
)
from oracles import numpy_rnnsearch as oracle
from test_living import TEXTS, VARIANTS, again, ask, needs_node, translator
from test_network import EXACT
from test_posterior import WAYS
from torch.testing import assert_close

from fairseq_rnnsearch import load
from fairseq_rnnsearch.commands import align
from fairseq_rnnsearch.decoding.engine_networks import _without_each
from fairseq_rnnsearch.figures import Alignment
from fairseq_rnnsearch.figures.jsonl import json_line, read_alignments
from fairseq_rnnsearch.living.living_page import write_living_page
from fairseq_rnnsearch.network import DECODER_ORDERS, forced_scoring


def mattered(p, x, y, order):
    """log p(y_i) minus log p(y_i) without position j, (Ty, Tx), in slow loops."""
    annotations, y_prev, rows = oracle.encode(p, x), None, []
    s = oracle.initial_state(p, annotations)
    for word in y:
        c, alpha = oracle.attend(p, annotations, s)

        def log_p(c, s=s, y_prev=y_prev, word=word):
            read = oracle.transition(p, s, y_prev, c) if order == "section3" else s
            return oracle.readout(p, read, y_prev, c)[word]

        row = []
        for j in range(len(x)):
            left = [(alpha[k], h) for k, h in enumerate(annotations) if k != j]
            total = sum(weight for weight, _ in left)
            without = sum((weight / total * h for weight, h in left), np.zeros_like(c))
            row.append(log_p(c) - log_p(without))
        rows.append(row)
        s = oracle.transition(p, s, word if order == "program" else y_prev, c)
        y_prev = word
    return np.array(rows)


@pytest.mark.parametrize("order", DECODER_ORDERS)
@pytest.mark.parametrize("way", WAYS)
def test_effects_equal_the_oracle(order, way, monkeypatch):
    monkeypatch.setattr(forced_scoring, "_LOGITS", 20)  # two rows, hence several parts
    kernels, dtype, atol = WAYS[way]
    model = random_model(output_layer="factorised", decoder_order=order, kernels=kernels)
    model, sides = model.to(dtype), (SOURCES, TARGETS[::-1])
    for found, x, y in zip(networks(model).attribution(*sides), *sides, strict=True):
        expected = mattered(arrays_of(model), x, y, order)
        np.testing.assert_allclose(found, expected, rtol=0, atol=100 * atol)


@torch.no_grad()
def reread(model, sources, targets):
    given = padded(previous(targets)), model.encoder(padded(sources)), padded(targets)
    return model.decoder.reread(*given, _without_each)


@pytest.mark.parametrize("order", DECODER_ORDERS)
@pytest.mark.parametrize("name", ["long_short_term_memory", "general"])
def test_other_parts_score_as_they_do(order, name):
    """What is scored with all positions is what the model scores, so that the states are its."""
    model = random_model(decoder_order=order, kind=arm(name)).eval()
    log_p, scored = reread(model, SOURCES, TARGETS), score(model, SOURCES, TARGETS)
    for found, (expected, _), y in zip(log_p, scored, TARGETS, strict=True):
        assert_close(found[: len(y), 0], expected[range(len(y)), y], **EXACT)
    assert all((one != 0).all() for one in networks(model).attribution(SOURCES, TARGETS))


def test_rows_with_all_weight_on_one_position_stay_finite():
    alpha = np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    is_word = np.array([[True, True, True, False], [True, False, False, False]])
    left = _without_each(alpha, is_word)
    np.testing.assert_allclose(left[0, 2], [0.5, 0.0, 0.5, 0.0])  # without the one with all of it
    assert left[1, 1].tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(left[:, 0], alpha, atol=1e-30)


def test_pieces_become_words_by_sums():
    pieces = ("a@@", "b", "</s>"), ("c", "d@@", "e", "</s>")
    numbers = np.arange(12.0).reshape(4, 3)
    merged = Alignment(*pieces, numbers, attribution=numbers).merge_pieces()
    assert merged.attribution.tolist() == [[1, 2], [3 + 4 + 6 + 7, 5 + 8], [9 + 10, 11]]
    assert merged.with_source_end("drop").attribution.tolist() == [[1], [20], [19]]


SENTENCES = ["I have two dogs.", "", "Where is the station?"]


def test_translating_and_aligning_agree():
    packaged = load("en-fr")
    translated = packaged.translate(SENTENCES, beam=2, attribution=True, pieces="keep")
    texts = [one.text for one in translated]
    aligned = packaged.align(SENTENCES, texts, attribution=True, pieces="keep", batch_size=1)
    for one, other in zip(translated, aligned, strict=True):
        assert one.mattered.shape == one.weights.shape and np.isfinite(one.mattered).all()
        if one.tokens == other.tokens:
            np.testing.assert_allclose(one.mattered, other.mattered, atol=1e-4)
        assert one.to_dict()["mattered"] == np.round(one.mattered, 6).tolist()
    assert translated[0].tokens == aligned[0].tokens


def test_an_ensemble_scores_by_the_mean_of_its_probabilities():
    one, other = translator(), random_model(1, source_symbols=20, target_symbols=32)
    both, sides = again(one, [*one.models, other.float()]), ([[7, 4, EOS]], [[5, 6, EOS]])
    log_p = (sum(reread(one, *sides).exp()[0].detach() for one in both.models) / 2).log()
    [effects] = both.networks.attribution(*sides)
    np.testing.assert_allclose(effects, log_p[:, :1] - log_p[:, 1:], atol=1e-5)


@pytest.mark.parametrize("option", ["attribution", "posterior"])
def test_the_command_and_python_give_the_same(option, barely_trained, tmp_path):
    text, place = barely_trained.corpus.text, tmp_path / "alignments.jsonl"
    given = barely_trained.checkpoint, barely_trained.corpus.data
    files = [text / f"test.{language}" for language in ("en", "fr")]
    pairs = f"--source={files[0]} --target={files[1]} --out={tmp_path} --heatmap-format=jsonl"
    kind = "--attention" if option == "attribution" else "--posterior"
    align.main([str(given[0]), f"--data={given[1]}", f"--{option}", kind, *pairs.split()])
    model, sides = load(*given), [path.read_text().splitlines() for path in files]
    aligned, plain = model.align(*sides, **{option: True}), model.align(*sides)
    written = place.read_text().splitlines()
    assert len(written) == 13
    for number, (one, before) in enumerate(zip(aligned, plain, strict=True)):
        assert written[number] == json_line(replace(one.alignment, id=number + 1))
        assert one.score == before.score
        assert (one.mattered is None) == (option == "posterior")
        assert np.array_equal(one.weights, before.weights) == (option == "attribution")
    assert [json_line(one) for one in read_alignments(place).values()] == written


@needs_node
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_the_page_that_translates_computes_the_same(options, tmp_path):
    model, path, calls, expected = translator(**options), tmp_path / "living.html", [], []
    write_living_page(path, [model], weights="float32")
    for text in TEXTS:
        calls.append(["mattered", text, model.translate(text, beam=5, pieces="keep").tokens])
        expected.append(model.translate(text, beam=5, attribution=True))
    for one, found in zip(expected, ask(path, *calls), strict=True):
        if options.get("fixed_context"):
            assert one.mattered is None and found is None
        else:
            assert len(one.mattered) == len(one.tokens)
            np.testing.assert_allclose(found, one.mattered, atol=1e-5, rtol=1e-5)
