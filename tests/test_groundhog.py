"""The authors' parameters, through the command line."""

import pickle

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from models import (
    fairseq_words,
    groundhog_from_state_dict,
    model_from_arrays,
    score,
)
from oracles import numpy_rnnsearch as oracle

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.groundhog import main
from fairseq_rnnsearch.models.authors_parameters import (
    state_dict_from_groundhog,
)
from fairseq_rnnsearch.runs.checkpoint import load_as_data

SOURCE_SYMBOLS, TARGET_SYMBOLS = 11, 9


@pytest.fixture
def arrays():
    """Every size another, in float32 as the authors store them."""
    sizes = {"embed": 4, "hidden": 5, "attention": 7, "maxout": 3}
    sizes |= {"source_words": SOURCE_SYMBOLS, "target_words": TARGET_SYMBOLS}
    made = oracle.random_params(np.random.default_rng(1), **sizes)
    return {name: array.astype(np.float32) for name, array in made.items()}


@pytest.fixture
def params(arrays, tmp_path):
    np.savez(tmp_path / "params.npz", **arrays)
    return tmp_path / "params.npz"


def import_(params, out, *options):
    main(["import", "--params", str(params), "--out", str(out), *map(str, options)])


# --- there and back ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_export_is_the_inverse_of_import(arrays, tmp_path, dtype):
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    # numbers that a detour through another precision, or through arithmetic, would change
    arrays["b_dec_deep_softmax"][:4] = [np.nan, -0.0, np.inf, np.finfo(dtype).smallest_subnormal]
    np.savez(tmp_path / "params.npz", **arrays)
    import_(tmp_path / "params.npz", checkpoint := tmp_path / "deep" / "er" / "model.pt")
    found = groundhog_from_state_dict(load_as_data(str(checkpoint))["model"])
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert found[name].tobytes() == np.ascontiguousarray(array).tobytes(), name


def test_state_dict_is_that_of_a_model_with_these_arrays(arrays):
    """Whose arrays the tests place in another way."""
    state, mine = state_dict_from_groundhog(arrays), model_from_arrays(arrays).state_dict()
    assert state.keys() == mine.keys()
    for name, value in state.items():
        torch.testing.assert_close(value.double(), mine[name], rtol=0, atol=0, msg=name)


# --- symbols and dictionaries --------------------------------------------------------------------


def test_words_with_names_and_languages(params, tmp_path):
    names = {"fr": [f"mot{i}" for i in range(8)], "ja": ["é", "l'", "日本", "-LRB-", "#", "0"]}
    for language, words in names.items():
        (tmp_path / language).write_text("\n".join(words), encoding="utf-8")
    options = ["--source-words", tmp_path / "fr", "--target-words", tmp_path / "ja"]
    languages = ["--source-lang", "fr", "--target-lang", "ja"]
    import_(params, tmp_path / "model.pt", *options, *languages)
    for language, words in names.items():
        found = Dictionary.load(str(tmp_path / f"dict.{language}.txt"))
        numbers = range(2, len(words) + 2)
        assert [found.index(word) for word in words] == fairseq_words(numbers, len(words) + 3)


# --- the checkpoint ------------------------------------------------------------------------------


def test_fairseq_builds_the_model_from_the_checkpoint(params, arrays, tmp_path):
    import_(params, tmp_path / "model.pt")
    overrides = {"data": str(tmp_path)}
    [model], cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "model.pt")], arg_overrides=overrides
    )
    assert (cfg.task.source_lang, cfg.task.target_lang) == ("en", "fr")
    assert (len(task.source_dictionary), len(task.target_dictionary)) == (12, 10)
    assert cfg.model.attention_size == 7 and cfg.model.output_layer == "factorised"
    sources, targets = [[4, 9, 3, 2], [5, 2]], [[6, 3, 2], [7, 4, 4, 2]]
    found = score(model.double().eval(), sources, targets)
    expected = score(model_from_arrays(arrays), sources, targets)
    for (lprobs, _), (expected_lprobs, _) in zip(found, expected, strict=True):
        torch.testing.assert_close(lprobs, expected_lprobs, rtol=1e-12, atol=1e-12)


# --- refusals ------------------------------------------------------------------------------------


def test_arrays_that_nobody_knows_are_refused(arrays, tmp_path):
    np.savez(tmp_path / "params.npz", **arrays, extra=np.zeros(1))
    refused(tmp_path / "params.npz", tmp_path, [], "unknown arrays .* extra")


class Mischief:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was run",))


def test_pickles_are_not_run(tmp_path):
    (tmp_path / "state.pkl").write_bytes(pickle.dumps(Mischief()))
    np.savez(tmp_path / "a.npz", W_0_enc_approx_embdr=np.array([Mischief()], dtype=object))
    for name in ("state.pkl", "a.npz"):
        with pytest.raises((ValueError, KeyError)):
            import_(tmp_path / name, tmp_path / "model.pt")


EIGHT = [f"a{i}" for i in range(8)]


@pytest.mark.parametrize(
    "words", [EIGHT[:-1], [*EIGHT, "more"], [*EIGHT[:-1], "a0"], [*EIGHT[:-1], "<unk>"]]
)
def test_word_lists_that_do_not_fit_are_refused(params, tmp_path, words):
    (tmp_path / "words").write_text("\n".join(words) + "\n")
    message = rf"words names {9 if len(words) == 9 else 7} words"
    refused(params, tmp_path, ["--source-words", tmp_path / "words"], message)


def refused(params, folder, options, message):
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(UserError, match=message):
        import_(params, folder / "model.pt", *options)
    assert {path.name for path in folder.iterdir()} == before
