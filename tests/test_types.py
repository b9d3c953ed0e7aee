"""The Python API as checkers of types see it."""

import importlib.util
import inspect
import json
import os
import sys
from typing import get_type_hints

import pytest
from commands import ROOT, run_process

import fairseq_rnnsearch
from fairseq_rnnsearch import Translator
from fairseq_rnnsearch.commands.translator import ScoringOptions, SearchOptions

WHOLE_API = '''
"""All that a user of the package may call from Python."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import torch
from fairseq_rnnsearch import Translation, Translator, UserError, load


def load_all(paths: list[Path]) -> Translator:
    models: list[Translator] = [load("en-fr"), load(paths), load(paths[0], "data")]
    models.append(load("en-fr", device=torch.device("cpu")))
    return load(
        ["a.pt", "b.pt"],
        Path("data"),
        source_lang="en",
        target_lang="fr",
        tokenizer="moses",
        lowercase=True,
        bpe_codes=Path("codes"),
        device="cuda",
    )


def use(model: Translator) -> list[Translation]:
    print(model.translate("a").text.upper(), model.translate("a", 5, lenpen=0.5).score + 1)
    several: list[Translation] = model.translate((word for word in ["a", "b"]))
    several += model.translate(
        ["a"],
        beam=3,
        lenpen=1,
        forbid_unk=True,
        authors_search=True,
        replace_unk=True,
        split_sentences=True,
        attribution=True,
        pieces="keep",
        batch_size=8,
    )
    print(model.align("a", "b").weights.sum(axis=1))
    with model.as_one_text():
        several += model.align(["a"], ["b"], posterior=True, pieces="merge", batch_size=8)
    source, target = model.languages
    print(source.upper(), target.upper(), model.has_alignment is True)
    print(len(model.models), len(model.source_dictionary), len(model.target_dictionary))
    print(model.source_text.tokens("a"), model.target_text.text(["b"]))
    print(model.length_limit.of(3) + 1, model.name.upper())
    return several


def show(translation: Translation) -> npt.NDArray[np.floating]:
    print(translation.source, translation.text, translation.is_cut, f"{translation.score:.2f}")
    for word, probability in zip(translation.tokens, translation.probabilities, strict=True):
        print(word.upper(), probability + 1)
    print([word.upper() for word in (*translation.source_tokens, *translation.unknown)])
    print(translation.to_dict()["text"])
    print([one.text for one in (*translation.nbest, *translation.others)])
    if translation.alignment is not None:
        print([i + j for i, j in translation.alignment.links()])
    axes = translation.plot("a.png", style="slides", title="A", values=True, dpi=100)
    translation.plot(ax=plt.gca(), cmap="viridis")
    if translation.mattered is not None:
        print(translation.plot(values="mattered"), translation.mattered.sum(axis=1))
    print(axes.get_title(), translation.html(style="inverted").upper())
    return translation.weights


try:
    show(use(load_all([Path("a.pt")]))[0])
except UserError as mistake:
    print(mistake)
'''


def test_the_public_names_are_listed():
    """As a notebook completes them, and help() shows them."""
    assert {"load", "Translator", "Translation", "UserError"} <= set(dir(fairseq_rnnsearch))
    assert issubclass(fairseq_rnnsearch.UserError, ValueError)


@pytest.mark.parametrize(
    ("method", "options"), [("translate", SearchOptions), ("align", ScoringOptions)]
)
def test_checkers_know_every_option(method, options):
    parameters = inspect.signature(getattr(Translator, method), eval_str=True).parameters.values()
    by_name = {one.name: one.annotation for one in parameters if one.kind is one.KEYWORD_ONLY}
    assert get_type_hints(options) == by_name


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
@pytest.mark.parametrize("wrong", ["", 'load("en-fr").translate("a", pieces="melt")\n'])
def test_a_script_of_all_that_there_is_passes(checker, wrong, tmp_path):
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    last = len((WHOLE_API + wrong).splitlines())
    (tmp_path / "script.py").write_text(WHOLE_API + wrong)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "include": ["script.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    mypy = "--strict --follow-imports=silent --cache-dir=cache script.py".split()
    ran = run_process(
        [sys.executable, "-m", checker, *(mypy if checker == "mypy" else ())],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )
    assert bool(ran.returncode) == bool(wrong), ran.stdout + ran.stderr
    assert (f"script.py:{last}" in ran.stdout) == bool(wrong)
