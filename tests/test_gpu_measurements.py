"""``recipes/gpu``: what measures a GPU has run, and keeps what it has measured."""

import os
import sys

import pytest
from commands import ROOT, run_process


@pytest.mark.slow
def test_all_parts_run_at_tiny_sizes(tmp_path):
    environment = {"PYTHON": sys.executable, "OUT": str(tmp_path / "out"), "DEVICE": "cpu"}

    def measure(*part):
        command = ["bash", ROOT / "recipes/gpu/measure.sh", *part]
        return run_process(command, env=os.environ | environment)

    ran = measure()
    assert ran.returncode == 0, ran.stderr
    assert "FAILED" not in ran.stdout and "ABOVE" not in ran.stdout
    parts = {path.stem for path in (tmp_path / "out").glob("*.json")}
    for part in (*parts, "table"):
        assert part == "table" or f"\n{part} (a CPU, tiny sizes" in ran.stdout
    assert len(parts) == 5 and "auto kernels, float32" in ran.stdout
    again = measure("search")
    assert "measuring" not in again.stderr and again.stdout == ran.stdout
