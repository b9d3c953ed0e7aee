"""The plugin's model and optimizer against the authors' program and the NumPy oracle, in float64.

Everything goes through the classes that fairseq builds. The authors' numbers are in groundhog/; the
oracle is compared on other sizes, sentences, orders and models.
"""

import itertools

import numpy as np
import pytest
import torch
from models import (
    PAD,
    adadelta,
    arrays_from_tensors,
    cost_of,
    fairseq_words,
    groundhog_from_state_dict,
    model_from_arrays,
    padded,
    score,
)
from numpy.testing import assert_allclose
from oracles import numpy_rnnsearch as oracle

from fairseq_rnnsearch.models.authors_parameters import state_dict_from_groundhog

EXACT = {"rtol": 0, "atol": 1e-10}
# The program's 0.1 is a float32 constant, 1.5e-8 (relative) too large, even in its float64 graphs.
# That is all of the difference in the gradients, and twice in their squares.
FLOAT32_TENTH = {"rtol": 2e-8, "atol": 1e-30}
FLOAT32_TENTH_SQUARED = {"rtol": 4e-8, "atol": 1e-30}


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@torch.no_grad()  # searches run so, with steps of their own
def decoder_run(model, source, target):
    """One step at a time through the fairseq decoder: s_0 and the state after each word, log p.

    A step past the end lets the last word reach the state in the program's order too.
    """
    encoder_out = model.encoder(torch.tensor([source]), torch.tensor([len(source)]))
    incremental, lprobs = {}, []
    states = [model.decoder.initial_state(encoder_out.source)[0]]
    for i in range(len(target) + 1):
        tokens = torch.tensor([[2, *target[:i]]])
        output = model.decoder(tokens, encoder_out, incremental_state=incremental)
        lprobs.append(model.get_normalized_probs(output, log_probs=True)[0, 0])
        steps = model.decoder.get_incremental_state(incremental, "steps")
        states.append(steps._state[0][0])
    # program: step i leaves s_{i-1}; appendix and section3: s_i
    states = states[1:] if model.decoder.order == "program" else states[:-1]
    return torch.stack(states), torch.stack(lprobs[:-1])


# --- the authors' program ------------------------------------------------------------------------


@pytest.fixture
def authors_model(groundhog_params):
    """Loaded the way `groundhog import` loads it."""
    model = model_from_arrays(groundhog_params)
    model.load_state_dict(state_dict_from_groundhog(groundhog_params))
    return model


@pytest.fixture(scope="module")
def pairs(reference):
    """The reference batch in our numbers, without padding."""
    return [[fairseq_words(reference[f"sent{b}/{side}"], 25) for b in range(4)] for side in "xy"]


def test_forward_equals_the_program(authors_model, pairs, reference):
    sources, targets = pairs
    encoded = authors_model.encoder(padded(sources)).source
    s_0 = authors_model.decoder.initial_state(encoded)
    assert_allclose(s_0.detach(), reference["init_state"], **EXACT)
    scored = score(authors_model, sources, targets)
    for b, (lprobs, alignment) in enumerate(scored):
        Ty, Tx = len(targets[b]), len(sources[b])
        words = lprobs[range(Ty), targets[b]].detach()
        assert_allclose(words.sum(), reference["loglik_per_sentence"][b], **EXACT)
        assert_allclose(words, reference["word_logprobs"][:Ty, b], **EXACT)
        assert_allclose(alignment.detach(), reference["alignment"][:Ty, :Tx, b], **EXACT)
        annotations = encoded.annotations[b, :Tx].detach()
        assert_allclose(annotations, reference["annotations"][:Tx, b], **EXACT)
    assert_allclose(cost_of(scored, targets).item(), reference["train_cost"], **EXACT)


def test_single_sentences_equal_the_program(authors_model, pairs, reference):
    for b, (source, target) in enumerate(zip(*pairs, strict=True)):
        states, lprobs = decoder_run(authors_model, source, target)
        assert_allclose(states.detach(), reference[f"sent{b}/dec_states"], **EXACT)
        probabilities = lprobs.detach().exp()[:, fairseq_words(range(25), 25)]
        assert_allclose(probabilities, reference[f"sent{b}/next_probs"], **EXACT)
        assert not lprobs.detach().exp()[:, PAD].any()


