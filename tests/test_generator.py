"""Beam search in single steps against fairseq's own generator on the reference kernels."""

import math
from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from models import EOS, PAD, TARGETS, arm, batch_of, networks, talker
from numpy.testing import assert_allclose
from search_blocks import blocks, either_blocks  # noqa: F401
from torch.testing import assert_close

from fairseq_rnnsearch.decoding import module_steps
from fairseq_rnnsearch.decoding.decode import decode, soft_alignment
from fairseq_rnnsearch.decoding.search import beam_search
from fairseq_rnnsearch.decoding.search.torch_steps import best_words
from fairseq_rnnsearch.engine.choice import choose
from fairseq_rnnsearch.engine.interface import Limits
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels.cpu import packed_weights
from fairseq_rnnsearch.plugin.generators import AuthorsSequenceGenerator, StepwiseGenerator

pytestmark = pytest.mark.usefixtures("blocks")


SOURCES = [[5, 9, 4, EOS], [EOS], [7, 3, 3, 12, 6, EOS], [8, EOS], [11, 10, EOS]]


def model_of(kernels, seed=0, symbols=13, **options):
    return talker(seed, kernels=kernels, target_symbols=symbols, **options)


def search(
    cls, models, prefix=None, left=False, dtype=torch.float64, beam=4, sources=SOURCES, **options
):
    dictionary = models[0].decoder.dictionary
    found = cls([m.to(dtype) for m in models], dictionary, beam_size=beam, **options)
    prefix = {} if prefix is None else {"prefix_tokens": torch.tensor(prefix)}
    return found.generate(models, batch_of(sources, sources, left), **prefix)


def assert_same(found, expected, atol=1e-10):
    assert [len(beam) for beam in found] == [len(beam) for beam in expected]
    for ours, theirs in zip(chain(*found), chain(*expected), strict=True):
        assert ours["tokens"].tolist() == theirs["tokens"].tolist()
        assert ours.keys() == theirs.keys()
        for name in ("score", "positional_scores"):
            assert_close(ours[name], theirs[name], rtol=0, atol=atol)
        assert_close(ours["attention"], theirs["attention"], rtol=0, atol=1e-6)  # float32


@pytest.fixture
def alone(monkeypatch):
    """fairseq's search must not run in place of ours."""
    return lambda: monkeypatch.setattr(SequenceGenerator, "_generate", None)


CASES = {
    "plain": {},
    "greedy": {"beam": 1},
    "wide": {"beam": 12},
    "runs of words": {"symbols": 203, "beam": 5},
    "whole runs of words": {"symbols": 192, "beam": 3},
    "few words": {"symbols": 6, "beam": 5},
    "fewest words": {"symbols": 5, "beam": 50},
    "few words, or none": {"symbols": 6, "beam": 5, "min_len": 0},
    "padding on the left": {"left": True},
    "short": {"max_len_b": 3},
    "as long as the model takes": {"max_len": 4},
    "not too short": {"min_len": 4, "beam": 3},
    "one length": {"min_len": 5, "max_len_b": 5},
    "not normalised": {"normalize_scores": False},
    "length penalty": {"len_penalty": 0.3},
    "unknown words": {"unk_penalty": 1.5},
    "no unknown words": {"unk_penalty": float("inf")},
    "temperature": {"temperature": 0.7},
    "prefix": {"prefix": [[7, 6], [PAD, PAD], [9, PAD], [4, 4], [12, PAD]], "min_len": 3},
    "prefix that ends": {"prefix": [[EOS], [PAD], [5], [EOS], [PAD]], "beam": 1},
    "RNNencdec": {"fixed_context": True},
    "appendix": {"decoder_order": "appendix"},
    "section3": {"decoder_order": "section3"},
    "section3 RNNencdec": {"decoder_order": "section3", "fixed_context": True},
    "factorised": {"output_layer": "factorised"},
    "lstm": {"kind": arm("long_short_term_memory")},
    "two models": {"others": [{}]},
    "two models, one with attention": {"others": [{"fixed_context": True}]},
}
OF_MODEL = ("symbols", "fixed_context", "decoder_order", "output_layer", "kind")


def models_and_options(case):
    """Return a function that makes the models of a case, and the options of its search."""
    of_search = {name: value for name, value in case.items() if name not in OF_MODEL}
    of_model = {name: value for name, value in case.items() if name in OF_MODEL}
    others = of_search.pop("others", ())

    def make(kernels):
        first = model_of(kernels, **of_model)
        return [first, *(model_of(kernels, 1, **of_model | more) for more in others)]

    return make, of_search


WAYS = {  # kernels, type, and how close scores are
    "C": ("fast", torch.float32, 1e-4),
    "NumPy": ("fast", torch.float64, 1e-10),
    "torch": ("reference", torch.float64, 1e-10),
}


