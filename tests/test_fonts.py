"""Labels of all scripts: order, shapes, and what is drawn where there is no font."""

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

from fairseq_rnnsearch import errors
from fairseq_rnnsearch.alignment.figures import draw_heatmap, fonts, layout, save_heatmap

CACHES = (
    *(layout.label_of, fonts.label, fonts._family_of, fonts._families, fonts._characters),
    errors._times_asked,
)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Each test finds its fonts anew, and leaves matplotlib's list as it was."""
    monkeypatch.setattr(fontManager, "ttflist", list(fontManager.ttflist))
    for cache in CACHES:
        cache.cache_clear()
    yield
    for cache in CACHES:
        cache.cache_clear()


@pytest.fixture
def only_main(monkeypatch):
    """No font but the one that matplotlib brings."""
    monkeypatch.setattr(fonts, "_families", lambda: (fonts.MAIN,))


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
    main = [entry for entry in fontManager.ttflist if entry.name == fonts.MAIN]
    monkeypatch.setattr(fontManager, "ttflist", main)
    monkeypatch.setattr(fonts, "_FONT_PACKAGE", "no_such_package")
    fontManager.addfont(path)


@pytest.mark.parametrize(
    ("word", "from_right"),
    [("word", False), ("שלום", True), ("(مرحبا)", True), ("٢٠٢٤", False), ("12", False)]
    + [("", False), ("abcش", False), ("شabc", True), ("«كتاب»", True), ("<unk>", False)],
)
def test_direction(word, from_right):
    assert fonts.label(word).from_right == from_right


@pytest.mark.parametrize(
    ("word", "drawn"),
    [("<unk>", "<unk>"), ("e\u0301te\u0301", "e\u0301te\u0301"), ("漢字", "U+6F22 U+5B57")]
    + [("a漢b", "a U+6F22 b"), ("\u200b", "U+200B"), ("a\u200bb", "a\u200bb"), ("", "")]
    + [("a\x07", "a U+0007"), ("\ud800", "U+D800"), ("\U000f0000", "U+F0000")],
)
@pytest.mark.filterwarnings("ignore:heatmaps")
def test_without_a_font_the_code_point_is_drawn(only_main, tmp_path, word, drawn):
    label = layout.label_of(word)
    assert label.text == drawn
    assert label.families == (fonts.MAIN,)
    for suffix in ("png", "svg", "pdf"):
        save_heatmap(tmp_path / f"a.{suffix}", [word], [word], [[1.0]])


def test_svg_is_xml_whatever_the_word(tmp_path):
    words = [f"a{chr(code)}b" for code in [*range(0x21), *range(0x7F, 0xA1), 0xFFFE, 0xFFFF]]
    save_heatmap(tmp_path / "a.svg", words, ["<&'\"]]>"], np.ones((1, len(words))))
    texts = [text.text for text in ElementTree.parse(tmp_path / "a.svg").iter() if text.text]
    assert {"<&'\"]]>", "a U+0000 b", "a U+009F b", "a U+FFFE b", "a b"} <= set(texts)


def test_code_points_of_a_long_word_are_not_cut(only_main):
    with pytest.warns(UserWarning, match="heatmaps"):
        text = layout.label_of("漢字" * 20).text
    assert text == "U+6F22 U+5B57 … U+6F22 U+5B57"


