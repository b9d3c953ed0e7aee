"""The settings of recipes, and the steps that recipes share."""

import argparse
import os

import pytest
from commands import ROOT, run_process

from fairseq_rnnsearch.train.settings import Settings, add_options, given_in, in_environment

RECIPES = ROOT / "recipes"


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
    variables = dict(line.split("=", 1) for line in shown.split("\0") if line)
    add_options(parser := argparse.ArgumentParser())
    options = parser.parse_args(in_environment(variables, ("en", "fr")))
    s = Settings(**given_in(options))
    found = (s.bpe_dropout, s.bpe_dropout_epochs, s.bpe_copies, s.rdrop, s.initialization)
    assert found == MULTI30K[given] and s.tokenizer == "moses"


def with_steps(work, script):
    """Run a script with the steps that recipes share, in a work folder."""
    given = {"PATH": os.environ["PATH"], "WORK": str(work), "PYTHONPATH": str(ROOT)}
    return run_process(["bash", "-c", f"source {RECIPES}/steps.sh; {script}"], env=given)


def test_settings_of_a_work_folder_hold_from_its_first_step(tmp_path):
    (tmp_path / ".done").mkdir()
    for value, done, status in ((1, False, 0), (2, False, 0), (2, True, 0), (3, True, 1)):
        if done:
            (tmp_path / ".done" / "first").touch()
        finished = with_steps(tmp_path, f"A={value}; remember_settings A")
        assert finished.returncode == status, (value, finished.stderr)
    assert "now A=3" in finished.stderr


def test_the_end_of_a_log_writes_no_escape_sequences(tmp_path):
    (tmp_path / "logs").mkdir()
    printed = r"""'printf "\e]0;title\a été\n"; exit 3'"""
    ended = with_steps(tmp_path, f"logged x bash -c {printed}")
    assert ended.returncode == 1 and ended.stderr.startswith("]0;title été\n"), ended.stderr


def test_a_folder_with_other_things_is_no_work_folder(tmp_path):
    """Steps replace what they find under the names of their outputs."""
    (tmp_path / "mine" / "data").mkdir(parents=True)
    (tmp_path / "archived" / "archives").mkdir(parents=True)
    refused = with_steps(tmp_path / "mine", "check_work_folder nowhere")
    assert refused.returncode == 1 and "mine has other things in it (data)" in refused.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["data"]
    for name in ("new", "new", "archived"):
        assert with_steps(tmp_path / name, "check_work_folder nowhere").returncode == 0


def test_a_training_that_sigusr1_ends_is_not_done(tmp_path):
    """It ends without an error: Slurm sends it before it takes the machine away."""
    for part in (".done", "logs"):
        (tmp_path / part).mkdir()
    script = "resume_step train train_logged t "
    stopped = "echo 'Stopped by SIGUSR1 @ 7 updates; the same command goes on from here'"
    ended = with_steps(tmp_path, script + stopped)
    assert ended.returncode == 138 and 'step "train" is unfinished' in ended.stderr
    assert not (tmp_path / ".done/train").exists()
    assert with_steps(tmp_path, script + "seq 9").returncode == 0
    assert (tmp_path / ".done/train").exists()


@pytest.mark.parametrize(
    ("recipe", "setting"),
    [("ablations", "SEED=2"), ("ablations", "CORPUS=short"), ("hansards", "POSTERIOR=no")],
)
def test_a_setting_that_would_be_ignored_is_one_line(tmp_path, recipe, setting):
    given = {"PATH": os.environ["PATH"], "WORK": str(tmp_path / "work"), "VENV": "none"}
    ended = run_process(
        ["bash", RECIPES / recipe / "run.sh"], env=given | dict([setting.split("=")])
    )
    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 1 and f"error: {setting}: " in line
    assert not ended.stdout and not list(tmp_path.iterdir())