@either_blocks
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_translations_equal_those_of_fairseq_s_generator(name, way, alone, monkeypatch):
    make, options = models_and_options(CASES[name])
    kernels, dtype, atol = WAYS[way]
    expected = search(SequenceGenerator, make("reference"), dtype=dtype, **options)
    alone()
    if way != "torch" and name != "lstm":  # which only torch runs
        monkeypatch.setattr(module_steps, "TorchSteps", None)
    found = search(
        StepwiseGenerator, make("auto" if name == "lstm" else kernels), dtype=dtype, **options
    )
    assert_same(found, expected, atol)


@pytest.mark.parametrize("kernels", ["reference", "fast"])
@pytest.mark.parametrize("name", ["plain", "RNNencdec", "two models"])
def test_scores_are_those_of_fairseq_s_scorer(name, kernels):
    models, sides = models_and_options(CASES[name])[0](kernels), (SOURCES[:4], TARGETS)
    scorer = SequenceScorer(models[0].decoder.dictionary)
    expected = decode(scorer, models, batch_of(*sides), PAD, EOS, scores=True)
    for ours, (theirs,) in zip(networks(*models).score(*sides, False), expected, strict=True):
        assert ours.words == theirs["tokens"].tolist()
        assert ours.score == pytest.approx(theirs["score"].item(), rel=1e-10)
        assert_allclose(ours.log_p, theirs["positional_scores"].detach(), rtol=1e-10)
        assert (ours.weights is None) == (theirs["weights"] is None)
        if ours.weights is not None:
            assert_allclose(ours.weights, theirs["weights"].detach(), rtol=0, atol=1e-7)


def test_weights_that_are_the_second_result():
    """As of fairseq's lstm and fconv; another tensor there is no alignment."""
    target, source, weights = torch.ones(2, 3), torch.ones(2, 4), torch.rand(2, 3, 4)
    assert soft_alignment((None, weights), target, source) is weights
    assert soft_alignment((None, weights.mT), target, source) is None


def test_what_is_not_for_here_is_left_to_fairseq(monkeypatch):
    options = {"tokens_to_suppress": ["w1"]}
    expected = search(SequenceGenerator, [model_of("reference")], **options)
    monkeypatch.setattr(beam_search, "_Search", None)
    assert_same(search(StepwiseGenerator, [model_of("fast")], **options), expected)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_n_gram_is_repeated(size):
    """fairseq's own blocker lets all through."""

    def repeated(**options):
        options |= {"min_len": 8, "max_len_b": 10}
        beams = search(StepwiseGenerator, [model_of("fast")], **options)
        for hypothesis in (one for beam in beams for one in beam):
            words = hypothesis["tokens"].tolist()
            n_grams = [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]
            yield len(n_grams) > len(set(n_grams))

    assert any(repeated()) and not any(repeated(no_repeat_ngram_size=size))


@pytest.mark.parametrize(
    "prefix", [None, [[7, 6, 5], [9, 4, 10], [5, 8, 8], [12, 3, 9], [4, 4, 11]]]
)
def test_each_sentence_has_its_own_limit_of_length(prefix, alone):
    """fairseq's follows the longest sentence of a batch, so that neighbours change translations."""
    options = {"max_len_a": 0.5, "max_len_b": 1}
    make, _ = models_and_options({})
    begun = [[one] for one in prefix] if prefix else [None] * len(SOURCES)
    expected = [
        search(SequenceGenerator, make("reference"), first, sources=[one], **options)
        for one, first in zip(SOURCES, begun, strict=True)
    ]
    assert len({max(len(one["tokens"]) for one in beam) for (beam,) in expected}) > 1
    alone()
    found = search(StepwiseGenerator, make("fast"), prefix, **options)
    for beam, source in zip(found, SOURCES, strict=True):
        for hypothesis in beam:
            hypothesis["attention"] = hypothesis["attention"][: len(source)]  # without padding
    assert_same(found, [beam for (beam,) in expected])


def test_a_prefix_may_be_the_whole_translation():
    """fairseq's search repeats one to fill the beam, and never ends if it is empty."""
    given = [[7, EOS], [EOS, PAD], [9, 4], [4, EOS], [12, 3]]
    found = search(StepwiseGenerator, [model_of("fast")], prefix=given)
    only = search(SequenceGenerator, [model_of("reference")], prefix=given, beam=1)
    begun = [words if EOS not in words else [PAD, PAD] for words in given]
    beams = search(SequenceGenerator, [model_of("reference")], prefix=begun)
    assert_same(found, [only[0], only[1], beams[2], only[3], beams[4]])


