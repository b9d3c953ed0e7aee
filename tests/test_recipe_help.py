"""Recipes' programs start, and none begins to work when it is given an option that it lacks."""

import os
import re
import subprocess

import pytest
from commands import ROOT, call, run_process

RECIPES = ROOT / "recipes"
SHELL = [
    path
    for path in sorted([*RECIPES.rglob("*.sh"), *RECIPES.rglob("*.sbatch")])
    if path.read_text().startswith("#!")  # others are sourced
]
PYTHON = [path for path in sorted(RECIPES.rglob("*.py")) if '"__main__"' in path.read_text()]


def name(path):
    return str(path.relative_to(RECIPES))


@pytest.mark.parametrize("script", SHELL, ids=name)
def test_a_mistyped_option_starts_no_recipe(script, tmp_path):
    """What starts work here, fails: there is no Python. With CDPATH, cd prints where it goes."""
    given = {"PATH": os.environ["PATH"], "PYTHON": "/nosuch", "VENV": "/nosuch/venv", "CDPATH": "."}
    refused = run_process(
        ["bash", script.relative_to(ROOT), "--no-such-option"],
        cwd=ROOT,
        env={**given, "WORK": str(tmp_path / "work")},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert refused.returncode in (1, 2) and not refused.stdout
    (line,) = refused.stderr.splitlines()
    assert "error" in line and "/nosuch" not in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("script", PYTHON, ids=name)
def test_python_scripts_find_what_they_import(script):
    assert "usage: " in call(script, "--help").ok().out


def test_recipes_run_no_module_of_the_current_folder():
    """Without -P, Python looks there first: an importlib.py beside a corpus would be run."""
    for script in [*RECIPES.rglob("*.sh"), *RECIPES.rglob("*.sbatch")]:
        for line in script.read_text().splitlines():
            runs_module = re.search(r"(?i)python[\"}]? -[cm]\b", line)
            assert line.startswith("#") or not runs_module, (script, line)
