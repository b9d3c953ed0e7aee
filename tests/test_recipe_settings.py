"""A recipe's settings are values: what looks like a command in them is never run."""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from commands import ROOT, run_process

from fairseq_rnnsearch.training.settings import Naming, Settings, check, in_environment, read

RECIPES = ROOT / "recipes"
WMT14 = RECIPES / "wmt14_en_fr"


def dry_run(recipe, folder, *options, **environment):
    """Run a recipe with no more of an environment than it needs, in a folder."""
    given = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "VENV": str(folder / "none")}
    given |= {"WORK": str(folder / "work"), **environment}
    options = options or ["--dry-run"]
    return run_process(["bash", RECIPES / recipe, *options], env=given, cwd=folder, timeout=120)


def settings():
    """The names of what its files take from the environment."""
    files = [RECIPES / "steps.sh", *WMT14.glob("*.sh")]
    return sorted({x for f in files for x in re.findall(r'"\$\{([A-Z_]+):?=', f.read_text())})


@pytest.mark.slow
def test_none_is_run(tmp_path):
    """bash runs commands in whatever it takes for arithmetic, an index or a pattern of words."""
    trace = tmp_path / "trace"
    hostile = (
        f"a[$(touch {trace})]",
        f"$(touch {trace})",
        f"'; touch {trace} #",
        f"`touch {trace}`",
    )

    def run(name, value, number):
        given = {"WORK": str(tmp_path / f"{name}-{number}"), "CHECK_DISK": "0"} | {name: value}
        return name, dry_run("wmt14_en_fr/run.sh", tmp_path, **given)

    names = settings()
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
    "quickstart.sh": ("12000 generated pairs: 64/128/128/64 units", "about 4 minutes on one core"),
    "multi30k/run.sh": ("29000 pairs: 256/256/256/256 units", "about 55 minutes on one core"),
    "everyday/run.sh": ("151821 pairs: 256/256/256/256 units, 8000 merges", "hours on one core"),
    "ablations/run.sh": ("56 trainings of 14 arms", "29000 pairs: 128/128/128/128 units"),
    "hansards/run.sh": ("4000 updates in each direction", "256/256/256/256 units, of given"),
}


NUMBERS = {  # recipe and file: those that check their settings themselves
    "quickstart.sh": "quickstart.sh",
    "hansards/run.sh": "hansards/settings.sh",
    "wmt14_en_fr/run.sh": "wmt14_en_fr/settings.sh",
}


@pytest.mark.parametrize("recipe", NUMBERS)
def test_a_number_that_is_none_is_refused_before_anything_is_done(tmp_path, recipe):
    """A wrong dropout ended hours of preparation, and a dry run had found nothing."""
    text = (RECIPES / NUMBERS[recipe]).read_text()
    names = re.findall(r'"\$\{([A-Z_]+):=[0-9.]+\}', text)
    assert len(names) > 7 and "LEARNING_RATE" in names

    def run(name, value="1x"):
        return dry_run(recipe, tmp_path, **{name: value}).stderr

    for name in names:
        assert f"error: {name}=1x: must be " in run(name)
    assert "DROPOUT=1: must be a number of 0 or more and below 1" in run("DROPOUT", "1")
    for valid in "0", ".5", "0.25", "1e-3":
        assert "DROPOUT" not in run("DROPOUT", valid)
    assert not (tmp_path / "work").exists()


ARCHIVES = {
    "CORPORA=europal-v7": "CORPORA or ARCHIVE_TABLE: no corpus 'europal-v7'; valid: europarl-v7, ",
    "ARCHIVE_TABLE=/nowhere": "CORPORA or ARCHIVE_TABLE: /nowhere cannot be read: ",
}


@pytest.mark.parametrize("setting", ARCHIVES)
def test_archives_that_nobody_has_are_refused_by_a_dry_run(tmp_path, setting):
    given = {"CHECK_DISK": "0"} | dict([setting.split("=")])
    ended = dry_run("wmt14_en_fr/run.sh", tmp_path, **given)
    assert ended.returncode == 1 and f"error: {ARCHIVES[setting]}" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("recipe", DRY_RUNS)
def test_a_dry_run_says_what_it_takes_and_makes_nothing(tmp_path, recipe):
    given = tmp_path / "given.en"
    given.write_text("that is there\n")
    given.with_suffix(".fr").write_text("which the recipe for everyday sentences wants to see\n")
    environment = {"TATOEBA": str(given), "TEST_PREFIX": str(tmp_path / "given")}
    links = tmp_path / "given.links"
    links.mkdir()
    for kind in "src-tgt", "gold":
        (links / f"enfr.{kind}").touch()
    environment |= {"TRAIN": "given", "VALID": "given", "HANSARDS_DIR": str(links)}

    def run(**settings):
        ended = dry_run(recipe, tmp_path, **environment, **settings)
        return ended.returncode, ended.stderr

    status, said = run()
    assert status == 0 and said.endswith("nothing was done (--dry-run)\n"), said
    for part in (*DRY_RUNS[recipe], "the Python environment is made"):
        assert part in said, said
    status, said = run(BATCH_SIZE="a[$(touch trace)]", UPDATES="a[$(touch trace)]")
    assert status == 1 and "must be a whole number of 1 or more" in said
    assert {path.stem for path in tmp_path.iterdir()} == {"given"}


