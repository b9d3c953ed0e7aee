"""Labels of all scripts, and the fonts that draw them."""

import re
import warnings
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.font_manager import fontManager
from matplotlib.image import imread

from fairseq_rnnsearch.figures import draw_heatmap, pictures, save_heatmap

CACHES = pictures.families_of, pictures._installed, pictures._characters, pictures.ink


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Each test finds its fonts anew, and leaves matplotlib's list as it was."""
    monkeypatch.setattr(fontManager, "ttflist", list(fontManager.ttflist))
    for cache in CACHES:
        cache.cache_clear()
    yield
    for cache in CACHES:
        cache.cache_clear()


def install(monkeypatch, path, letters):
    """A font whose letters are black squares, as wide as their place in the text says."""
    names = [".notdef", *(f"letter{index}" for index in range(len(letters)))]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(c): names[i + 1] for i, c in enumerate(letters)})
    squares, widths = {}, {}
    for index, name in enumerate(names):
        pen, right = TTGlyphPen(None), 300 + 100 * index
        pen.moveTo((0, 0))
        for corner in ((0, 700), (right, 700), (right, 0)):
            pen.lineTo(corner)
        pen.closePath()
        squares[name], widths[name] = pen.glyph(), (right + 100, 0)
    builder.setupGlyf(squares)
    builder.setupHorizontalMetrics(widths)
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Squares", "styleName": "Regular", "psName": "Squares"})
    builder.setupOS2(sTypoAscender=800, sTypoDescender=-200)
    builder.setupPost()
    builder.save(path)
    main = [entry for entry in fontManager.ttflist if entry.name == pictures.MAIN_FONT]
    monkeypatch.setattr(fontManager, "ttflist", main)
    monkeypatch.setattr(pictures, "_FONT_PACKAGE", "no_such_package")
    fontManager.addfont(path)


def test_svg_is_xml_whatever_the_word(tmp_path):
    words = [f"a{chr(code)}b" for code in [*range(0x21), *range(0x7F, 0xA1), 0xFFFE, 0xFFFF]]
    save_heatmap(tmp_path / "a.svg", words, ["<&'\"]]>"], np.ones((1, len(words))))
    texts = [text.text for text in ElementTree.parse(tmp_path / "a.svg").iter() if text.text]
    assert {"<&'\"]]>", "a\ufffdb", "a b"} <= set(texts)


def test_font_is_found_by_what_it_covers(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "one.ttf", "漢字")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        families = pictures.families_of("漢字")
        ink = pictures.ink("漢字", 72, 72).dots
    assert families == (pictures.MAIN_FONT, "Squares")
    # Squares of 400 and 500 units with 100 between them, at 72 points.
    gap = (ink.max(axis=0) < 128).nonzero()[0]
    assert ink.shape[1] == pytest.approx(72, abs=4) and len(gap) == pytest.approx(7, abs=3)
    with pytest.warns(UserWarning, match="Glyph 28451"):
        pictures.ink("漢\u6f23", 72, 72)


def test_font_that_is_found_is_in_every_file(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "one.ttf", "漢字")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for suffix in ("png", "pdf", "svg"):
            save_heatmap(tmp_path / f"a.{suffix}", ["漢a"], ["b"], [[1.0]])
    assert b"Squares" in (tmp_path / "a.pdf").read_bytes()
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert re.search(r"<text [^>]*'DejaVu Sans', 'Squares'[^>]*>漢a</text>", drawing)


@pytest.mark.parametrize("side", ["source", "target"])
def test_labels_of_tall_letters_stay_apart(side):
    words = ["a" + "\u0302" * 6, "ģ̧" + "\u0323" * 2, "Ǻg"] * 30
    others = ["a"] * 90
    placed = pictures.lay_out(*((words, others) if side == "source" else (others, words)))
    drawn = [
        pictures.ink(label, placed.font_size, placed.dots_per_inch)
        for label in getattr(placed, side)
    ]
    bases = [round(placed.baseline(i)) for i in range(90)]
    edges = [
        (base - d.above, base - d.above + len(d.dots)) for base, d in zip(bases, drawn, strict=True)
    ]
    assert all(upper[1] <= lower[0] for upper, lower in pairwise(edges))


def test_shortened_word_keeps_accents_with_their_letters():
    text = pictures.label_of("e\u0301" * 40)
    beginning, end = text.split("…")
    assert beginning.startswith("e\u0301") and end.startswith("e")
    assert len(text) <= pictures.LONGEST_LABEL


def test_png_is_the_picture_of_the_figure(tmp_path):
    """Two ways to one picture: cells equal, words at the same places."""
    source, target = ["The", "agreement", "gjpq", "</s>"], ["L'", "accord", "été", "on", "</s>"]
    weights = np.random.default_rng(0).random((5, 4))
    save_heatmap(tmp_path / "a.png", source, target, weights)
    draw_heatmap(source, target, weights).figure.savefig(tmp_path / "b.png")
    ours, figure = imread(tmp_path / "a.png"), imread(tmp_path / "b.png")[..., 0]
    assert ours.shape == figure.shape
    place = pictures.lay_out(source, target)
    inside = slice(place.top + 1, -20), slice(place.left + 1, -20)
    np.testing.assert_allclose(ours[inside], figure[inside], atol=1.01 / 255)

    def spans(paper, count, start):
        """First and last inked dots of each label's band."""
        for index in range(count):
            band = paper[start + index * place.cell :][: place.cell] < 0.5
            yield [*band.any(axis=0).nonzero()[0][[0, -1]], *band.any(axis=1).nonzero()[0][[0, -1]]]

    for count, start, turn in ((5, place.top, np.asarray), (4, place.left, np.transpose)):
        edge = (place.top if turn is np.transpose else place.left) - 3
        drawn = [list(spans(turn(paper)[:, :edge], count, start)) for paper in (ours, figure)]
        np.testing.assert_allclose(*drawn, atol=4)
