"""The engine in C and NumPy against the reference kernels, for every architecture."""

import os
import pickle
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import torch
from models import random_model
from numpy.testing import assert_allclose

from fairseq_rnnsearch import load
from fairseq_rnnsearch.decoding.module_steps import network_of
from fairseq_rnnsearch.engine.interface import Limits, Rows
from fairseq_rnnsearch.engine.native import NativeNetwork
from fairseq_rnnsearch.engine.numpy_network import NumpyNetwork
from fairseq_rnnsearch.engine.parameters import Parameters
from fairseq_rnnsearch.engine.shapes import SCALE
from fairseq_rnnsearch.models.folder import quantised
from fairseq_rnnsearch.network import Decoder, Encoder
from fairseq_rnnsearch.paper.equations import AlignmentModel, GatedUnit

SOURCES = [[7, 3, 3, 12, 6, 2], [5, 9, 2], [8, 2], [2]]
WORDS = np.array([[5, 6, 7, 2], [8, 4, 9, 2], [3, 3, 11, 2], [10, 12, 5, 2]])
MODELS = {
    f"{order} {architecture} {output}": {
        "decoder_order": order, "fixed_context": architecture == "RNNencdec", "output_layer": output
    }
    for order, architecture, output in product(
        ("program", "appendix", "section3"), ("RNNsearch", "RNNencdec"), ("single", "factorised")
    )
}  # fmt: skip
# a panel of C and a rest, in more than one part of a product's depth and of the dictionary
LARGE = {"decoder_hidden_size": 70, "attention_size": 45, "maxout_size": 270}
LARGE |= {"target_symbols": 1100}


def arrays_of(model, dtype):
    return {name: x.detach().numpy().astype(dtype) for name, x in model.named_parameters()}


def rounded(arrays):
    """Matrices in 8 bits, as a folder has them; one of two that are stacked is not."""
    whole = "decoder.readout.word_weight"
    made = {name: x for name, x in arrays.items() if x.ndim == 1 or name == whole}
    for name in arrays.keys() - made.keys():
        made[name], made[name + SCALE] = quantised(arrays[name])
    return made


def engines(model, order):
    """Each way to compute with a model's parameters, the exact one first."""
    exact = Parameters(arrays_of(model, np.float64), order)
    single = Parameters(arrays_of(model, np.float32), order)
    return {"exact": NumpyNetwork(exact), "NumPy": NumpyNetwork(single), "C": NativeNetwork(single)}


def engines_in_8_bits(model, order):
    stored = Parameters(rounded(arrays_of(model, np.float32)), order)
    whole = {name: stored[name].astype(np.float64) for name, _ in model.named_parameters()}
    return {
        "exact": NumpyNetwork(Parameters(whole, order)),
        "NumPy": NumpyNetwork(stored),
        "C": NativeNetwork(stored),
        "inputs rounded": NativeNetwork(stored, "int8"),
        "all rounded": NativeNetwork(stored, "bfloat16"),
    }


