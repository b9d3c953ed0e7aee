"""The first command of README, on a corpus that is too small to learn anything from."""

import os
import re
import sys
from pathlib import Path

import pytest
from commands import ROOT, run_process


@pytest.mark.slow
def test_the_quickstart_and_again_with_another_beam(tmp_path):
    work = tmp_path / "a work folder"
    programs = Path(sys.executable).parent
    environment = {
        **{"PATH": f"{programs}:{os.environ['PATH']}", "VENV": "none", "WORK": str(work)},
        **{"EPOCHS": "2", "TRAIN_SENTENCES": "200", "TEST_SENTENCES": "20", "LEAST_BLEU": "0"},
    }

    def run(beam):
        command = ["bash", ROOT / "recipes" / "quickstart.sh"]
        given = {**environment, "BEAM": str(beam)}
        ended = run_process(command, env=given, timeout=300, check=True)
        return ended.stdout, ended.stderr

    said, _ = run(5)
    assert said.count("source  ") == 3 and "BLEU|nrefs:1|" in said
    picture = re.search(r'^heatmap of ".*":\n  (.*\.png)$', said, re.M)
    assert Path(picture[1]).read_bytes().startswith(b"\x89PNG")
    for name in ("living.html", "training.html"):
        assert f": {work / name}\n" in said and (work / name).stat().st_size > 100_000
    for beam in (12, 5):  # the translations of the other one are not taken for these
        _, log = run(beam)
        assert f"translate the test set with beam {beam}: done in" in log
        assert "train for 2 epochs: done before" in log
    assert "translate the test set with beam 5: done before" in run(5)[1]
