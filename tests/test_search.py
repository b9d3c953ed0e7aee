"""The authors' beam search inside fairseq's generator: their recorded runs, and the oracle's."""

import importlib
import itertools
import logging
import math

import numpy as np
import pytest
import torch
from authors import SEARCHES, recorded_searches
from models import (
    EOS,
    PAD,
    UNK,
    batch_of,
    build_model,
    fairseq_words,
    model_from_arrays,
    talker,
)
from numpy.testing import assert_allclose
from oracles import numpy_rnnsearch as oracle
from search_blocks import blocks, either_blocks  # noqa: F401
from slow_cases import cases

from fairseq_rnnsearch.decoding.search import beam_search
from fairseq_rnnsearch.plugin.generators import AuthorsSequenceGenerator

pytestmark = pytest.mark.usefixtures("blocks")


def generator_of(models, beam, ignore_unk=False, normalize_scores=False):
    models = models if isinstance(models, list) else [models]
    options = {"normalize_scores": normalize_scores, "unk_penalty": math.inf if ignore_unk else 0}
    words = models[0].decoder.dictionary
    return AuthorsSequenceGenerator(models, words, beam_size=beam, **options)


def translate(generator, sources, left=False, prefix=None):
    """For each sentence its translations and costs -log p, best first."""
    sample = batch_of(sources, sources, left)
    sample["id"] += 40  # numbers in the corpus, not in the batch
    options = {} if prefix is None else {"prefix_tokens": prefix}
    return [
        [(hypothesis["tokens"].tolist(), -float(hypothesis["score"])) for hypothesis in beam]
        for beam in generator.generate(None, sample, **options)
    ]


def assert_same(found, expected):
    assert [words for words, _ in found] == [words for words, _ in expected]
    costs = ([cost for _, cost in translations] for translations in (found, expected))
    assert_allclose(*costs, rtol=0, atol=1e-10)


# --- the authors' recorded runs ------------------------------------------------------------------


@pytest.mark.parametrize("label", SEARCHES)
def test_recorded_runs(groundhog_params, label):
    """All translations and costs of each run, after as many attempts as the program needed."""
    runs, changed = recorded_searches(label)
    model = model_from_arrays(groundhog_params | changed)
    assert len(runs) >= 8
    for run in runs:
        generator = generator_of(model, run["beam"], run["ignore_unk"])
        [found] = translate(generator, [fairseq_words(run["source"], 25)])
        assert run["translations"][0] == run["best"]
        assert_same(found, recorded(run))


def recorded(run):
    """Return the translations and costs of one of the authors' runs, in our numbers."""
    words = [fairseq_words(words, 25) for words in run["translations"]]
    return list(zip(words, run["costs"], strict=True))


@either_blocks
def test_recorded_runs_in_one_batch(groundhog_params, attempts):
    """Different lengths and different fates, padded on either side: as if each were alone.

    Only what has failed is tried again.
    """
    all_runs, changed = recorded_searches(MIXED_LABEL)
    model = model_from_arrays(groundhog_params | changed)
    for beam, ignore_unk, left in itertools.product((5, 10), (False, True), (False, True)):
        runs = [run for run in all_runs if (run["beam"], run["ignore_unk"]) == (beam, ignore_unk)]
        assert len({len(run["source"]) for run in runs}) == 3
        sources = [fairseq_words(run["source"], 25) for run in runs]
        attempts.clear()
        translated = translate(generator_of(model, beam, ignore_unk), sources, left)
        for run, found in zip(runs, translated, strict=True):
            assert_same(found, recorded(run))
        # attempt k is made for the sentences that needed k or more
        needed = [len(run["search_calls"]) for run in runs]
        counts = [sum(n > k for n in needed) for k in range(max(needed))]
        assert [sentences for sentences, _, _ in attempts] == counts
        assert min(needed) < max(needed) or (beam, ignore_unk) != (5, True)


MIXED_LABEL = "scaled3_eos1_unk5"


# --- the oracle ----------------------------------------------------------------------------------

SOURCE_SYMBOLS = 11
# the authors' numbers; lengths of one to seven symbols
SOURCES = [[10], [3, 10], [2, 1, 7, 9, 10], [4, 4, 10], [6, 2, 8, 3, 1, 5, 10]]


