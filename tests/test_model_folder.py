"""A model as a folder: everything comes back, and what is wrong with one is one line."""

import hashlib
import json
import re
from dataclasses import fields

import numpy as np
import pytest
import torch
from commands import call
from in_process import fairseq
from models import SIZES, SOURCES, batch_of, build_model
from safetensors.numpy import load_file, save_file

from fairseq_rnnsearch import UserError, load
from fairseq_rnnsearch.decoding.length_limit import LengthLimit
from fairseq_rnnsearch.living import __main__ as living
from fairseq_rnnsearch.models.conversion import to_checkpoint, to_folder
from fairseq_rnnsearch.models.find import PARAMETERS, find_model, packaged
from fairseq_rnnsearch.models.folder import (
    CONFIG,
    ModelConfig,
    quantised,
    read_config,
    read_folder,
    write_folder,
)
from fairseq_rnnsearch.plugin.model import RNNSearchConfig

KINDS = {
    "the program's": {},
    "section 3's order": {"decoder_order": "section3"},
    "the appendix's order": {"decoder_order": "appendix"},
    "RNNencdec": {"fixed_context": True},
    "factorised": {"output_layer": "factorised"},
    "bfloat16": {"compute_dtype": "bfloat16"},
}


def written(folder, weights="float32", **options):
    model = build_model(**options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4)
    config = RNNSearchConfig(**(SIZES | options))
    names = [option.name for option in fields(config) if not option.name.startswith("_")]
    facts = ModelConfig(
        "rnnsearch_50",
        {name: getattr(config, name) for name in names},
        ("en", "fr"),
        True,
        LengthLimit(3.0, 10),
        "some licence",
        ("a b", "c"),
        {"BLEU": 8.0},
    )
    dictionaries = model.encoder.dictionary, model.decoder.dictionary
    write_folder(folder, model, facts, dictionaries, folder.parent, weights=weights)
    return model, facts, dictionaries


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_comes_back(kind, tmp_path):
    model, facts, dictionaries = written(tmp_path / "model", **KINDS[kind])
    read = read_folder(tmp_path / "model")
    assert read.config == facts
    assert [one.symbols for one in read.dictionaries] == [one.symbols for one in dictionaries]
    expected = model.state_dict()
    assert read.model.state_dict().keys() == expected.keys()
    for name, values in read.model.state_dict().items():
        assert torch.equal(values, expected[name]), name
    batch = batch_of(SOURCES, SOURCES)["net_input"]
    with torch.no_grad():
        assert torch.equal(read.model(**batch)[0], model.eval()(**batch)[0])


def test_removed_options_are_dropped_or_refused(tmp_path):
    written(tmp_path / "model")
    _config(lambda config: config["options"].update(target_foresight=False))(tmp_path / "model")
    _config(lambda config: config.update(licence="free\x1b[2J"))(tmp_path / "model")
    assert "target_foresight" not in read_config(tmp_path / "model").options
    assert read_config(tmp_path / "model").licence == "free\ufffd[2J"  # for a terminal
    _config(lambda config: config["options"].update(target_foresight=True))(tmp_path / "model")
    with pytest.raises(UserError, match=r"--target-foresight True: commit d09b774 .*hansards"):
        read_config(tmp_path / "model")


@pytest.mark.parametrize("left_pad_source", [False, True])
def test_a_folder_and_its_checkpoint_are_exported_as_the_same_folder(tmp_path, left_pad_source):
    model, facts, dictionaries = written(tmp_path / "other")
    facts = facts._replace(left_pad_source=left_pad_source, validation={})
    write_folder(tmp_path / "model", model, facts, dictionaries, tmp_path)
    to_checkpoint(str(tmp_path / "model"), tmp_path / "model.pt")
    to_folder(str(tmp_path / "model"), None, tmp_path / "copy")
    shown = {"licence": facts.licence, "examples": facts.examples}
    to_folder(str(tmp_path / "model.pt"), None, tmp_path / "again", **shown)
    assert read_folder(tmp_path / "copy").config == facts
    assert read_folder(tmp_path / "again").config == facts


def test_eight_bits_have_a_scale_for_each_row(tmp_path):
    model, *_ = written(tmp_path / "model", "int8")
    stored = load_file(tmp_path / "model" / PARAMETERS)
    read = read_folder(tmp_path / "model").model.state_dict()
    for name, values in model.state_dict().items():
        values = values.numpy()
        if values.ndim == 1:
            assert stored[name].dtype == np.float32
            np.testing.assert_array_equal(read[name], values)
            continue
        assert stored[name].dtype == np.int8 and abs(stored[name].astype(int)).max() == 127
        step = abs(values).max(axis=1, keepdims=True) / 127
        assert (abs(read[name].numpy() - values) <= step / 2 * 1.001).all()
        assert (abs(read[name].numpy() - values) > 0).any()
    with np.errstate(all="raise"):  # a row of zeros stays one
        steps, scales = quantised(np.array([[0, 0], [254, -2]], np.float32))
    assert steps.tolist() == [[0, 0], [127, -1]] and scales.tolist() == [0, 2]