def three_steps(network, threads):
    """Two hypotheses of each sentence, the second in other company, under all kinds of limits."""
    steps = network.steps(SOURCES, 2, threads)
    last = [int(word) for word in WORDS[:, 0] for _ in range(2)]
    yield steps.best(Rows([], [], [0.0] * 4), 4, Limits([-1] * 4, [True] * 4))
    scores, forbidden = [i / 8 for i in range(8)], [[5, 7], *[[]] * 6, [4]]
    limits = Limits([-1, 2, 3, -1], [True, True, False, False], forbidden, 0.3, 1.3)
    yield steps.best(Rows([i // 2 for i in range(8)], last, scores), 4, limits)
    steps.keep([0, 2, 3])
    limits = Limits([-1] * 3, [False] * 3, None, float("inf"))
    yield steps.best(Rows([1, 0, 4, 4, 6, 7], last[:6], scores[:6]), 4, limits)


@pytest.mark.parametrize("made", [engines, engines_in_8_bits])
@pytest.mark.parametrize("sizes", [{}, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name", MODELS)
def test_all_ways_find_the_same(name, sizes, made):
    model = random_model(1, **MODELS[name], **sizes)
    ways = made(model, MODELS[name]["decoder_order"])
    expected = list(three_steps(ways["exact"], 1))
    for way, threads in product(list(ways)[1:], (1, 3)):
        for ours, exact in zip(three_steps(ways[way], threads), expected, strict=True):
            atol = 0.5 if "rounded" in way else 1e-4  # float32, of logits up to some 40
            assert_allclose(ours.scores, exact.scores, rtol=0, atol=atol)
            if "rounded" not in way:
                is_allowed = np.isfinite(exact.scores)
                for found, told in ((ours.words, exact.words), (ours.hypotheses, exact.hypotheses)):
                    assert np.array_equal(np.array(found)[is_allowed], np.array(told)[is_allowed])
            if exact.weights is not None:
                assert_allclose(ours.weights, exact.weights, rtol=0, atol=0.1 * atol)


@torch.no_grad()
@pytest.mark.parametrize("way", ["exact", "C"])
@pytest.mark.parametrize("name", MODELS)
def test_given_words_score_as_in_the_reference_kernels(name, way):
    model = random_model(1, kernels="reference", **MODELS[name])
    source = torch.nn.utils.rnn.pad_sequence([*map(torch.tensor, SOURCES)], True, 1)
    target = torch.from_numpy(WORDS)
    logits, extra = model(source, None, target.roll(1, dims=1))
    atol = 1e-9 if way == "exact" else 1e-4
    steps = engines(model, MODELS[name]["decoder_order"])[way].steps(SOURCES, 1, 2)
    for t in range(WORDS.shape[1]):
        before = ([0, 1, 2, 3], WORDS[:, t - 1].tolist()) if t else ([], [])
        log_p, weights = steps.log_probabilities(Rows(*before, [0.0] * 4), 1.0)
        assert_allclose(log_p, logits.log_softmax(dim=-1)[:, t], rtol=0, atol=atol)
        if weights is not None:
            assert_allclose(weights, extra["attn"][0][:, t], rtol=0, atol=max(atol, 1e-7))


ENGLISH = ["I lost my keys.", "He is reading a book.", "The weather was cold.", "Is she at home?"]


@pytest.mark.parametrize("dtype", [None, "int8"])
def test_modules_of_a_folder_translate_as_the_engine_until_they_are_changed(dtype):
    """8-bit inputs move these sentences' scores by up to 2.5%."""
    translator = load("en-fr", compute_dtype=dtype)
    before = translator.translate(ENGLISH, 3)
    exact = load("en-fr").translate(ENGLISH, 3)
    assert [one.text for one in before] == [one.text for one in exact]
    models = translator.models
    after = translator.translate(ENGLISH, 3)
    for found, rel in ((before, 0.05 if dtype else 1e-5), (after, 1e-5)):
        assert [one.score for one in found] == pytest.approx([x.score for x in exact], rel=rel)
    with torch.no_grad():
        models[0].decoder.output.bias[translator.target_dictionary.index("la")].add_(50)
    assert {one.tokens[0] for one in translator.translate(ENGLISH, 3)} == {"la"}


def of_a_users_class(model, name, base):
    """Give a part a class that somebody has written, which changes nothing so far."""
    model.get_submodule(name).__class__ = type("Own", (base,), {"__module__": "users_own"})


OTHERS = {
    "encoder": lambda model: of_a_users_class(model, "encoder", Encoder),
    "decoder": lambda model: of_a_users_class(model, "decoder", Decoder),
    "attention": lambda m: of_a_users_class(m, "decoder.alignment_model", AlignmentModel),
    "unit": lambda model: of_a_users_class(model, "encoder.forward_unit", GatedUnit),
    "hook": lambda model: model.encoder.register_forward_hook(lambda *given: None),
    "dropout": lambda model: model.encoder.embedding_dropout.train(),
    "reference kernels": lambda model: setattr(model.encoder, "kernels", "reference"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_the_papers_runs_through_torch(name):
    model = random_model()
    assert network_of(model) is network_of(model) is not None
    OTHERS[name](model)
    assert network_of(model) is None


def test_a_translator_is_pickled_whole():
    translator = load("en-fr")
    again = pickle.loads(pickle.dumps(translator))
    assert [t.text for t in again.translate(ENGLISH, 3)] == [
        t.text for t in translator.translate(ENGLISH, 3)
    ]


@pytest.mark.parametrize(("name", "shape"), [("output.weight", (5, 3)), ("unit.input_bias", (6,))])
def test_a_parameter_of_another_shape_is_refused(name, shape):
    """C would read what lies beside it."""
    arrays = arrays_of(random_model(), np.float32)
    for changed in ({f"decoder.{name}": np.zeros(shape, np.float32)}, {"decoder.x": np.zeros(1)}):
        with pytest.raises(ValueError, match=next(iter(changed))):
            Parameters(arrays | changed, "program")


@pytest.mark.slow
def test_no_sanitizer_objects(tmp_path):
    """C reads and writes only what is its own."""
    cc = "gcc -fsanitize=address,undefined -fno-sanitize-recover=all"
    libraries = [
        subprocess.run(["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True)
        for name in ("asan", "ubsan")
    ]
    paths = [run.stdout.strip() for run in libraries]
    if not all(map(os.path.isabs, paths)):
        pytest.skip("gcc has no sanitizers here")
    environment = {"CC": cc, "HOME": str(tmp_path), "LD_PRELOAD": " ".join(paths)}
    environment |= {"ASAN_OPTIONS": "detect_leaks=0"}  # of Python
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", __file__]
    command = [sys.executable, *tests, "-k", "all_ways or given_words"]
    run = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert list(tmp_path.glob(".cache/fairseq_rnnsearch/engine-*.so"))
