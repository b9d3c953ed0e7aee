"""A recipe's settings are values: what looks like a command in them is never run."""

import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import ROOT, write_text
from slow_cases import cases

RECIPES = ROOT / "recipes"
SHARED = ["steps.sh", "stages.sh", "settings.sh"]
FILES = {"own_data": [*SHARED, "own_data"], "wmt14_en_fr": ["steps.sh", "wmt14_en_fr"]}


# The shell's own part is tried: the programs that it asks are in tests/test_own_pairs.py.
PYTHON = """#!/bin/sh
case $* in *split.py*)
    for fact in PAIRS TRAIN_PAIRS TEST_PAIRS; do echo $fact=20; done
    for side in SOURCE TARGET; do
        for fact in WORDS CHARACTERS DISTINCT UNSPACED CHINESE; do echo ${side}_$fact=1; done
    done
esac
"""


def settings(recipe):
    """The names of what its files take from the environment."""
    found = set()
    for name in FILES[recipe]:
        path = RECIPES / name
        for file in path.glob("*.sh") if path.is_dir() else [path]:
            found |= set(re.findall(r'"\$\{([A-Z_]+):?=', file.read_text()))
    return sorted(found)


@pytest.mark.parametrize("recipe", cases(FILES))
def test_none_is_run(tmp_path, recipe):
    """bash runs commands in whatever it takes for arithmetic, an index or a pattern of words."""
    text = write_text(tmp_path / "text", train=20)
    options = {
        "own_data": ["--source", text / "train.en", "--target", text / "train.fr"],
        "wmt14_en_fr": [],
    }[recipe]
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    trace = tmp_path / "trace"
    hostile = (
        f"a[$(touch {trace})]",
        f"$(touch {trace})",
        f"'; touch {trace} #",
        f"`touch {trace}`",
    )

    def run(name, value, number):
        environment = {"PATH": os.environ["PATH"]}
        environment |= {"PYTHON": str(tmp_path / "python"), "VENV": str(tmp_path / "none")}
        environment |= {"WORK": str(tmp_path / f"{name}-{number}"), name: value}
        return name, subprocess.run(
            ["bash", RECIPES / recipe / "run.sh", "--dry-run", *options],
            env=environment,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
        )

    names = settings(recipe)
    assert len(names) > 20
    with ThreadPoolExecutor(2) as pool:
        ended = [
            pool.submit(run, name, value, number)
            for name in names
            for number, value in enumerate(hostile)
        ]
        for name, process in (future.result() for future in ended):
            assert not trace.exists(), name
            if process.returncode:
                assert name in process.stderr, process.stderr


DRY_RUNS = {
    "quickstart.sh": ("12000 pairs made up: 64/128/128/64 units", "about 4 minutes on one core"),
    "multi30k/run.sh": ("29000 pairs: 256/256/256/256 units", "about 55 minutes on one core"),
}


@pytest.mark.parametrize("recipe", DRY_RUNS)
def test_a_dry_run_says_what_it_takes_and_makes_nothing(tmp_path, recipe):
    environment = {"PATH": os.environ["PATH"], "VENV": str(tmp_path / "venv")}
    environment |= {"WORK": str(tmp_path / "work"), "PYTHON": sys.executable}

    def run(**settings):
        command = ["bash", RECIPES / recipe, "--dry-run"]
        ended = subprocess.run(
            command, env=environment | settings, capture_output=True, text=True, cwd=tmp_path
        )
        return ended.returncode, ended.stderr

    status, said = run()
    assert status == 0 and said.endswith("nothing was done (--dry-run)\n"), said
    for part in (*DRY_RUNS[recipe], "the Python environment is made"):
        assert part in said, said
    status, said = run(BATCH_SIZE="a[$(touch trace)]")
    assert status == 1 and "must be a number of 1 or more" in said
    assert not list(tmp_path.iterdir())


STAGES = "; ".join(f"source {RECIPES}/{n}.sh" for n in ("settings", "steps", "stages"))
BEGIN = f"{STAGES}; SOURCE=en TARGET=fr; check_settings; prepare_stages"


