"""rnnsearch-train --from: a model learns from new pairs, with its own tokens and sizes."""

import json
import shutil

import pytest
from commands import NOUNS

from fairseq_rnnsearch import load
from fairseq_rnnsearch.commands.tokenizing import learn_codes
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.models.conversion import to_folder
from fairseq_rnnsearch.text.plain_text import settings_of, write_settings
from fairseq_rnnsearch.train.__main__ import main

pytest_plugins = ("trained",)


@pytest.fixture
def model(tmp_path, learned):
    """The folder of a model with merges that leave its words whole, stored as int8."""
    data = shutil.copytree(learned.corpus.data, tmp_path / "data")
    text = [learned.corpus.text / f"train.{language}" for language in ("en", "fr")]
    (data / "codes").write_text(learn_codes(text, 500))
    settings = {"tokenizer": "reversible", "bpe_codes": "codes", "single_sentences": True}
    write_settings(data, {"en": settings, "fr": settings})
    to_folder(str(learned.checkpoint), str(data), tmp_path / "model", "int8", licence="public")
    return tmp_path / "model"


def test_a_model_learns_from_new_pairs(tmp_path, model):
    """Every noun is "boat" now; of "Zebra" the model knows no character."""
    nouns = [noun.split(":") for noun in NOUNS]
    pairs = [f"{one} {other}\tbateau {fr}\n" for one, _ in nouns for other, fr in nouns]
    (tmp_path / "mine.tsv").write_text("".join(pairs) + "Zebra house\tbateau maison\n")
    options = f"--pairs={tmp_path}/mine.tsv --work={tmp_path}/work --licence=mine --drawn=1"
    options += f" --from={model} --learning-rate=0.01 --updates=60 --batch-size=8 --checkpoint=best"
    main(command := options.split())
    assert load(model).translate("tree key").text != "bateau clé"
    found = tmp_path / "work" / "model"
    assert load(found).translate("tree key").text == "bateau clé"
    config = json.loads((found / "config.json").read_text())
    assert config["weights"] == "int8" and config["licence"] == "public; mine"
    assert settings_of(found)["fr"] == settings_of(model)["fr"] | {"bpe_codes": "codes.fr"}
    for name in ("codes.en", "dict.fr.txt"):
        assert (found / name).read_bytes() == (model / name).read_bytes()
    with pytest.raises(UserError, match="now --from"):
        main([*command, f"--from={found}"])
