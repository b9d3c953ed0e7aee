"""The benchmark: its limit is what the model multiplies, and each candidate runs each pass."""

import json
import time
from pathlib import Path

import pytest
from commands import call
from torch.utils.flop_counter import FlopCounterMode

FOLDER = Path(__file__).resolve().parents[1] / "recipes" / "benchmark"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import measuring

    return measuring


@pytest.mark.slow
def test_the_limit_is_what_the_model_multiplies(benchmark):
    from limit import products
    from sizes import SIZES

    size = SIZES["tiny"]
    counter = FlopCounterMode(display=False)
    training = benchmark.Training("reference", size)
    with counter:
        training.run("forward")
    flops = sum(2 * p.steps * p.batch * p.rows * p.inner * p.columns for p in products(size))
    # the fast kernels multiply the last state with U_z and U_r too, beside W_a
    assert counter.get_total_flops() == flops - 2 * size.batch * size.n * 2 * size.n


@pytest.mark.slow
def test_each_candidate_runs_each_pass(benchmark):
    from sizes import SIZES

    names = ["reference", "fast", "bfloat16", "lstm"]
    rows = [*benchmark.measure("tiny", SIZES["tiny"], names, benchmark.PASSES, 1, time.time)]
    assert [(row["pass"], row["candidate"]) for row in rows] == [
        (what, name) for what in benchmark.PASSES for name in (*names, "limit", "limit bfloat16")
    ]
    assert len(benchmark.table(json.loads(json.dumps(rows))).splitlines()) == len(rows) + 1
    used = {row["candidate"]: row["parameters"] for row in rows}
    assert used["reference"] == used["fast"] == used["bfloat16"] != used["lstm"]


@pytest.mark.slow
def test_the_package_and_its_peer_translate_in_turns():
    pytest.importorskip("ctranslate2")
    out = call(FOLDER / "peers.py", "--sentences", "3", "--rounds", "1").ok().out
    assert [line.split("  ")[0] for line in out.splitlines()].count("first translation") == 3
    assert out.count("together") == 2 * 2
