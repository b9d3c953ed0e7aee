"""Labels of all scripts, and the fonts that draw them."""

import re
import warnings
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


def test_a_font_is_found_by_what_it_covers_for_every_file(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "one.ttf", "漢字")
    assert pictures.families_of("漢字") == (pictures.MAIN_FONT, "Squares")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for suffix in ("png", "pdf", "svg"):
            save_heatmap(tmp_path / f"a.{suffix}", ["漢a"], ["b"], [[1.0]])
    assert b"Squares" in (tmp_path / "a.pdf").read_bytes()
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert re.search(r"<text [^>]*'DejaVu Sans', 'Squares'[^>]*>漢a</text>", drawing)
    with pytest.warns(UserWarning, match="Glyph 28451"):
        pictures.ink("漢\u6f23", 72, 72)


def test_png_is_the_picture_of_the_figure(tmp_path):
    """Two ways to one picture."""
    source, target = ["The", "agreement", "gjpq", "</s>"], ["L'", "accord", "été", "on", "</s>"]
    weights = np.random.default_rng(0).random((5, 4))
    save_heatmap(tmp_path / "a.png", source, target, weights)
    draw_heatmap(source, target, weights).figure.savefig(tmp_path / "b.png")
    ours, figure = imread(tmp_path / "a.png"), imread(tmp_path / "b.png")[..., 0]
    assert ours.shape == figure.shape
    place = pictures.lay_out(source, target)
    inside = slice(place.top + 1, -20), slice(place.left + 1, -20)
    np.testing.assert_allclose(ours[inside], figure[inside], atol=1.01 / 255)