def test_every_gradient_equals_the_program(authors_model, pairs, reference, groundhog_params):
    cost_of(score(authors_model, *pairs), pairs[1]).backward()
    mine = groundhog_from_state_dict(gradients(authors_model))
    assert len(mine) == 40
    for name in groundhog_params:
        assert_allclose(mine[name], reference[f"grad/{name}"], **EXACT, err_msg=name)
    for name, gradient in gradients(authors_model).items():
        if "embedding.weight" in name or "output.weight" in name or "output.bias" in name:
            assert not gradient[PAD].any(), name  # the pad symbol is learnt nowhere


def arrays_after(model, optimizer):
    """Return under the reference's keys the parameters and Adadelta's averages of two squares."""
    state = optimizer.optimizer.state
    g2, dx2 = (
        groundhog_from_state_dict({n: state[p][key] for n, p in model.named_parameters()})
        for key in ("square_avg", "acc_delta")
    )
    parameters = groundhog_from_state_dict(model.state_dict())
    return {"param": parameters, "acc_g2": g2, "acc_dx2": dx2}


@pytest.mark.parametrize(("run", "clip_norm"), [("adadelta", 1.0), ("adadelta_noclip", 0.0)])
def test_three_updates_equal_the_program(authors_model, pairs, reference, run, clip_norm):
    optimizer = adadelta(authors_model)
    # a vanishing gradient has rounding errors of 1e-16 of its terms, not of itself
    bounds = EXACT, *[{"rtol": 1e-10, "atol": 1e-26}] * 2
    for step in (1, 2, 3):
        stored = f"{run}/step{step}"
        optimizer.zero_grad()
        cost = cost_of(score(authors_model, *pairs), pairs[1])
        optimizer.backward(cost)
        norm = optimizer.clip_grad_norm(clip_norm)
        assert_allclose(cost.item(), reference[f"{stored}/cost"], **EXACT)
        assert_allclose(norm.item(), reference[f"{stored}/grad_norm"], rtol=1e-10)
        factor = optimizer.optimizer.factor  # the update multiplies gradients while it reads them
        clipped_gradients = {
            name: gradient if factor is None else factor * gradient
            for name, gradient in gradients(authors_model).items()
        }
        for name, clipped in groundhog_from_state_dict(clipped_gradients).items():
            expected = reference[f"{stored}/clipped_grad/{name}"]
            assert_allclose(clipped, expected, **EXACT, err_msg=name)
        optimizer.step()
        if run == "adadelta_noclip" and step < 3:
            continue  # what these hold shows in the third update's
        kept = arrays_after(authors_model, optimizer)
        for (key, mine), bound in zip(kept.items(), bounds, strict=True):
            for name, array in mine.items():
                expected = reference[f"{stored}/{key}/{name}"]
                assert_allclose(array, expected, **bound, err_msg=f"{key} {name}")


def test_shrinking_after_a_nan_equals_the_program(authors_model, reference, groundhog_params):
    def recorded(key):
        return {name: reference[f"adadelta_nan/{key}/{name}"] for name in groundhog_params}

    # The program's cost overflowed there. Ours would not: the NaN is put in by hand.
    authors_model.load_state_dict(state_dict_from_groundhog(recorded("step0/param")))
    optimizer = adadelta(authors_model, nonfinite="shrink")
    for step in (1, 2):
        for parameter in authors_model.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan)
        assert optimizer.clip_grad_norm(1.0).isnan()
        clipped = groundhog_from_state_dict(gradients(authors_model))
        optimizer.step()
        compared = [("clipped_grad", clipped, FLOAT32_TENTH)]
        if step == 2:
            bounds = EXACT, FLOAT32_TENTH_SQUARED, FLOAT32_TENTH_SQUARED
            kept = arrays_after(authors_model, optimizer)
            compared = zip(kept, kept.values(), bounds, strict=True)
        for key, mine, bound in compared:
            for name, expected in recorded(f"step{step}/{key}").items():
                assert_allclose(mine[name], expected, **bound, err_msg=f"{key} {name}")


