"""The recipe that aligns the Hansards: trainings, stages that come later, tables of error rates.

eflomal is played by a script that knows the language's true links.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ADJECTIVES, NOUNS, ROOT, TINY_MODEL, run_process, write_text

RECIPE = ROOT / "recipes" / "hansards" / "run.sh"
TINY = {
    **TINY_MODEL,
    "LEARNING_RATE": "0.02",
    "WARMUP": "10",
    "BPE_MERGES": "200",
    "BATCH_TOKENS": "100",
    "UPDATES": "300",
    "FORESIGHT_UPDATES": "200",
    "GUIDED": "1",
    "GUIDED_WEIGHT": "0",
    "RESAMPLES": "20",
}

ALIGNER = f"""#!{sys.executable}
import argparse
french = dict(pair.split(":") for pair in {[*NOUNS, *ADJECTIVES]})
parser = argparse.ArgumentParser()
for option in "stfrp":
    parser.add_argument("-" + option)
given = parser.parse_args()
with open(given.s) as english, open(given.t) as other, open(given.f, "w") as forward:
    for source, target in zip(english, other, strict=True):
        free, links = dict(enumerate(target.split())), []
        for i, word in enumerate(source.split()):
            j = next(j for j in free if free[j] == french[word])
            del free[j]
            links.append(f"{{i}}-{{j}}")
        print(*links, file=forward)
with open(given.f) as forward, open(given.r, "w") as inverse:
    inverse.write(forward.read())
"""
MAKER_OF_PRIORS = """#!/bin/sh
[ "$1" = -p ] && echo priors >"$2"
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A function that runs the recipe on a corpus whose words a script aligns without a fault."""
    if not (Path(sys.prefix) / "installed").exists():
        pytest.skip("the recipes make their own environment, and these tests run in another one")
    folder = tmp_path_factory.mktemp("the Hansards")  # with a space
    programs = folder / "bin"
    programs.mkdir()
    for name, text in {"align": ALIGNER, "makepriors": MAKER_OF_PRIORS}.items():
        (programs / f"eflomal-{name}").write_text(text)
        (programs / f"eflomal-{name}").chmod(0o755)
    text = tmp_path_factory.mktemp("text")
    write_text(text, train=2000, valid=40, test=60)
    sides = [(text / f"test.{language}").read_text().splitlines() for language in ("en", "fr")]
    (folder / "enfr.src-tgt").write_text(
        "".join(f"{english}   ||| {french}  \n" for english, french in zip(*sides, strict=True))
    )
    links = folder / "links"
    subprocess.run(
        [programs / "eflomal-align", "-s", text / "test.en", "-t", text / "test.fr"]
        + ["-f", links, "-r", folder / "inverse"],
        check=True,
    )
    from_one = re.sub(r"\d+", lambda number: str(int(number[0]) + 1), links.read_text())
    talp = from_one.replace("-", "p", 1)  # a possible link, by which the format is known
    (folder / "enfr.gold").write_text(talp)

    def run(**settings):
        return run_process(
            ["bash", RECIPE],
            env={
                **os.environ,
                **TINY,
                "OMP_NUM_THREADS": "1",
                "VENV": sys.prefix,
                "WORK": str(folder / "work"),
                "HANSARDS_DIR": str(folder),
                "TRAIN": str(text / "train"),
                "VALID": str(text / "valid"),
                "EFLOMAL": str(programs),
                **settings,
            },
        )

    return run


def error_rates(finished):
    """AER in per cent by split and row, as the tables have them."""
    assert finished.returncode == 0, finished.stderr
    rates, split = {}, None
    for line in finished.stdout.splitlines():
        if line.startswith("against"):
            split = "gold" if "human" in line else "valid"
        elif found := re.match(r"(.+?)  +precision .* AER ([0-9.]+)%", line):
            rates[split, found[1]] = float(found[2])
    return rates


@pytest.mark.slow
def test_links_are_followed_by_the_alignment_model_alone(corpus):
    """The translator does not follow them, and what reads the word and follows them aligns."""
    plain = error_rates(corpus())
    guided = error_rates(corpus(FORESIGHT="1"))
    for split in ("valid", "gold"):
        for row in ("en-fr", "fr-en", "grow-diag-final-and", "product, intersection"):
            assert guided[split, row] < 5, (guided, plain)
        assert plain[split, "en-fr"] > guided[split, "en-fr"] + 10, (guided, plain)
    assert guided["gold", "eflomal, union"] == 0


@pytest.mark.slow
def test_models_that_follow_their_own_links_align_better(corpus, tmp_path):
    """No other aligner takes part: where both directions agree, the links are nearly right."""
    settings = {"WORK": str(tmp_path / "work"), "GUIDED": "0", "WITH_TEST": "1"}
    plain = error_rates(corpus(**settings, POSTERIOR="1"))
    own = error_rates(corpus(**settings, OWN_PAIRS="1000"))
    for split in ("valid", "gold"):
        for row in ("en-fr", "fr-en", "grow-diag-final-and"):
            assert own[split, row] < min(10, plain[split, row]), (own, plain)
    links = (tmp_path / "work/own-links/en-fr").read_text().splitlines()
    assert len(links) == 1060 and sum(map(bool, links)) > 1000


@pytest.mark.slow
def test_text_of_the_task_is_in_training_only_if_asked_for(tmp_path):
    (tmp_path / "task").write_text("A cat . ||| Un chat .\n")
    for split, english, french in (
        ("train", "A cat .\nA red dog .\n", "Un chat !\nUn chien rouge .\n"),
        ("valid", "A house .\n", "Une maison .\n"),
    ):
        (tmp_path / f"{split}.en").write_text(english)
        (tmp_path / f"{split}.fr").write_text(french)
    for further, french in (([], []), (["--with-test"], ["un chat ."])):
        subprocess.run(
            [sys.executable, RECIPE.with_name("corpus.py"), "--out", tmp_path / "out"]
            + ["--train", tmp_path / "train", "--valid", tmp_path / "valid"]
            + ["--pairs", tmp_path / "task", *further],
            check=True,
        )
        written = (tmp_path / "out/train.fr").read_text().splitlines()
        assert sorted(written) == [*french, "un chien rouge ."]
