"""No recipe begins to work when it is asked for help, or given an argument that it lacks."""

import os
import re
import runpy
import subprocess
import sys

import pytest
from commands import ROOT, run_process

RECIPES = ROOT / "recipes"
SHELL = [
    path
    for path in sorted([*RECIPES.rglob("*.sh"), *RECIPES.rglob("*.sbatch")])
    if path.read_text().startswith("#!")  # others are sourced
]
PYTHON = [path for path in sorted(RECIPES.rglob("*.py")) if '"__main__"' in path.read_text()]


def name(path):
    return str(path.relative_to(RECIPES))


def start(script, argument, folder):
    """What starts work here, fails: there is no Python.

    With CDPATH, cd prints where it goes.
    """
    environment = {"PATH": os.environ["PATH"], "PYTHON": "/nosuch", "VENV": "/nosuch/venv"}
    environment["CDPATH"] = "."
    return run_process(
        ["bash", script.relative_to(ROOT), argument],
        cwd=ROOT,
        env={**environment, "WORK": str(folder / "work")},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.mark.parametrize("script", SHELL, ids=name)
def test_shell_recipes(script, tmp_path):
    shown = start(script, "--help", tmp_path)
    assert shown.returncode == 0 and not shown.stderr
    assert len(shown.stdout) > 30 and "shellcheck" not in shown.stdout
    refused = start(script, "--no-such-option", tmp_path)
    assert refused.returncode in (1, 2) and not refused.stdout
    (line,) = refused.stderr.splitlines()
    assert "error" in line and "/nosuch" not in line
    assert not list(tmp_path.iterdir())


@pytest.fixture
def modules():
    """Forget what scripts import from their folders: some have modules of the same names."""
    before = set(sys.modules)
    yield
    for new in set(sys.modules) - before:
        if str(RECIPES) in str(vars(sys.modules[new]).get("__file__")):
            del sys.modules[new]


@pytest.mark.parametrize("script", PYTHON, ids=name)
@pytest.mark.parametrize(("argument", "status"), [("--help", 0), ("--no-such-option", 2)])
def test_python_scripts(script, argument, status, monkeypatch, modules, capsys):
    monkeypatch.setattr(sys, "argv", [str(script), argument])
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == status
    said = capsys.readouterr()
    mistake = "usage: " in said.err or "--help shows the options" in said.err
    assert mistake if status else "usage: " in said.out


def test_files_lie_where_the_readme_says():
    """Seen from the repository, or from the folder of the recipes."""
    text = (RECIPES / "README.md").read_text()
    named = set(re.findall(r"[\w./-]+\.(?:sh|py|toml|sbatch)\b", text)) | {"RESULTS.md"}
    assert len(named) > 15
    assert not {
        file for file in named if not (ROOT / file).exists() and not (RECIPES / file).exists()
    }


def test_recipes_run_no_module_of_the_current_folder():
    """Without -P, Python looks there first: an importlib.py beside a corpus would be run."""
    for script in [*RECIPES.rglob("*.sh"), *RECIPES.rglob("*.sbatch")]:
        for line in script.read_text().splitlines():
            runs_module = re.search(r"(?i)python[\"}]? -[cm]\b", line)
            assert line.startswith("#") or not runs_module, (script, line)
