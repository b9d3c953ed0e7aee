"""Data folders and models that do not belong together are refused in one line."""

import json
import re
import shutil
from argparse import Namespace

import pytest
import torch
from commands import write_text
from in_process import fairseq, generate
from models import task_with_data

from fairseq_rnnsearch import UserError, load
from fairseq_rnnsearch.commands.align import _in_units, _symmetrised
from fairseq_rnnsearch.models.find import find_model


def described(folder, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"en": settings, "fr": settings})
    (folder / "preprocessing.json").write_text(text)


def preprocess(text, data, *more):
    options = f"-s en -t fr --destdir={data}", f"--trainpref={text}/train --validpref={text}/valid"
    for path in data.glob("dict.*"):
        path.unlink()
    fairseq("preprocess", *options, *more)


def test_several_data_folders_number_the_same_words(small_corpus, tmp_path):
    text, data = write_text(tmp_path / "text", train=3, valid=3), small_corpus.data
    apart, alike = tmp_path / "apart", tmp_path / "alike"
    preprocess(text, apart)
    preprocess(text, alike, f"--srcdict {data}/dict.en.txt --tgtdict {data}/dict.fr.txt")
    task_with_data(small_corpus, tmp_path, data=f"{data}:{alike}")
    said = f"the source dictionary has 17 symbols ({data}), but {apart} has"
    with pytest.raises(UserError, match=re.escape(said)):
        task_with_data(small_corpus, tmp_path, data=f"{data}:{apart}")
    described(alike, lowercase=True)
    said = f"the source text has no preprocessing.json ({data}), but {alike} has the"
    with pytest.raises(UserError, match=re.escape(said)):
        task_with_data(small_corpus, tmp_path, data=f"{data}:{alike}")


def test_new_data_have_a_new_description(tmp_path):
    text, data, plain = tmp_path / "text", tmp_path / "data", tmp_path / "plain"
    write_text(text, train=9, valid=9)
    write_text(plain, valid=9)
    described(text, tokenizer="words", lowercase=True)
    preprocess(text, data)
    described(text, bpe_codes="codes")
    (text / "codes").write_text("a b\n")
    preprocess(text, data)
    assert "codes" in (data / "preprocessing.json").read_text()
    assert (data / "codes").read_text() == "a b\n"
    with pytest.raises(UserError, match=rf"\({text}\), but {plain} has no preprocessing\.json"):
        preprocess(text, data, f"--validpref={plain}/valid")
    described(plain, lowercase=True)
    words = f"--srcdict={data}/dict.en.txt --tgtdict={data}/dict.fr.txt"
    preprocess(text, data)
    with pytest.raises(UserError, match=rf"\({data}\), but {plain} has"):
        fairseq("preprocess", f"-s en -t fr --testpref={plain}/valid --destdir={data} {words}")
    (text / "preprocessing.json").unlink()
    preprocess(text, data)
    assert not (data / "preprocessing.json").exists()


def test_model_folders_of_an_ensemble_agree(tmp_path):
    cased, other = tmp_path / "cased", tmp_path / "other"
    for folder in (cased, other):
        shutil.copytree(find_model("en-fr"), folder)
        (folder / "SHA256SUMS").unlink()
    settings = json.loads((cased / "preprocessing.json").read_text())
    settings["en"]["lowercase"] = not settings["en"]["lowercase"]
    (cased / "preprocessing.json").write_text(json.dumps(settings))
    config = (other / "config.json").read_text()
    (other / "config.json").write_text(config.replace('"en"', '"de"'))
    (other / "dict.en.txt").rename(other / "dict.de.txt")
    for folder, said in ((cased, "source text has"), (other, "source language is")):
        for pair in (["en-fr", folder], [folder, "en-fr"]):
            with pytest.raises(UserError, match=f"the {said} .*{pair[0]}.* but {pair[1]} has"):
                load(pair)
    load(["en-fr", cased], lowercase=settings["fr"]["lowercase"])  # both alike


def test_checkpoints_of_an_ensemble_agree(learned, learned_shortlist, tmp_path):
    first, data, other = learned.checkpoint, learned.corpus.data, tmp_path / "other.pt"
    state = torch.load(first, weights_only=True)
    state["task_state"]["dictionaries"]["source"] |= {"language": "fr"}
    torch.save(state, other)
    for pair in ([first, other], [other, first]):
        with pytest.raises(UserError, match=r"the source language is .* but another has"):
            load(pair, data)
    with pytest.raises(UserError, match=f"the source language is .*{other}|{other}.* language is"):
        generate(data, f"{first}:{other}")
    lower = shutil.copytree(data, tmp_path / "lower")
    described(lower, lowercase=True)
    state["task_state"] = {}  # as in older checkpoints
    state["cfg"]["task"]["data"] = str(lower)
    torch.save(state, other)
    for pair in ([first, other], [other, first]):
        with pytest.raises(UserError, match=r"the source text has .* preprocessing\.json"):
            load(pair)
    load([first, other], data)
    state = torch.load(learned_shortlist.checkpoint, weights_only=True)
    state["task_state"] = {}
    torch.save(state, other)
    with pytest.raises(UserError, match=r"other\.pt: the source dictionary has 17 symbols"):
        load([first, other], data)


def test_both_directions_are_compared_by_the_words_that_both_know():
    spaced = load("fr-en").align(french := "Comment ça va\u00a0?", english := "How are you?")
    pair = load("en-fr").align(english, french)
    assert len(spaced.source_tokens) == len(pair.tokens) + 1
    options = Namespace(symmetrise="union", threshold=None)
    _, joined = _symmetrised(*_in_units((pair, spaced), "tokens", "keep"), options, "line 1")
    assert max(target for _, target in joined) == 3
    assert {*pair.alignment.links()} <= joined
    other = load("fr-en").align("Où ?", "Who?")
    with pytest.raises(UserError, match="split line 1 into different words"):
        _symmetrised(*_in_units((pair, other), "tokens", "keep"), options, "line 1")