def test_the_least_length_is_above_a_short_sentence_s_own_limit():
    options = {"min_len": 3, "max_len_a": 0.5, "max_len_b": 1}
    beams = search(StepwiseGenerator, [model_of("fast")], **options)
    for beam, source in zip(beams, SOURCES, strict=True):
        lengths = {len(hypothesis["tokens"]) - 1 for hypothesis in beam}
        assert lengths <= set(range(3, max(3, len(source) // 2 + 1) + 1))


def test_a_length_that_no_translation_has_is_refused():
    with pytest.raises(UserError, match="--min-len 9"):
        search(StepwiseGenerator, [model_of("fast")], min_len=9, max_len_a=0, max_len_b=4)


@pytest.mark.parametrize("cls", [StepwiseGenerator, AuthorsSequenceGenerator, None])
def test_a_model_whose_parameters_are_not_numbers_is_named(cls):
    model = model_of("fast")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(math.nan)
    with pytest.raises(UserError, match="the model's probabilities are not numbers"):
        search(cls, [model]) if cls else networks(model).score(SOURCES, SOURCES, False)


# --- around a search -----------------------------------------------------------------------------


class Noting(StepwiseGenerator):
    """Notes the constraints of what it translates."""

    def generate(self, *given, constraints=None, **options):
        self.constraints = constraints
        return super().generate(*given, **options)


def test_each_sentence_keeps_its_constraints_and_its_prefix():
    """The second has no words, and is translated only because its translation is begun."""
    models, given = [model_of("fast")], torch.tensor([[4], [5], [6]])
    noting = Noting(models, models[0].decoder.dictionary, beam_size=2)
    arguments = noting, models, batch_of(SOURCES[:3], SOURCES[:3]), PAD, EOS
    decode(*arguments, constraints=given)
    assert noting.constraints.tolist() == [[4], [6]]
    beams = decode(*arguments, prefix_tokens=given)
    assert [int(beam[0]["tokens"][0]) for beam in beams] == [4, 5, 6]


def test_weights_of_an_ensemble_sum_to_one():
    """One of the two models has none."""
    models, _ = models_and_options(CASES["two models, one with attention"])
    models = models("fast")
    searching = StepwiseGenerator(models, models[0].decoder.dictionary, beam_size=2, max_len_b=5)
    for beam in decode(searching, models, batch_of(SOURCES, SOURCES), PAD, EOS):
        for one in beam:
            assert_close(one["weights"].sum(dim=1), torch.ones(len(one["tokens"])))


# --- candidates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [3, 63, 64, 65, 128, 1000])
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("broken", [False, True])
def test_best_equals_sorting_everything(words, width, broken):
    lprobs = torch.randn(3, width, words, generator=torch.Generator().manual_seed(words))
    scores = torch.randn(3, width, generator=torch.Generator().manual_seed(1))
    if broken:
        lprobs[1, 0, words - 1] = lprobs[2, width - 1, 2] = torch.nan
    lprobs[..., PAD] = -torch.inf
    k = min(8, width * words - 1)
    numbers = lprobs.nan_to_num(-torch.inf, torch.inf, -torch.inf)
    totals = (numbers + scores.unsqueeze(2)).flatten(1)
    expected, place = totals.sort(descending=True, stable=True)
    values, word, hypothesis = best_words(numbers, scores, k)
    found = values, hypothesis * words + word
    assert_close(found[0], expected[:, :k], rtol=0, atol=0)
    is_told = found[0].isfinite()  # among what is impossible any may be taken
    assert_close(found[1][is_told], place[:, :k][is_told])
    symbols = SimpleNamespace(pad=PAD, eos=EOS, unk=0)
    given = lprobs.flatten(0, 1).numpy().copy(), None, scores.flatten().tolist(), k
    best = choose(*given, Limits([-1] * 3, [False] * 3), symbols)
    assert_close(torch.tensor(best.scores), expected[:, :k], rtol=0, atol=0)
    found = torch.tensor(best.hypotheses) * words + torch.tensor(best.words)
    assert_close(found[is_told], place[:, :k][is_told])


# --- weights that are kept in another arrangement ------------------------------------------------


@torch.no_grad()
def test_a_change_of_weights_is_seen():
    def result(model):
        return search(StepwiseGenerator, [model], dtype=torch.float32, beam=3)

    model, fresh = model_of("fast").float(), model_of("fast").float()
    result(model)
    model.decoder.output.weight.mul_(-1.5)
    model.decoder.embedding.weight.mul_(2)
    fresh.load_state_dict(model.state_dict())
    assert_same(result(model), result(fresh))
    model.train()  # where optimizers write to .data, which torch does not count
    for own, other in zip(model.parameters(), fresh.parameters(), strict=True):
        own.data.mul_(0.9)
        other.mul_(0.9)
    assert_same(result(model), result(fresh))


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 0.04)])
def test_products_equal_torch_s_with_oneDNN_and_without(monkeypatch, dtype, most):
    """In bfloat16 the sum is rounded too: to 2^-9 of its size, up to 20 here."""
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*shape) for shape in [(5, 7), (11, 7), (11,)])
    rounded = (part.to(dtype).double() for part in (x, weight, bias))
    expected = torch.nn.functional.linear(*rounded)
    assert 1 < expected.abs().max() < 20
    for available in (packed_weights._available(dtype), False):
        monkeypatch.setattr(packed_weights, "_available", lambda _, available=available: available)
        weight = weight.to(dtype)
        assert_close(
            packed_weights.batch_product(weight)(x.to(dtype), bias.to(dtype)).double(),
            expected,
            rtol=0,
            atol=most,
        )