MULTI30K = {  # its own settings give way to others, and fit what is set
    "": (0.1, 9, 9, 3, "uniform"),
    "BPE_DROPOUT=0.2 BPE_DROPOUT_EPOCHS=5 INITIALIZATION=appendix": (0.2, 5, 9, 3, "appendix"),
    "BPE_DROPOUT_EPOCHS=0": (0.1, 0, 9, 0, "uniform"),
    "BPE_DROPOUT=0": (0, 0, 16, 0, "uniform"),
    "DROPOUT=0": (0.1, 9, 9, 0, "uniform"),
    "RDROP=0": (0.1, 9, 9, 0, "uniform"),
    "VOCABULARY=shortlist": (0, 0, 16, 0, "uniform"),
}


@pytest.mark.parametrize("given", MULTI30K)
def test_settings_of_multi30k(given):
    shown = run_process(
        ["bash", "-euc", f"source {RECIPES}/multi30k/settings.sh; env -0"],
        env={"PATH": os.environ["PATH"], **dict(x.split("=") for x in given.split())},
        check=True,
    ).stdout
    naming = Naming(True, ("en", "fr"))
    variables = dict(line.split("=", 1) for line in shown.split("\0") if line)
    s = Settings(**read(in_environment(variables, naming), naming))
    check(s, naming)
    found = (s.bpe_dropout, s.bpe_dropout_epochs, s.bpe_copies, s.rdrop, s.initialization)
    assert found == MULTI30K[given] and s.tokenizer == "moses"


def test_a_star_is_no_pattern_for_files(tmp_path):
    """RNNsearch-50* is a model's name in the paper."""
    (tmp_path / "RNNsearch-50, notes").touch()
    ended = dry_run("wmt14_en_fr/run.sh", tmp_path)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("options", [["--dry-run"], ["--to", "report"]])
def test_too_small_a_disk_ends_all_but_a_dry_run(tmp_path, options):
    ended = dry_run("wmt14_en_fr/run.sh", tmp_path, *options, HIDDEN="1000000")
    *_, before, last = ended.stderr.splitlines()
    is_dry = "--dry-run" in options
    assert "are free; CHECK_DISK=0 begins all the same" in (before if is_dry else last)
    assert ended.returncode == (0 if is_dry else 1)
    assert last.endswith("nothing was done (--dry-run)") == is_dry
    assert (tmp_path / "work").exists() != is_dry


def test_the_end_of_a_log_writes_no_escape_sequences(tmp_path):
    printed = r"""'printf "\e]0;title\a été\n"; exit 3'"""
    script = f"source {RECIPES}/steps.sh; logged x bash -c {printed}"
    (tmp_path / "logs").mkdir()
    environment = {"PATH": os.environ["PATH"], "WORK": str(tmp_path)}
    ended = run_process(["bash", "-c", script], env=environment)
    assert ended.returncode == 1 and ended.stderr.startswith("]0;title été\n"), ended.stderr


def test_a_folder_with_other_things_is_no_work_folder(tmp_path):
    """Steps replace what they find under the names of their outputs."""

    def begin(work):
        steps = f"source {RECIPES}/steps.sh; check_work_folder nowhere; make_work_folder"
        return run_process(
            ["bash", "-c", steps],
            env={"PATH": os.environ["PATH"], "WORK": str(work)},
        )

    (tmp_path / "mine" / "data").mkdir(parents=True)
    (tmp_path / "archived" / "archives").mkdir(parents=True)
    refused = begin(tmp_path / "mine")
    assert refused.returncode == 1 and "mine has other things in it (data)" in refused.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["data"]
    assert "a colon or comma ends a path" in begin(tmp_path / "a,b").stderr
    for name in ("new", "new", "archived"):
        assert begin(tmp_path / name).returncode == 0


def test_a_training_that_sigusr1_ends_is_not_done(tmp_path):
    """It ends without an error: Slurm sends it before it takes the machine away."""
    for part in (".done", "logs"):
        (tmp_path / part).mkdir()
    script = f"source {RECIPES}/steps.sh; resume_step train train_logged t "
    environment = {"PATH": os.environ["PATH"], "WORK": str(tmp_path), "PYTHONPATH": str(ROOT)}
    stopped = "echo 'Stopped by SIGUSR1 @ 7 updates; the same command goes on from here'"
    ended = run_process(["bash", "-c", script + stopped], env=environment)
    assert ended.returncode == 138 and 'step "train" is unfinished' in ended.stderr
    assert not (tmp_path / ".done/train").exists()
    assert run_process(["bash", "-c", script + "seq 9"], env=environment).returncode == 0
    assert (tmp_path / ".done/train").exists()


@pytest.mark.parametrize("recipe", ["multi30k/run.sh", "wmt14_en_fr/run.sh"])
def test_another_python_is_named_before_anything_is_done(tmp_path, recipe):
    ended = dry_run(recipe, tmp_path, PYTHON="/bin/false")
    assert ended.returncode == 1
    assert ended.stderr.endswith("error: PYTHON=/bin/false: must be Python 3.11 to 3.13\n")


@pytest.mark.parametrize("setting", ["SEED=2", "INITIALIZATION=uniform", "EVALUATE=valid"])
def test_settings_that_tell_arms_apart_are_not_ignored(tmp_path, setting):
    ended = dry_run("ablations/run.sh", tmp_path, **dict([setting.split("=")]))
    assert ended.returncode == 1 and f"error: {setting}: would be ignored" in ended.stderr