def test_half_precision_is_rounded_once_and_holds_no_large_numbers(tmp_path):
    model, facts, dictionaries = written(tmp_path / "other")
    to = model, facts, dictionaries, tmp_path
    model.decoder.output.bias.data[0] = -1e9  # so the authors' models keep words out
    write_folder(tmp_path / "model", *to, weights="float16")
    for name, values in read_folder(tmp_path / "model").model.state_dict().items():
        expected = model.state_dict()[name]
        expected = expected.half().float() if expected.ndim > 1 else expected
        np.testing.assert_array_equal(values, expected)
    model.decoder.output.weight.data[0, 0] = 1e5
    with pytest.raises(UserError, match=r"float16: .*output.weight has .* 1e\+05, .* at 65,504"):
        write_folder(tmp_path / "large", *to, weights="float16")
    assert not (tmp_path / "large").exists()


def _config(change):
    def spoil(folder):
        config = json.loads((folder / CONFIG).read_text())
        change(config)
        (folder / CONFIG).write_text(json.dumps(config))

    return spoil


def _parameters(change):
    def spoil(folder):
        stored = load_file(folder / PARAMETERS)
        change(stored)
        save_file(stored, folder / PARAMETERS)

    return spoil


BIAS, MATRIX = "decoder.output.bias", "decoder.output.weight"
# how a folder whose list of digests is gone is spoilt, and what is said
SPOILT = {
    "no JSON": (
        lambda f: (f / CONFIG).write_bytes((f / CONFIG).read_bytes()[:20]),
        "config.json cannot be read",
    ),
    "another format": (_config(lambda c: c.update(format="bert")), '"format" must be'),
    "no architecture": (
        _config(lambda c: c.pop("architecture")),
        "config.json cannot be read: .*architecture",
    ),
    "options in a list": (_config(lambda c: c.update(options=[])), "config.json cannot be read"),
    "a size that is text": (
        _config(lambda c: c["options"].update(maxout_size="many")),
        "config.json do not form a model",
    ),
    "a parameter too few": (_parameters(lambda s: s.pop(BIAS)), f"{BIAS} has the shape None"),
    "not finite": (
        _parameters(lambda s: s[BIAS].fill(np.nan)),
        "model.safetensors .*not finite",
    ),
    "a word twice": (
        lambda folder: (folder / "dict.fr.txt").write_text("w0 1\n" * 9),
        "dict.fr.txt, line 2",
    ),
    "no dictionary": (lambda folder: (folder / "dict.fr.txt").unlink(), "lacks dict.fr.txt"),
    "an unknown option": (_config(lambda c: c["options"].update(layers=2)), "layers"),
    "truncated": (
        lambda f: (f / PARAMETERS).write_bytes((f / PARAMETERS).read_bytes()[:300]),
        "model.safetensors and config.json do not form a model",
    ),
    "8 bits without scales": (
        _parameters(lambda s: s.update({MATRIX: s[MATRIX].astype(np.int8)})),
        f"{MATRIX}.scale",
    ),
    "scales of another size": (
        _parameters(
            lambda s: s.update(
                {MATRIX: s[MATRIX].astype(np.int8), f"{MATRIX}.scale": np.ones(3, np.float32)}
            )
        ),
        "model.safetensors and config.json do not form a model",
    ),
    "a vector in 8 bits": (
        _parameters(
            lambda s: s.update(
                {BIAS: s[BIAS].astype(np.int8), f"{BIAS}.scale": np.ones(len(s[BIAS]), np.float32)}
            )
        ),
        f"{BIAS}.scale has the shape",
    ),
    "a folder for a file": (
        lambda folder: ((folder / PARAMETERS).unlink(), (folder / PARAMETERS).mkdir()),
        "lacks model.safetensors",
    ),
    "codes of another folder": (
        lambda f: (f / "preprocessing.json").write_text(
            json.dumps({"en": {"bpe_codes": "../codes"}})
        ),
        "lacks ../codes",
    ),
    "codes that are missing": (
        lambda f: (f / "preprocessing.json").write_text(
            json.dumps({"en": {"bpe_codes": "codes.en"}})
        ),
        "lacks codes.en",
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_what_is_wrong_with_a_folder_is_one_line(case, tmp_path):
    spoil, said = SPOILT[case]
    folder = tmp_path / "model"
    written(folder)
    (folder / "SHA256SUMS").unlink()
    spoil(folder)
    with pytest.raises(UserError, match=said) as mistake:
        load(folder)
    assert "\n" not in str(mistake.value)


@pytest.mark.parametrize("name", [PARAMETERS, CONFIG, "dict.fr.txt", "preprocessing.json"])
def test_a_changed_file_is_seen_by_its_digest(name, tmp_path):
    folder = tmp_path / "model"
    written(folder)
    content = bytearray((folder / name).read_bytes())
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}.*(rnnsearch-export wrote it|cannot be read)"):
        load(folder)


def test_a_poor_model_says_so_once_and_its_card_has_its_size(tmp_path, caplog):
    written(tmp_path / "model")
    for _ in range(2):
        load(tmp_path / "model")
    assert sum("8.0 BLEU" in record.getMessage() for record in caplog.records) == 1
    card = (tmp_path / "model/README.md").read_text()
    assert f"with {SIZES['decoder_hidden_size']} hidden units" in card and "_50" not in card


def test_a_folder_that_is_there_is_not_written_over(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").touch()
    with pytest.raises(UserError, match=r"--out .*model: is there already"):
        written(tmp_path / "model")
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "mine"]


def _found(model, sentences):
    return [
        (one.text, one.score, one.weights.tolist(), one.tokens)
        for one in model.translate(sentences, beam=3)
    ]


def test_a_trained_model_translates_alike_from_each_form(learned, tmp_path):
    """Checkpoint, folder, the folder's checkpoint: to the bit. An ensemble may be of folders."""
    checkpoint, data = str(learned.checkpoint), str(learned.corpus.data)
    folder, back = tmp_path / "folder", tmp_path / "back.pt"
    to_folder(checkpoint, data, folder)
    to_checkpoint(str(folder), back)
    sentences = (learned.corpus.text / "test.en").read_text().splitlines()[:10]
    models = [load(checkpoint, data), load(folder), load(back)]
    expected, *others = [_found(model, sentences) for model in models]
    assert others == [expected, expected]
    assert models[1].length_limit == models[0].length_limit == models[2].length_limit
    states = (torch.load(path, weights_only=False)["task_state"] for path in (checkpoint, back))
    assert next(states)["dictionaries"] == next(states)["dictionaries"]  # which refuse others
    several = load([checkpoint, checkpoint], data), load([folder, folder])
    assert _found(several[0], sentences) == _found(several[1], sentences)
    for given, named in (({"data": data}, "data"), ({"source_lang": "de"}, "source_lang de")):
        with pytest.raises(UserError, match=named):
            load(folder, **given)


def test_no_form_keeps_the_rounding_of_the_processor_that_made_it(learned, tmp_path, monkeypatch):
    """Models trained in bfloat16 are rounded to translate, where the processor can."""
    monkeypatch.setattr("fairseq_rnnsearch.network.precision._has_bfloat16", lambda: True)
    data, float32, bfloat16 = str(learned.corpus.data), learned.checkpoint, tmp_path / "b.pt"
    state = torch.load(float32, weights_only=False)
    state["cfg"]["model"]["compute_dtype"] = "bfloat16"
    torch.save(state, bfloat16)
    to_folder(str(bfloat16), data, tmp_path / "folder")
    for name, values in load_file(tmp_path / "folder" / PARAMETERS).items():
        np.testing.assert_array_equal(values, state["model"][name], strict=True)
    types = [None, "bfloat16"]
    models = [load(tmp_path / "folder", compute_dtype=one).models[0] for one in types]
    assert [one.decoder.compute_dtype for one in models] == ["float32", "bfloat16"]
    texts = (learned.corpus.text / "test.en").read_text().splitlines()[:10]
    wide = load(tmp_path / "folder"), load(float32, data)
    assert _found(wide[0], texts) == _found(wide[1], texts)
    pages = []
    for checkpoint in (bfloat16, float32):
        living.main([str(checkpoint), f"--data={data}", f"--out={tmp_path / checkpoint.name}.html"])
        pages.append((tmp_path / f"{checkpoint.name}.html").read_bytes())
    assert pages[0] == pages[1]


def test_commands_take_a_folder(learned, tmp_path):
    folder, back = tmp_path / "folder", tmp_path / "back.pt"
    export, translate = (f"fairseq_rnnsearch.commands.{name}" for name in ("export", "translate"))
    asked = "--data", learned.corpus.data, "--out", folder, "--licence", "'some licence'"
    call(export, learned.checkpoint, *asked).ok()
    call(export, folder, "--to-checkpoint", back).ok()
    text = learned.corpus.text / "test.en"
    parameters = folder / "model.safetensors"  # which many users give
    found, *others = (call(translate, model, text).ok().out for model in (folder, back, parameters))
    assert others == [found, found] and found.count("\n") == 60
    validated = fairseq("validate", learned.corpus.data, "--cpu --batch-size 9 --path", back)
    assert re.search(r" ppl 1(\.\d+)? ", validated.out)  # it has learned its language
    call("fairseq_rnnsearch.living", folder, "--out", tmp_path / "page.html").ok()
    assert "some licence" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("name", packaged())
def test_a_packaged_model_translates(name):
    """Its list of digests names all files; a formatter may change a card."""
    folder = find_model(name)
    listed = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").open())
    found = {
        f"{path.name}\n": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "SHA256SUMS"
    }
    assert listed == found
    model = load(name)
    sentence = {"en": "The house is big.", "fr": "La maison est grande."}
    source, target = model.languages
    assert model.translate(sentence[source], beam=5).text == sentence[target]