def random_arrays(seed, target_symbols, eos=0.0, unk=0.0, rnnencdec=False):
    """Flat enough to keep many hypotheses alive; `eos` and `unk` shift two output biases."""
    arrays = oracle.random_params(
        np.random.default_rng(seed),
        embed=3,
        hidden=4,
        attention=6,
        maxout=3,
        source_words=SOURCE_SYMBOLS,
        target_words=target_symbols,
        rnnencdec=rnnencdec,
        scale=0.8,
    )
    arrays["b_dec_deep_softmax"][-1] += eos
    arrays["b_dec_deep_softmax"][1] += unk
    return arrays


def oracle_translations(arrays, x, beam, ignore_unk, order="program"):
    """The oracle's search with the program's further attempts, in our numbers."""
    symbols = len(arrays["b_dec_deep_softmax"])
    while True:
        words, costs = oracle.beam_search(arrays, x, beam, symbols - 1, 1, ignore_unk, order=order)
        if words:
            return [(fairseq_words(w, symbols), c) for w, c in zip(words, costs, strict=True)]
        if ignore_unk:
            ignore_unk = False
        elif beam < symbols:  # fairseq's own bound of a beam
            beam = min(2 * beam, symbols)
        else:
            return [([EOS], math.inf)]


CASES = [  # symbols, beam, eos, unk
    (20, 1, 1.0, 0.0),
    (20, 4, 0.0, 0.0),
    (20, 4, 3.0, 2.0),
    (20, 12, 1.0, 4.0),
    (9, 3, -1.0, 1.0),
    (9, 9, 0.0, 0.0),  # as wide as there are symbols
    (5, 5, 0.0, 0.0),  # wider than what the first step leaves to choose from
    (5, 50, 0.0, 0.0),  # fairseq bounds it by the dictionary's size, all symbols but the pad
    (4, 4, 1.0, 0.0),
    (4, 3, -2.0, 3.0),
]


@pytest.mark.parametrize("ignore_unk", [False, True])
@pytest.mark.parametrize("case", cases(CASES, CASES[2], CASES[3], CASES[4], CASES[7], CASES[9]))
def test_translations_equal_the_oracle_s(case, ignore_unk):
    symbols, beam, eos, unk = case
    for seed, rnnencdec in ((1, False), (2, False), (3, True)):
        arrays = random_arrays(seed, symbols, eos, unk, rnnencdec)
        generator = generator_of(model_from_arrays(arrays), beam, ignore_unk)
        sources = [fairseq_words(x, SOURCE_SYMBOLS) for x in SOURCES]
        for x, found in zip(SOURCES, translate(generator, sources), strict=True):
            assert_same(found, oracle_translations(arrays, x, min(beam, symbols), ignore_unk))


@pytest.mark.parametrize("order", oracle.ORDERS)
@pytest.mark.parametrize("rnnencdec", [False, True])
def test_translations_in_every_order(order, rnnencdec):
    arrays = random_arrays(4, 12, 0.5, rnnencdec=rnnencdec)
    generator = generator_of(model_from_arrays(arrays, order), 5)
    normalising = generator_of(model_from_arrays(arrays, order), 5, normalize_scores=True)
    for x in SOURCES:
        expected = oracle_translations(arrays, x, 5, False, order)
        [found] = translate(generator, [source := fairseq_words(x, SOURCE_SYMBOLS)])
        assert_same(found, expected)
        [found] = translate(normalising, [source])
        per_word = [(words, cost / len(words)) for words, cost in expected]
        assert_same(found, sorted(per_word, key=lambda translation: translation[1]))


# --- batches -------------------------------------------------------------------------------------


@either_blocks
@pytest.mark.parametrize("left", cases([False, True]))
@pytest.mark.parametrize("normalize_scores", cases([True, False]))
@pytest.mark.parametrize("searched", cases([(4, True), (1, False), (7, False)]))
def test_batch_size_never_changes_a_translation(searched, normalize_scores, left):
    beam, ignore_unk = searched
    model = model_from_arrays(random_arrays(6, 15, eos=0.5, unk=3.0))
    generator = generator_of(model, beam, ignore_unk, normalize_scores)
    sources = [fairseq_words(x, SOURCE_SYMBOLS) for x in [*SOURCES, [9, 8, 1, 10], SOURCES[1]]]
    alone = [translate(generator, [source], left)[0] for source in sources]
    for ordered, expected in ((sources, alone), (sources[::-1], alone[::-1])):
        for size in (2, 3, 7):
            batches = [ordered[start : start + size] for start in range(0, 7, size)]
            found = [beam for batch in batches for beam in translate(generator, batch, left)]
            for one, other in zip(found, expected, strict=True):
                assert_same(one, other)