def stages(commands, begin=BEGIN, **settings):
    """Run commands of a recipe that trains a translator, once its settings are checked."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    settings = {"PATH": path, "ROOT": str(ROOT), "WORK": "/runs/x"} | settings
    return subprocess.run(
        ["bash", "-euc", f"{begin}; {commands}"], env=settings, capture_output=True, text=True
    )


NAMED = {  # what translates what, and where to
    "": "/runs/x/checkpoints/checkpoint_best.pt /runs/x/translations-best-beam12-length1-forbid",
    "EVALUATE=valid CHECKPOINT=average LENGTH_PENALTY=0.6": (
        "/runs/x/average-of-5.pt /runs/x/valid-translations-average-beam12-length0.6-forbid"
    ),
}
REFUSED = {
    "TOKENIZER_fr=words": "TOKENIZER_fr=words: must be one of reversible moses space character",
    "BPE_DROPOUT=1": "BPE_DROPOUT=1: must be a probability, at least 0 and below 1",
    "BPE_DROPOUT=0.1 VOCABULARY=shortlist": "BPE_DROPOUT=0.1 needs subwords: VOCABULARY=bpe",
    "BPE_DROPOUT_EPOCHS=5": "BPE_DROPOUT_EPOCHS=5 needs BPE_DROPOUT above 0",
    "RDROP=3 DROPOUT=0": "RDROP=3 needs DROPOUT above 0",
    "RDROP=3 BPE_DROPOUT=0.1": (
        "RDROP=3 is for epochs without BPE-dropout: give BPE_DROPOUT_EPOCHS"
    ),
    "ENSEMBLE=other": "ENSEMBLE=other: there is no other/checkpoints/checkpoint_best.pt",
}


@pytest.mark.parametrize("given", [*NAMED, *REFUSED])
def test_settings_of_translation(given):
    ended = stages("echo $MODELS $TRANSLATIONS", **dict(x.split("=") for x in given.split()))
    if given in NAMED:
        assert ended.stdout.strip() == NAMED[given]
    else:
        assert ended.returncode and ended.stderr.strip().endswith(f"error: {REFUSED[given]}")


MULTI30K = {  # its own settings give way to others, and fit what is set
    "": "0.1 9 9 3 uniform",
    "BPE_DROPOUT=0.2 BPE_DROPOUT_EPOCHS=5 INITIALIZATION=appendix": "0.2 5 9 3 appendix",
    "BPE_DROPOUT_EPOCHS=0": "0.1 0 9 0 uniform",
    "BPE_DROPOUT=0": "0 0 16 0 uniform",
    "DROPOUT=0": "0.1 9 9 0 uniform",
    "RDROP=0": "0.1 9 9 0 uniform",
    "VOCABULARY=shortlist": "0 0 16 0 uniform",
}


@pytest.mark.parametrize("given", MULTI30K)
def test_settings_of_multi30k(given):
    own = f"source {RECIPES}/multi30k/settings.sh; {BEGIN}"
    values = "$BPE_DROPOUT $BPE_DROPOUT_EPOCHS $BPE_COPIES $RDROP $INITIALIZATION"
    settings = dict(x.split("=") for x in given.split())
    assert stages(f"echo {values}", own, **settings).stdout.strip() == MULTI30K[given]


def test_how_each_language_is_tokenised_cannot_be_changed(tmp_path):
    def begin(**settings):
        """Without the environment, which begin_work makes."""
        remember = 'begin_work() { remember_settings "${@:2}"; }'
        return stages(f"{remember}; begin_training x", WORK=str(tmp_path), **settings).stderr

    assert begin() == begin(TOKENIZER_fr="moses") == ""
    refused = f"{tmp_path} was made with other settings, now TOKENIZER_fr=space: name another WORK"
    assert refused in begin(TOKENIZER_fr="space")
    made = (tmp_path / "settings").read_text()
    (tmp_path / "settings").write_text(made.replace("TOKENIZER_fr=moses\n", ""))  # by older recipes
    assert begin(TOKENIZER_fr="space") == ""
    assert "now HIDDEN=9: name" in begin(HIDDEN="9")


def test_an_ensemble_names_its_models_and_knows_one_dictionary(tmp_path):
    for name, word in (("a", "x"), ("b", "x"), ("c", "y")):
        for file in ("checkpoints/checkpoint_best.pt", "data/dict.en.txt", "data/dict.fr.txt"):
            (path := tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            path.write_text(word)
    a, b, c = (str(tmp_path / name) for name in "abc")
    together = stages("check_ensemble; echo $MODELS $TRANSLATIONS", WORK=a, ENSEMBLE=b)
    best = "checkpoints/checkpoint_best.pt"
    folder = f"{a}/translations-best-beam12-length1-forbid-with-b"
    assert together.stdout.split() == [f"{a}/{best}:{b}/{best}", folder]
    other = stages("check_ensemble", WORK=a, ENSEMBLE=f"{b} {c}")
    assert f"{c} has another dictionary of en than {a}" in other.stderr


def test_bpe_dropout_splits_training_text_alone_and_in_another_way_each_time(tmp_path):
    lines = [f"{word} {word[::-1]}" for word in ("station", "nation", "ratio", "notation")] * 20
    text = "\n".join(lines) + "\n"
    (tmp_path / "tokens").mkdir()
    (tmp_path / "logs").mkdir()
    for name in ("train", "valid", "test"):
        for language in ("en", "fr"):
            (tmp_path / "tokens" / f"{name}.{language}").write_text(text)
    made = tmp_path / "subwords"
    given = {"WORK": str(tmp_path), "PARTIAL": str(made), "BPE_MERGES": "60"}
    again = "segment en --dropout 0.3 --seed 2 <$WORK/tokens/train.en"
    commands = f"make_subwords; {again}; PARTIAL=$WORK/data; binarise"
    ended = stages(commands, **given, BPE_DROPOUT="0.3", BPE_COPIES="2")
    assert not ended.returncode, ended.stderr
    assert ended.stdout == (made / "train-2.en").read_text()
    for language in ("en", "fr"):
        one, two, whole, all_ways, valid = (
            (made / f"{name}.{language}").read_text()
            for name in ("train-1", "train-2", "train-0", "train", "valid")
        )
        assert all_ways == whole + one + two and one != two and whole == valid
        assert {x.replace("@@ ", "") for x in (one, two, whole)} == {text}
        assert len(set(whole.splitlines())) == 4  # each line's own; with BPE-dropout there are more
        assert len(set(one.splitlines())) > 20 < len(set(two.splitlines()))
        known = dict(map(str.split, (tmp_path / f"data/dict.{language}.txt").open()))
        counted = {piece: str(count) for piece, count in Counter(all_ways.split()).items()}
        assert {piece: known[piece] for piece in counted} == counted
    binarised = {path.stem for path in (tmp_path / "data").glob("*.idx")}
    assert binarised == {f"{x}.en-fr.{y}" for x in ("train", "valid", "test") for y in ("en", "fr")}
    for copy in ("copy-2", "copy-0"):
        further = {path.stem for path in (tmp_path / "data" / copy).glob("*.idx")}
        assert further == {"train.en-fr.en", "train.en-fr.fr"}


EPOCHS = {  # the folder that each epoch reads, by settings: 60 updates of two, of four pairs
    "": [""],
    "BPE_DROPOUT=0.1": ["", "copy-2", "copy-3"],
    "BPE_DROPOUT=0.1 BPE_DROPOUT_EPOCHS=1": ["", *["copy-0"] * 31],
    "BPE_DROPOUT=0.1 BPE_DROPOUT_EPOCHS=5": (
        ["", "copy-2", "copy-3", "", "copy-2", *["copy-0"] * 31]
    ),
    "BPE_DROPOUT=0.1 BPE_DROPOUT_EPOCHS=1 LONGEST=2": ["", *["copy-0"] * 61],
    "BPE_DROPOUT=0.1 BPE_DROPOUT_EPOCHS=1 LONGEST=0": ["", *["copy-0"] * 31],
}


TRAININGS = {  # what fairseq-train is told besides, by settings
    "": ["train:"],
    "RDROP=3": ["train: --rdrop-alpha 3"],
    "RDROP=0.5 BPE_DROPOUT=0.1 BPE_DROPOUT_EPOCHS=5": [
        "train with BPE-dropout: --max-epoch 5", "train: --rdrop-alpha 0.5"
    ],
    "BPE_DROPOUT=0.1 BPE_DROPOUT_EPOCHS=5": ["train:"],
}  # fmt: skip


@pytest.mark.parametrize("given", TRAININGS)
def test_r_drop_comes_after_bpe_dropout(tmp_path, given):
    fake = 'resume_step() { [[ $2 = train ]]; echo "$1:" "${@:3}"; }'
    settings = dict(x.split("=") for x in given.split())
    ended = stages(f"{fake}; train_model", WORK=str(tmp_path), **settings)
    assert ended.stdout.splitlines() == TRAININGS[given], ended.stderr


@pytest.mark.parametrize("given", EPOCHS)
def test_each_epoch_reads_its_copy_and_the_last_ones_every_merge(tmp_path, given):
    """However many pairs are too long, no later epoch has BPE-dropout again."""
    (tmp_path / "subwords").mkdir()
    (tmp_path / "subwords/train-0.en").write_text("a\nb b\nc c c\nd d\n")
    (tmp_path / "subwords/train-0.fr").write_text("A\nB B\nC C\nD D D\n")
    settings = dict(x.split("=") for x in given.split())
    common = {"WORK": str(tmp_path), "BPE_COPIES": "3", "UPDATES": "60", "BATCH_SIZE": "2"}
    ended = stages("set_folders; echo $FOLDERS", **common, **settings)
    data = f"{tmp_path}/data"
    folders = [f"{data}/{copy}" if copy else data for copy in EPOCHS[given]]
    assert ended.stdout.strip().split(":") == folders, ended.stderr


def test_a_star_is_no_pattern_for_files(tmp_path):
    """RNNsearch-50* is a model's name in the paper."""
    (tmp_path / "RNNsearch-50, notes").touch()
    ended = subprocess.run(
        ["bash", RECIPES / "wmt14_en_fr" / "run.sh", "--dry-run"],
        env={"PATH": os.environ["PATH"], "WORK": str(tmp_path / "work")},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_too_small_a_disk_ends_all_but_a_dry_run(tmp_path, options):
    (tmp_path / "df").write_text("#!/bin/sh\necho Available\necho disk 2 1 1000000 50% /\n")
    (tmp_path / "df").chmod(0o755)
    ended = subprocess.run(
        ["bash", RECIPES / "wmt14_en_fr" / "run.sh", *options],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "WORK": str(tmp_path / "work")},
        capture_output=True,
        text=True,
    )
    *_, before, last = ended.stderr.splitlines()
    assert "only 1.0 are free; CHECK_DISK=0 begins all the same" in (before if options else last)
    assert ended.returncode == (0 if options else 1)
    assert last.endswith("nothing was done (--dry-run)") == bool(options)
    assert (tmp_path / "work").exists() != bool(options)


def test_a_folder_with_other_things_is_no_work_folder(tmp_path):
    """Steps replace what they find under the names of their outputs."""

    def begin(work):
        return subprocess.run(
            ["bash", "-c", f"source {RECIPES}/steps.sh; use_work_folder nowhere"],
            env={"PATH": os.environ["PATH"], "WORK": str(work)},
            capture_output=True,
            text=True,
        )

    (tmp_path / "mine" / "data").mkdir(parents=True)
    (tmp_path / "archived" / "archives").mkdir(parents=True)
    refused = begin(tmp_path / "mine")
    assert refused.returncode == 1 and "mine has other things in it (data)" in refused.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["data"]
    for name in ("new", "new", "archived"):
        assert begin(tmp_path / name).returncode == 0
