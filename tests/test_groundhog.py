"""The authors' parameters, through the command line."""

import pickle

import numpy as np
import pytest
import torch
from authors import PARAMS
from commands import run
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from models import (
    authors_words,
    fairseq_words,
    groundhog_from_state_dict,
    model_from_arrays,
    score,
)
from oracles import numpy_rnnsearch as oracle

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.groundhog import main
from fairseq_rnnsearch.models.authors_parameters import (
    fairseq_symbols,
    model_config,
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


def export(checkpoint):
    return groundhog_from_state_dict(load_as_data(str(checkpoint))["model"])


def assert_bit_for_bit(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert found[name].tobytes() == np.ascontiguousarray(array).tobytes(), name


def assert_nothing_written(folder, *, but):
    assert {path.name for path in folder.iterdir()} == set(but)


# --- there and back ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_export_is_the_inverse_of_import(arrays, tmp_path, dtype):
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    # numbers that a detour through another precision, or through arithmetic, would change
    arrays["b_dec_deep_softmax"][:4] = [np.nan, -0.0, np.inf, np.finfo(dtype).smallest_subnormal]
    np.savez(tmp_path / "params.npz", **arrays)
    import_(tmp_path / "params.npz", tmp_path / "model.pt")
    assert_bit_for_bit(export(tmp_path / "model.pt"), arrays)


def test_the_authors_own_file_survives(tmp_path):
    import_(PARAMS, tmp_path / "deep" / "er" / "model.pt")
    with np.load(PARAMS) as expected:
        found = export(tmp_path / "deep" / "er" / "model.pt")
        assert len(found) == 40
        assert_bit_for_bit(found, dict(expected))


def test_as_a_command(params, arrays, tmp_path):
    """`python -m`, as documented, and its one line for a mistake."""

    def line(name, out):
        return "fairseq_rnnsearch.groundhog", "import", "--params", tmp_path / name, "--out", out

    made = run(*line("params.npz", tmp_path / "model.pt")).ok()
    assert made.err.splitlines()[-1] == f"wrote {tmp_path / 'model.pt'}"
    assert_bit_for_bit(export(tmp_path / "model.pt"), arrays)
    message = run(*line("none.npz", tmp_path / "other.pt")).error()
    assert f"{tmp_path / 'none.npz'}: No such file or directory" in message


def test_state_dict_and_back(arrays):
    state = state_dict_from_groundhog(arrays)
    assert_bit_for_bit(groundhog_from_state_dict(state), arrays)
    # the same as the tests' own way of placing the arrays, which is not this one
    mine = model_from_arrays(arrays).state_dict()
    assert state.keys() == mine.keys()
    for name, value in state.items():
        torch.testing.assert_close(value.double(), mine[name], rtol=0, atol=0, msg=name)


# --- symbols and dictionaries --------------------------------------------------------------------


def test_symbols():
    assert fairseq_symbols(6).tolist() == [0, 3, 4, 5, 6, 2]
    assert fairseq_symbols(6).tolist() == fairseq_words(range(6), 6)
    assert authors_words(fairseq_symbols(6), 6) == list(range(6))
    assert 1 not in fairseq_symbols(30_001)
    assert len(set(fairseq_symbols(30_001).tolist())) == 30_001


def test_words_without_names(params, tmp_path):
    import_(params, tmp_path / "model.pt")
    source = Dictionary.load(str(tmp_path / "dict.en.txt"))
    target = Dictionary.load(str(tmp_path / "dict.fr.txt"))
    assert (len(source), len(target)) == (SOURCE_SYMBOLS + 1, TARGET_SYMBOLS + 1)
    assert source.symbols[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    # named after the authors' numbers
    numbers = [authors_words([source.index(word)], SOURCE_SYMBOLS)[0] for word in ("w2", "w9")]
    assert numbers == [2, 9]


def test_words_with_names_and_languages(params, tmp_path):
    source_words = [f"mot{i}" for i in range(SOURCE_SYMBOLS - 3)]
    target_words = ["é", "l'", "日本", "-LRB-", "#", "0"]
    (tmp_path / "source").write_text("\n".join(source_words) + "\n", encoding="utf-8")
    (tmp_path / "target").write_text("\n".join(target_words), encoding="utf-8")
    options = ["--source-words", tmp_path / "source", "--target-words", tmp_path / "target"]
    languages = ["--source-lang", "fr", "--target-lang", "ja"]
    import_(params, tmp_path / "model.pt", *options, *languages)
    for language, words in (("fr", source_words), ("ja", target_words)):
        found = Dictionary.load(str(tmp_path / f"dict.{language}.txt"))
        assert found.symbols[4:] == words
        assert [found.index(word) for word in words] == fairseq_words(
            range(2, len(words) + 2), len(words) + 3
        )


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


def test_each_size_is_that_of_its_parameter():
    sizes = {
        "encoder.embedding.weight": (9, 2),
        "encoder.forward_unit.recurrent_proposed": (3, 3),
        "decoder.embedding.weight": (9, 4),
        "decoder.unit.recurrent_proposed": (5, 5),
        "decoder.alignment_model.energy_weight": (6,),
        "decoder.output.inner_weight": (9, 7),
    }
    config = model_config({name: torch.empty(size) for name, size in sizes.items()})
    names = ("encoder_embed_dim", "encoder_hidden_size", "decoder_embed_dim", "decoder_hidden_size")
    found = [getattr(config, name) for name in (*names, "attention_size", "maxout_size")]
    assert found == [2, 3, 4, 5, 6, 7]


# --- refusals ------------------------------------------------------------------------------------


BIAS = "b_0_dec_hid_readout_0"


def test_arrays_of_another_model_are_refused(arrays, tmp_path):
    np.savez(tmp_path / "params.npz", **arrays, extra=np.zeros(1))
    refused(tmp_path / "params.npz", tmp_path, [], "unknown arrays .* extra")


class Mischief:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was run",))


NO_ARRAYS = {
    "pickle": lambda path: path.write_bytes(pickle.dumps(Mischief())),
    "object arrays": lambda path: np.savez(
        path.open("wb"), W_0_enc_approx_embdr=np.array([Mischief()], dtype=object)
    ),
}


@pytest.mark.parametrize("name", NO_ARRAYS)
def test_pickles_are_not_run(params, arrays, tmp_path, name):
    NO_ARRAYS[name](tmp_path / "state.pkl")
    with pytest.raises((ValueError, KeyError)):
        import_(tmp_path / "state.pkl", tmp_path / "model.pt")


EIGHT = [f"a{i}" for i in range(8)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (EIGHT[:-1], "words names 7 words, .* the parameters have 8"),
        ([*EIGHT, "more"], "words names 9 words, .* the parameters have 8"),
        ([*EIGHT[:-1], "a0"], "words names 7 words, each once"),
        ([*EIGHT[:-1], "<unk>"], "words names 7 words, each once and none like <unk>"),
    ],
)
def test_word_lists_that_do_not_fit_are_refused(params, tmp_path, words, message):
    (tmp_path / "words").write_text("\n".join(words) + "\n")
    refused(params, tmp_path, ["--source-words", tmp_path / "words"], message)


def test_equal_languages_are_refused(params, tmp_path):
    refused(params, tmp_path, ["--source-lang", "fr"], "must differ")


def refused(params, folder, options, message):
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(UserError, match=message):
        import_(params, folder / "model.pt", *options)
    assert_nothing_written(folder, but=before)
