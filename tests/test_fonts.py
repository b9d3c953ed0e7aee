"""Labels of all scripts, and the fonts that draw them."""

import re
from xml.etree import ElementTree

import numpy as np
from matplotlib.image import imread

from fairseq_rnnsearch.figures import draw_heatmap, pictures, save_heatmap


def test_svg_is_xml_whatever_the_word(tmp_path):
    words = [f"a{chr(code)}b" for code in [*range(0x21), *range(0x7F, 0xA1), 0xFFFE, 0xFFFF]]
    save_heatmap(tmp_path / "a.svg", words, ["<&'\"]]>"], np.ones((1, len(words))))
    texts = [text.text for text in ElementTree.parse(tmp_path / "a.svg").iter() if text.text]
    assert {"<&'\"]]>", "a\ufffdb", "a b"} <= set(texts)


def test_a_font_is_found_by_what_it_covers(tmp_path):
    """For a letter that the main font lacks and another of matplotlib's own has."""
    main, other = pictures.families_of("\u1d15")
    assert main == pictures.MAIN_FONT
    save_heatmap(tmp_path / "a.svg", ["\u1d15a"], ["b"], [[1.0]])
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert re.search(rf"<text [^>]*'{main}', '{other}'[^>]*>\u1d15a</text>", drawing)


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