# --- limits and further attempts, with words that are as likely at every step ---------------------

IMPOSSIBLE = -math.inf


def steady_model(weights, symbols=30):
    """A real model whose words are as likely, exp(weight) before normalising, at every step."""
    model = build_model(12, symbols).double().eval()
    output = model.decoder.output
    with torch.no_grad():
        output.weight.zero_()
        output.bias.fill_(IMPOSSIBLE)
        for symbol, weight in weights.items():
            output.bias[symbol] = weight
    return model


@pytest.mark.parametrize("together", [False, True])
def test_limits_follow_each_sentence_s_own_length(together):
    """One word and the end, equally likely: every length that is allowed is a translation."""
    generator = generator_of(steady_model({4: 0.0, EOS: 0.0}), 29)
    sources = [[7] * (length - 1) + [EOS] for length in (1, 2, 3, 4, 7, 2)]
    batches = [sources] if together else [[source] for source in sources]
    translated = [found for batch in batches for found in translate(generator, batch)]
    for source, found in zip(sources, translated, strict=True):
        lengths = range(len(source) // 2 + 1, 3 * len(source) + 1)
        assert_same(found, [([4] * (i - 1) + [EOS], i * math.log(2)) for i in lengths])


@pytest.mark.parametrize("beam", [1, 2, 3, 5])
def test_the_beam_shrinks_with_each_finished_hypothesis(beam):
    """The end all but certain: one hypothesis ends at each step, until no place is left."""
    generator = generator_of(steady_model({4: 0.0, EOS: 8.0}), beam)
    [found] = translate(generator, [[7, 8, 9, EOS]])
    assert [len(words) for words, _ in found] == [3, 4, 5, 6, 7][:beam]


@pytest.fixture
def attempts(monkeypatch):
    """(sentences, beam, penalty of the unknown word) of every search that was made."""
    made = []

    def spy(options, begin, sources, *given):
        made.append((len(sources), options.beam_size, options.unk_penalty))
        return beam_search.search(options, begin, sources, *given)

    # the package has a function of this name beside the module
    module = importlib.import_module("fairseq_rnnsearch.decoding.search.authors_search")
    monkeypatch.setattr(module, "search", spy)
    return made


# likelihoods fall from symbol to symbol: the end is reached by a beam as wide as its rank
RANKED = {4: 0.0, 5: -10.0, 6: -20.0, EOS: -30.0}


@pytest.mark.parametrize(
    ("weights", "ignore_unk", "expected"),
    [
        (RANKED, False, [(1, 1, 0), (1, 2, 0), (1, 4, 0)]),
        (RANKED, True, [(1, 1, math.inf), (1, 1, 0), (1, 2, 0), (1, 4, 0)]),
        ({4: 0.0, EOS: 1.0}, True, [(1, 1, math.inf)]),
    ],
)
def test_unknown_words_first_and_then_a_wider_beam(attempts, weights, ignore_unk, expected):
    generator = generator_of(steady_model(weights), 1, ignore_unk)
    [found] = translate(generator, [[EOS]])
    assert attempts == expected
    assert found[0][0][-1] == EOS and math.isfinite(found[0][1])
    # the next sentence starts where this one did
    assert (generator.beam_size, generator.unk_penalty) == expected[0][1:]


def test_unknown_words_are_let_in_when_nothing_else_leads_to_an_end(attempts):
    """Forbidden, nothing at all can be said."""
    generator = generator_of(steady_model({UNK: 0.0, EOS: 1.0}), 3, ignore_unk=True)
    [found] = translate(generator, [[7, 8, EOS]])
    assert attempts == [(1, 3, math.inf), (1, 3, 0)]
    assert [words for words, _ in found] == [[UNK] * n + [EOS] for n in (1, 2, 3)]


def test_forbidden_words_are_not_renormalised():
    """log p keeps the unknown word's share. The end comes first of two equally likely words."""
    generator = generator_of(steady_model({4: 0.0, UNK: 0.0, EOS: 1e-12}), 2, ignore_unk=True)
    [found] = translate(generator, [[7, EOS]])
    assert_same(found, [([4, EOS], 2 * math.log(3)), ([4, 4, EOS], 3 * math.log(3))])


def test_a_sentence_without_translation_is_left_empty(attempts, caplog):
    generator = generator_of(steady_model({4: 0.0, 5: 0.0}, symbols=11), 3)
    with caplog.at_level(logging.WARNING):
        found = translate(generator, [[7, EOS], [EOS]])
    assert found == [[([EOS], math.inf)], [([EOS], math.inf)]]
    assert [beam for _, beam, _ in attempts] == [3, 6, 10]  # all symbols but the pad
    assert "no translation of 2 sentences within" in caplog.text
    assert generator.beam_size == 3


@pytest.mark.parametrize("beams", [[200, 400, 800], [250, 500], [400, 598]])
def test_the_beam_doubles_below_five_hundred(attempts, beams):
    """GroundHog's sample.py tries again with twice n_samples, as long as this is below 500."""
    symbols = 599 if beams[-1] == 598 else 900
    generator = generator_of(steady_model({4: 0.0}, symbols=symbols), beams[0])
    translate(generator, [[EOS]])
    assert [beam for _, beam, _ in attempts] == beams


# --- with fairseq's other options ----------------------------------------------------------------


def probabilities_of(model, source, words):
    """Return p of given words, in one pass."""
    output = model(torch.tensor([source]), None, torch.tensor([[EOS, *words[:-1]]]))
    return model.get_normalized_probs(output, log_probs=False)[0, range(len(words)), words]


@either_blocks
def test_sentences_of_the_papers_recipe_do_not_mix():
    """30,000 words, beam 12, 40 sentences: as many as fit at once, each as if it were alone."""
    model = talker(3, target_symbols=30_000, kernels="fast")
    with torch.no_grad():
        model.decoder.output.bias[EOS] += 8  # which comes among so many words too
    numbers = torch.Generator().manual_seed(1)
    sources = [
        [*torch.randint(4, 14, (i % 7,), generator=numbers).tolist(), EOS] for i in range(40)
    ]
    generator = generator_of(model, 12)
    together = translate(generator, sources)
    for source, found in zip(sources, together, strict=True):
        [expected] = translate(generator, [source])
        assert_same(found, expected)


def test_a_forced_prefix_does_not_narrow_the_beam():
    model = talker(9)
    sources = [[5, 9, 12, EOS], [8, EOS]]
    prefix = torch.tensor([[7, 11], [6, PAD]])
    translated = translate(generator_of(model, 4), sources, prefix=prefix)
    for source, forced, found in zip(sources, ([7, 11], [6]), translated, strict=True):
        assert len(found) == 4
        for words, cost in found:
            assert words[: len(forced)] == forced
            expected = -probabilities_of(model, source, words).log().sum().item()
            assert cost == pytest.approx(expected, rel=1e-12)


def test_a_forced_prefix_is_kept_in_further_attempts(attempts):
    """The first sentence ends at once, the second needs a wider beam and its own prefix."""
    generator = generator_of(steady_model(RANKED), 1)
    ended, retried = translate(generator, [[EOS], [EOS]], prefix=torch.tensor([[EOS], [5]]))
    assert [sentences for sentences, _, _ in attempts] == [2, 1, 1]
    assert [words for words, _ in ended] == [[EOS]]
    assert retried and all(words[0] == 5 for words, _ in retried)


def test_an_ensemble_averages_probabilities():
    models, sources = [talker(seed) for seed in (10, 11)], [[5, 9, 12, EOS], [8, EOS]]
    both = translate(generator_of(models, 3), sources)
    for source, found in zip(sources, both, strict=True):
        for words, cost in found:
            mean = sum(probabilities_of(model, source, words) for model in models) / 2
            assert cost == pytest.approx(-mean.log().sum().item(), rel=1e-12)
    twice = translate(generator_of([models[0]] * 2, 3), sources)
    for found, expected in zip(twice, translate(generator_of(models[0], 3), sources), strict=True):
        assert_same(found, expected)