# --- the oracle: other sizes, sentences, orders, models ------------------------------------------

SIZES = {
    "wide attention": dict(embed=3, hidden=4, attention=7, maxout=2),
    "ones": dict(embed=1, hidden=1, attention=1, maxout=1),
}
MODELS = list(itertools.product(oracle.ORDERS, (False, True), (False, True)))
SOURCE_SYMBOLS, TARGET_SYMBOLS = 11, 9
# lengths 1 and up on both sides; authors' numbers, the last symbol ends a sentence
SOURCES = [[10], [3, 10], [2, 1, 7, 9, 10], [4, 4, 10], [6, 2, 8, 3, 1, 5, 10]]
TARGETS = [[3, 2, 8], [8], [5, 7, 7, 1, 2, 8], [6, 8], [4, 1, 3, 8]]


def random_arrays(seed, size, encdec, factorised):
    return oracle.random_params(
        np.random.default_rng(seed),
        **SIZES[size],
        source_words=SOURCE_SYMBOLS,
        target_words=TARGET_SYMBOLS,
        rnnencdec=encdec,
        factorised=factorised,
        scale=0.6,
    )


def ours(sentences, symbols):
    return [fairseq_words(sentence, symbols) for sentence in sentences]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("order", "encdec", "factorised"), MODELS)
def test_batches_and_single_steps_equal_the_oracle(size, order, encdec, factorised):
    arrays = random_arrays(3, size, encdec, factorised)
    model = model_from_arrays(arrays, order)
    sources, targets = ours(SOURCES, SOURCE_SYMBOLS), ours(TARGETS, TARGET_SYMBOLS)
    encoded = model.encoder(padded(sources)).source
    s_0 = model.decoder.initial_state(encoded)
    symbols = fairseq_words(range(TARGET_SYMBOLS), TARGET_SYMBOLS)
    for b, (lprobs, alignment) in enumerate(score(model, sources, targets)):
        expected = oracle.forward(arrays, SOURCES[b], TARGETS[b], order)
        assert_allclose(lprobs[:, symbols].detach(), expected.next_logprobs, **EXACT)
        annotations = encoded.annotations[b, : len(sources[b])]
        assert_allclose(annotations.detach(), expected.annotations, **EXACT)
        assert_allclose(s_0[b].detach(), expected.init_state, **EXACT)
        if encdec:
            assert alignment is None
        else:
            assert_allclose(alignment.detach(), expected.alignment, **EXACT)
        states, lprobs = decoder_run(model, sources[b], targets[b])
        assert_allclose(states, expected.states, **EXACT)
        assert_allclose(lprobs[:, symbols], expected.next_logprobs, **EXACT)


@pytest.mark.parametrize(("order", "encdec"), list(itertools.product(oracle.ORDERS, (False, True))))
def test_gradients_equal_finite_differences_of_the_oracle(order, encdec):
    arrays = random_arrays(5, "wide attention", encdec, factorised=not encdec)
    rng = np.random.default_rng(6)
    pairs = [([3, 1, 10], [4, 2, 4, 8]), ([10], [8]), ([7, 10], [5, 8])]
    sources = ours([x for x, _ in pairs], SOURCE_SYMBOLS)
    targets = ours([y for _, y in pairs], TARGET_SYMBOLS)
    model = model_from_arrays(arrays, order)
    cost_of(score(model, sources, targets), targets).backward()
    mine = arrays_from_tensors(gradients(model), arrays)
    assert mine.keys() == arrays.keys()
    for name, array in arrays.items():
        largest = np.unravel_index(np.argmax(np.abs(mine[name])), array.shape)
        for index in (largest, tuple(rng.integers(array.shape))):
            estimate = oracle.numeric_gradient(
                lambda: oracle.cost(arrays, pairs, order), array, index
            )
            assert_allclose(mine[name][index], estimate, rtol=1e-6, atol=1e-8, err_msg=name)