def test_each_script_is_warned_of_once(only_main):
    words = ["漢字", "ひらがな", "한국어", "हिन्दी", "हो", "ภาษา", "\x07", "\ue123", "漢", "Ａ", "ｱ"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for word in words * 2:
            fonts.label(word)
    messages = [str(warning.message) for warning in caught]
    assert all("\n" not in message for message in messages)
    remedies = ("[fonts]", "Noto Sans Devanagari", "Noto Sans Thai")
    assert all(remedy in text for remedy, text in zip(remedies, messages, strict=True))


def test_no_picture_has_a_box():
    """matplotlib warns of each glyph that it has no font for, and draws a box."""
    codes = [*range(0, 0x3000, 7), *range(0x3000, 0x110000, 1999), *range(0x1F300, 0x1FAFF, 31)]
    words = [chr(code) for code in codes]
    words += [f"{base}{chr(code)}" for code in codes[::20] for base in "aشक漢"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="heatmaps:")
        for word in words:
            layout.ink(layout.label_of(word), 6, 72)


def test_font_is_found_by_what_it_covers(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "one.ttf", "漢字")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        label = fonts.label("漢字")
    assert (label.text, label.families) == ("漢字", (fonts.MAIN, "Squares"))
    # Squares of 400 and 500 units with 100 between them, at 72 points.
    ink = layout.ink(label, 72, 72).dots
    gap = (ink.max(axis=0) < 128).nonzero()[0]
    assert ink.shape[1] == pytest.approx(72, abs=4) and len(gap) == pytest.approx(7, abs=3)
    with pytest.warns(UserWarning, match="U\\+6F23"):
        assert fonts.label("漢\u6f23").text == "漢 U+6F23"


def test_mark_of_another_font_than_its_letter(tmp_path, monkeypatch):
    """Neither font can draw the two together."""
    mark = "\u1ab0"
    assert ord(mark) not in fonts._characters(fonts.MAIN)
    install(monkeypatch, tmp_path / "one.ttf", mark)
    with pytest.warns(UserWarning, match=r"heatmaps: .*U\+1AB0") as caught:
        label = fonts.label(f"a{mark}")
        layout.ink(label, 10, 72)
    assert len(caught) == 1
    assert (label.text, label.families) == ("a U+1AB0", (fonts.MAIN,))


def test_font_that_is_found_is_in_every_file(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "one.ttf", "漢字")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for suffix in ("png", "pdf", "svg"):
            save_heatmap(tmp_path / f"a.{suffix}", ["漢a"], ["b"], [[1.0]])
    assert b"Squares" in (tmp_path / "a.pdf").read_bytes()
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    family = r"""<text [^>]*font-family="'DejaVu Sans', 'Squares', [^>]*>漢a</text>"""
    assert re.search(family, drawing)


@pytest.mark.parametrize("side", ["source", "target"])
def test_labels_of_tall_letters_stay_apart(side):
    words = ["a" + "\u0302" * 6, "ģ̧" + "\u0323" * 2, "Ǻg"] * 30
    others = ["a"] * 90
    placed = layout.lay_out(*((words, others) if side == "source" else (others, words)))
    drawn = [
        layout.ink(label, placed.font_size, placed.dots_per_inch) for label in getattr(placed, side)
    ]
    bases = [round(placed.baseline(i)) for i in range(90)]
    edges = [
        (base - d.above, base - d.above + len(d.dots)) for base, d in zip(bases, drawn, strict=True)
    ]
    assert all(upper[1] <= lower[0] for upper, lower in pairwise(edges))


def test_shortened_word_keeps_accents_with_their_letters():
    text = layout.label_of("e\u0301" * 40).text
    beginning, end = text.split("…")
    assert beginning.startswith("e\u0301") and end.startswith("e")
    assert len(text) <= layout.LONGEST_LABEL


def test_png_is_the_picture_of_the_figure(tmp_path):
    """Two ways to one picture: cells equal, words at the same places."""
    source, target = ["The", "agreement", "gjpq", "</s>"], ["L'", "accord", "été", "on", "</s>"]
    weights = np.random.default_rng(0).random((5, 4))
    save_heatmap(tmp_path / "a.png", source, target, weights)
    draw_heatmap(source, target, weights).figure.savefig(tmp_path / "b.png")
    ours, figure = imread(tmp_path / "a.png"), imread(tmp_path / "b.png")[..., 0]
    assert ours.shape == figure.shape
    place = layout.lay_out(source, target)
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
