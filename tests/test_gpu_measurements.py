"""``recipes/gpu``: what measures a GPU has run, and keeps what it has measured."""

import importlib
import json
import os
import sys

import pytest
from commands import ROOT, run_process
from test_recipe_help import modules  # noqa: F401  a fixture


@pytest.fixture
def measure(monkeypatch, modules):  # noqa: F811
    monkeypatch.setattr(sys, "path", [str(ROOT / "recipes/gpu"), *sys.path])
    return importlib.import_module("measure")


def test_a_part_goes_on_with_what_it_lacks(measure, tmp_path, monkeypatch):
    """What fails does not end the others, and is tried again; a bound that is passed is marked."""
    asked, works, bounded = [], [], importlib.import_module("device").bounded

    def second():
        asked.append("second")
        return {"at once": bounded(3, 2, "there"), "later": 1 / len(works)}

    def part(device):
        return {
            "first": lambda: asked.append("first") or 5.0,
            "second": second,
            "third": lambda: asked.append("third") or bounded(2, 2),
        }

    monkeypatch.setitem(measure.PARTS, "search", part)
    device = measure.Device("cpu", tmp_path)
    assert not measure.measure("search", device)
    assert asked == ["first", "second", "third"]
    shown = measure.table(tmp_path)
    assert "second: FAILED, ZeroDivisionError" in shown and "ABOVE" not in shown
    works.append(1)
    asked.clear()
    assert measure.measure("search", device) and asked == ["second"]
    lines = measure.table(tmp_path).splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [
        *(["first", "5"], ["third", "2"]),
        *(["second:", "at"], ["second:", "later"]),
    ]
    assert ["ABOVE" in line for line in lines[2:]] == [False, False, True, False]
    result = json.loads((tmp_path / "search.json").read_text())
    (tmp_path / "search.json").write_text(json.dumps(result | {"machine": "another"}))
    with pytest.raises(SystemExit, match="of another machine"):
        measure.measure("search", device)


@pytest.mark.slow
def test_all_parts_run_at_tiny_sizes(tmp_path):
    environment = os.environ | {"PYTHON": sys.executable, "OUT": str(tmp_path / "out")}
    environment["DEVICE"] = "cpu"

    def measure(*part):
        command = ["bash", str(ROOT / "recipes/gpu/measure.sh"), *part]
        return run_process(command, env=environment)

    ran = measure()
    assert ran.returncode == 0, ran.stderr
    assert "FAILED" not in ran.stdout and "ABOVE" not in ran.stdout
    parts = {path.stem for path in (tmp_path / "out").glob("*.json")}
    for part in (*parts, "table"):
        assert part == "table" or f"\n{part} (a CPU, tiny sizes" in ran.stdout
    assert len(parts) == 5 and "auto kernels, float32" in ran.stdout
    again = measure("search")
    assert "measuring" not in again.stderr and again.stdout == ran.stdout
    assert "invalid choice: 'speed'" in measure("speed").stderr
    environment["DEVICE"] = "cuda"
    assert "torch finds no GPU" in measure("memory").stderr
