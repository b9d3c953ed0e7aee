"""The heatmap's data, not its pixels: weights, words, places; and how its file is written."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from fairseq_rnnsearch.figures import draw_heatmap, save_heatmap
from fairseq_rnnsearch.figures.pictures import grey

SOURCE = ["The", "agreement", "on", "the", "European", "Economic", "Area", "</s>"]
TARGET = ["L'", "accord", "sur", "la", "zone", "économique", "européenne", "</s>", "<unk>"]


def soft_alignment(target, source, seed=0):
    weights = np.random.default_rng(seed).random((target, source))
    return weights / weights.sum(1, keepdims=True)


def test_weights_words_and_axes():
    weights = soft_alignment(9, 8)
    axes = draw_heatmap(SOURCE, TARGET, weights)
    (image,) = axes.images
    assert np.array_equal(image.get_array(), weights)
    assert image.get_clim() == (0, 1)
    assert np.allclose(image.cmap([0.0, 0.5, 1.0])[:, :3], [[0] * 3, [0.5] * 3, [1] * 3], atol=0.01)
    assert [label.get_text() for label in axes.get_xticklabels()] == SOURCE
    assert [label.get_text() for label in axes.get_yticklabels()] == TARGET
    assert axes.get_xticks().tolist() == list(range(8))
    assert axes.get_yticks().tolist() == list(range(9))


EVERY_WEIGHT = np.unique(
    [*np.linspace(-0.1, 1.1, 5000), *(np.arange(257) / 256), np.nextafter(1, 0)]
)


def test_greys_are_equal_parts_of_0_to_1():
    greys = grey(EVERY_WEIGHT)
    assert greys.dtype == np.uint8 and set(greys.tolist()) == set(range(256))
    assert grey([-1, 0, 1 / 256, 0.5, 1, 2]).tolist() == [0, 0, 1, 128, 255, 255]
    assert grey([[np.nan]]).tolist() == [[0]]
    inside = EVERY_WEIGHT[(EVERY_WEIGHT >= 0) & (EVERY_WEIGHT < 1)]
    assert (np.abs((grey(inside) + 0.5) / 256 - inside) <= 0.5 / 256).all()

    # the PNG's are compared with the figure's in test_fonts


def test_axes_of_the_user_are_drawn_into():
    axes, other = Figure(figsize=(7, 3)).subplots(1, 2)
    weights = soft_alignment(9, 8)
    look = {"title": "$5 and 3_4", "values": True, "style": "inverted", "cmap": "viridis"}
    assert draw_heatmap(SOURCE, TARGET, weights, **look, axes=axes) is axes
    assert not other.images and np.array_equal(axes.images[0].get_array(), weights)
    assert axes.images[0].cmap.name == "viridis" and axes.get_title() == "$5 and 3_4"


SHARES = [[1.0, 0.25, 0.004], [0.005, 0.0, 0.75]]
EFFECTS = [[-2.0, 0.5, 0.04], [-0.3, 0.0, -0.04]]


@pytest.mark.parametrize(
    ("numbers", "signed", "written"),
    [
        (SHARES, False, {(0, 0): "1.00", (1, 0): ".25", (0, 1): ".01", (2, 1): ".75"}),
        (EFFECTS, True, {(0, 0): "-2.0", (1, 0): ".5", (0, 1): "-.3"}),
    ],
)
def test_numbers_stand_in_their_cells(numbers, signed, written):
    """Two digits of weights from 0.005 on, and one of effects from 0.05 on, of either sign."""
    texts = draw_heatmap(["a", "b", "c"], ["x", "y"], numbers, values=True, signed=signed).texts
    assert {tuple(text.get_position()): text.get_text() for text in texts} == written


def test_nan_is_no_shade_of_grey():
    (image,) = draw_heatmap(["a", "b"], ["c"], [[np.nan, 1.0]]).images
    assert tuple(image.cmap(image.norm(image.get_array()))[0, 0, :3]) == (1, 0, 0)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (SOURCE, TARGET),
        (["a"], ["b"]),
        (["x" * 300, "b"], ["c", "y" * 300]),
        ([r"$x_1$", r"\alpha^2", "$5", r"\frac{", "%#~&"], ["a_b", "$", "^", "Ǻg", "q@@"]),
    ],
    ids=["sentence", "one word", "long words", "mathematics"],
)
def test_layout(source, target):
    """On paper, each word beside its square cell."""
    figure = draw_heatmap(source, target, soft_alignment(len(target), len(source))).figure
    figure.draw_without_rendering()
    (axes,) = figure.axes
    cells = axes.get_window_extent()
    columns = [label.get_window_extent() for label in axes.get_xticklabels()]
    rows = [label.get_window_extent() for label in axes.get_yticklabels()]
    side = cells.width / len(source)
    assert side == pytest.approx(cells.height / len(target))
    for index, box in enumerate(columns):
        assert (box.x0 + box.x1) / 2 == pytest.approx(cells.x0 + (index + 0.5) * side, abs=2)
    for index, box in enumerate(rows):
        assert abs((box.y0 + box.y1) / 2 - (cells.y1 - (index + 0.5) * side)) < side / 2
    paper = figure.bbox
    for box in [cells, *columns, *rows]:
        assert paper.x0 < box.x0 and box.x1 < paper.x1 and paper.y0 < box.y0 and box.y1 < paper.y1


def test_mathematics_is_plain_text(tmp_path):
    """Broken mathematics would raise at drawing; sound mathematics would lose its dollars."""
    words = [r"$x_1$", r"$\frac{$", "a_b", "<&>"]
    save_heatmap(tmp_path / "a.svg", words, words, np.eye(4))
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert drawing.count(">$x_1$</text>") == 2
    assert drawing.count(r">$\frac{$</text>") == 2
    assert drawing.count(">&lt;&amp;&gt;</text>") == 2


@pytest.mark.parametrize("name", ["a.PNG", "a.pdf", "a.svg"])
def test_formats(tmp_path, name):
    """Text stays text."""
    path = tmp_path / name
    save_heatmap(path, SOURCE, TARGET, soft_alignment(9, 8))
    content = path.read_bytes()
    held = {
        ".PNG": [b"\x89PNG"],
        ".pdf": [b"%PDF", b"CIDFontType2"],
        ".svg": [b">agreement</text>", ">économique</text>".encode()],
    }
    assert all(part in content for part in held[path.suffix])
