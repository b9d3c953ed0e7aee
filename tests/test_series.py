"""Validations' heatmaps over a training: which are kept."""

import numpy as np

from fairseq_rnnsearch.figures import Alignment
from fairseq_rnnsearch.figures.series import Series


def draw(folder, updates, most=50):
    """One sentence at validations, each at the end of its epoch."""
    series = Series(folder, ("png",), most=most)
    for update in updates:
        series.add(update, update, [Alignment(("a",), ("b",), np.ones((1, 1)), id=1)])
    return series


def test_older_validations_are_thinned_out(tmp_path):
    """The first and the last stay, and only pictures of the series are ever removed."""
    draw(tmp_path, [1, 2])
    (tmp_path / "epoch002" / "mine.png").touch()
    kept = list(draw(tmp_path, range(1, 31), most=6).frames())
    assert len(kept) == 6 and kept[0] == 1 and kept[-1] == 30 and 2 not in kept
    folders = {f"epoch{update:03d}" for update in [2, *kept]}
    assert {path.name for path in tmp_path.iterdir()} == {*folders, "emerging.gif"}
    assert [path.name for path in (tmp_path / "epoch002").iterdir()] == ["mine.png"]
