"""``recipes/gpu``: what measures a GPU has run, and keeps what it has measured."""

import importlib
import json
import os
import random
import subprocess
import sys

import pytest
from commands import ROOT
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

    monkeypatch.setitem(measure.PARTS, "training", part)
    device = measure.Device("cpu", tmp_path, None)
    assert not measure.measure("training", device)
    assert asked == ["first", "second", "third"]
    shown = measure.table(tmp_path)
    assert "second: FAILED, ZeroDivisionError" in shown and "ABOVE" not in shown
    works.append(1)
    asked.clear()
    assert measure.measure("training", device) and asked == ["second"]
    lines = measure.table(tmp_path).splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [
        *(["first", "5"], ["third", "2"]),
        *(["second:", "at"], ["second:", "later"]),
    ]
    assert ["ABOVE" in line for line in lines[2:]] == [False, False, True, False]
    result = json.loads((tmp_path / "training.json").read_text())
    (tmp_path / "training.json").write_text(json.dumps(result | {"machine": "another"}))
    with pytest.raises(SystemExit, match="of another machine"):
        measure.measure("training", device)
    assert "RNNsearch-50 16 h (paper: 111), RNNsearch-50* 37.1 h" in measure.table(tmp_path)


def test_predictions_rest_on_what_was_measured(tmp_path, monkeypatch, modules):  # noqa: F811
    monkeypatch.setattr(sys, "path", [str(ROOT / "recipes/gpu"), *sys.path])
    predict = importlib.import_module("predict")
    found = {"large products, bfloat16, TFLOP/s": 700.0, "a launch of a recording, µs": 1.25}
    (tmp_path / "ceilings.json").write_text(json.dumps({"machine": "a GPU", "found": found}))
    of, whose = predict.measured(tmp_path / "ceilings.json")
    assumed = predict.Assumptions()
    assert of == assumed._replace(large=(*assumed.large[:2], 7e14), recorded=1.25e-6)
    assert whose == "from the ceilings of a GPU"
    assert predict.device_seconds(of, "bfloat16", 80) < predict.device_seconds(
        assumed, "bfloat16", 80
    )
    # 8 of 20 sorted batches wait for the longest, and of all lengths even more
    waiting = [predict.shared(assumed, 80, gpus)[1] for gpus in (1, 8, 64)]
    assert waiting[0] < 0.05 < 0.15 < waiting[1] < waiting[2]


def little_corpus(folder):
    """As many files as Multi30k has, of sentences that a tokeniser has something to do with."""
    draw, words = random.Random(0), [f"w{i}" for i in range(30)]
    for name, count in (("train", 120), ("val", 8), ("test_2016_flickr", 8)):
        for language in ("en", "fr"):
            lines = (" ".join(draw.choices(words, k=draw.randint(3, 9))) for _ in range(count))
            (folder / f"{name}.{language}").write_text("".join(f"{line}.\n" for line in lines))
    return folder


@pytest.mark.slow
def test_all_parts_run_at_tiny_sizes(tmp_path):
    environment = os.environ | {"PYTHON": sys.executable, "OUT": str(tmp_path / "out")}
    environment |= {"DEVICE": "cpu", "DATA": str(little_corpus(tmp_path))}

    def measure(*part):
        command = ["bash", str(ROOT / "recipes/gpu/measure.sh"), *part]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    ran = measure()
    assert ran.returncode == 0, ran.stderr
    assert "FAILED" not in ran.stdout and "ABOVE" not in ran.stdout
    parts = {path.stem for path in (tmp_path / "out").glob("*.json")}
    for part in (*parts, "table"):
        assert part == "table" or f"\n{part} (a CPU, tiny sizes" in ran.stdout
    assert len(parts) == 12 and "auto kernels, float32" in ran.stdout
    again = measure("search")
    assert "measuring" not in again.stderr and again.stdout == ran.stdout
    assert "must be one of ceilings" in measure("speed").stderr
    environment["DATA"] = ""
    assert "multi30k needs DATA" in measure("multi30k").stderr
