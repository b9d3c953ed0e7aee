"""Validations' heatmaps over a training: what is kept, and the animation of it."""

import numpy as np
from PIL import Image

from fairseq_rnnsearch.figures import Alignment
from fairseq_rnnsearch.figures.series import Series


def alignments(sharpness, sentences=2):
    """Sentences of three, four ... words, more and more diagonal."""
    for number in range(sentences):
        size = 3 + number
        weights = np.eye(size) * sharpness + (1 - sharpness) / size
        words = tuple(f"word{i}" for i in range(size))
        yield Alignment(words, words, weights, id=number)


def draw(folder, updates, most=50, per_epoch=10, formats=("png",), sentences=2):
    series = Series(folder, formats, most=most)
    for step, update in enumerate(updates):
        sharpness = step / max(1, len(updates) - 1)
        shown = list(alignments(sharpness, sentences))
        pictures = series.add(1 + (update - 1) // per_epoch, update, shown)
    return series, pictures


def test_a_picture_for_each_sentence_and_validation(tmp_path):
    series, pictures = draw(tmp_path, [5, 10, 15])
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.png")} == {
        f"epoch{epoch}/sentence{sentence}-update{update}.png"
        for epoch, update in (("001", "0000005"), ("001", "0000010"), ("002", "0000015"))
        for sentence in ("0000", "0001")
    }
    assert list(series.frames()) == [5, 10, 15]
    assert pictures == series.frames()[15]


def test_older_validations_are_thinned_out(tmp_path):
    """The first and the last stay, and only pictures of the series are ever removed."""
    draw(tmp_path, [1, 2], per_epoch=1, sentences=1)
    (tmp_path / "epoch002" / "mine.png").touch()
    series, _ = draw(tmp_path, range(1, 31), most=6, per_epoch=1, sentences=1)
    kept = list(series.frames())
    assert len(kept) == 6 and kept[0] == 1 and kept[-1] == 30 and 2 not in kept
    folders = {f"epoch{update:03d}" for update in [2, *kept]}
    assert {path.name for path in tmp_path.iterdir()} == {*folders, "emerging.gif"}
    assert [path.name for path in (tmp_path / "epoch002").iterdir()] == ["mine.png"]


def test_the_animation_has_a_picture_for_each_validation(tmp_path):
    draw(tmp_path, [10, 20, 30], sentences=3)
    with Image.open(tmp_path / "emerging.gif") as animation:
        assert animation.n_frames == 3
