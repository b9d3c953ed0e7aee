"""The page of alignments: what is stored in it, and what its script draws, run in Node.

The weights that a test expects are computed here from the alignment, never read from the page.
"""

import base64
import dataclasses
import json
import re
import shutil
import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from fairseq_rnnsearch.figures import Look
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.page import Page as AlignmentPage
from fairseq_rnnsearch.figures.page import embedded_page
from fairseq_rnnsearch.figures.pictures import grey

NODE = shutil.which("node")
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ("<script>window.ran=1</script>", "</script><script>window.ran=2</script>")
HOSTILE += ("<img/src=x/onerror=window.ran=3>", "<!--", "&amp;", "\"'`${1}", "{{script}}")
HOSTILE += ("a\u2028b\u2029c", "\\u003c\\", "\x07")
HOSTILE_ALIGNMENT = Alignment(HOSTILE, HOSTILE, np.full((10, 10), 0.1), id=666)
TITLE = "</title><script>&\"'"


def soft_alignment(target, source, seed=0):
    """Rows that sum to one, some weights large, some under every threshold."""
    weights = np.exp(2 * np.random.default_rng(seed).normal(size=(target, source)))
    return weights / weights.sum(1, keepdims=True)


def alignment(source, target, **fields):
    source, target = source.split(), target.split()
    weights = soft_alignment(len(target), len(source), fields.get("id", 0))
    return Alignment(source, target, weights, **fields)


ENGLISH = "The agreement on the European Economic Area </s>"
FRENCH = "L' accord sur la zone économique européenne </s>"
EFFECTS = np.array([[1.0, -0.5], [2.0, 0.04], [np.nan, 0.0]])
ALIGNMENTS = [
    alignment(ENGLISH, FRENCH, id=17, score=-7.25),
    alignment("a cat", "un chat noir", id=3, score=-1.5, attribution=EFFECTS),
    alignment("peace , world .", "שלום , עולם.", id=4, score=-90.0),
    alignment("a very small dog barks", "un très petit chien aboie", id=101),
]


class Elements(HTMLParser):
    """The elements of a page and the text of its scripts."""

    def __init__(self, page):
        super().__init__()
        self.found, self.scripts = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.found and self.found[-1][0] == "script":
            self.scripts[-1] += data


def written(tmp_path, alignments=ALIGNMENTS, **options):
    path = tmp_path / "index.html"
    with tempfile.TemporaryFile() as sentences:
        page = AlignmentPage(path, Look(**options), sentences)
        for one in alignments:
            page.add(one)
        page.finish()
    return path


def data_of(path):
    return json.loads(Elements(path.read_text(encoding="utf-8")).scripts[0])


def test_nothing_is_fetched_and_words_are_data(tmp_path):
    path = written(tmp_path, [*ALIGNMENTS, HOSTILE_ALIGNMENT], title=TITLE)
    page = path.read_text(encoding="utf-8")
    assert set(re.findall(r"""https?://[^\s"'}]+""", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"@import|url\(|\bfetch\(|XMLHttpRequest|\bimport\b", page)
    elements = Elements(page)
    for _, attributes in elements.found:
        assert "src" not in attributes and attributes.get("href", "data:,") == "data:,"
        assert not [name for name in attributes if name.startswith("on")]
    assert "default-src 'none'" in page
    assert len(elements.scripts) == 2
    assert not set("<\u2028\u2029") & set(elements.scripts[0])
    *_, sentence = json.loads(elements.scripts[0])["sentences"]
    assert sentence["source"] == sentence["target"] == list(HOSTILE)
    assert "<title>&lt;/title&gt;&lt;script&gt;&amp;&#34;&#39;</title>" in page


def test_stored_numbers(tmp_path):
    weights = np.array([[0.25, 0.7, 0.05], [0.3, np.nan, 1.5], [-0.1, 0.00001, 1 / 3]])
    stored = data_of(written(tmp_path, [Alignment("abc", "def", weights)]))
    steps = np.frombuffer(base64.b64decode(stored["sentences"][0]["weights"]), dtype="<u2")
    expected = [12500, 35000, 2500, 15000, 65535, 50000, 0, 0, 16667]
    assert (stored["steps"], stored["nan"]) == (50_000, 65_535)
    assert np.allclose(steps, expected, atol=1) and steps[4] == 65535

    effects = np.array([[2.5, 0.0, -1.25], [np.nan, np.inf, 1e-3]])
    one = Alignment("abc", "de", np.full((2, 3), 1 / 3), attribution=effects)
    likely = [dataclasses.replace(one, probabilities=x) for x in ((0.25, 1.0), (np.nan, 1.0))]
    first, *others = data_of(written(tmp_path, [ALIGNMENTS[0], *likely]))["sentences"]
    assert first["confidence"] == pytest.approx(ALIGNMENTS[0].confidence(), abs=1e-4)
    assert first["entropy"] == pytest.approx(ALIGNMENTS[0].entropy(), abs=1e-4)
    assert first["links"] == [source for source, _ in ALIGNMENTS[0].links()]
    assert (first["id"], first["score"], "mattered" in first) == (17, -7.25, False)
    assert [each.get("probabilities") for each in others] == [[0.25, 1.0], None]
    steps = np.frombuffer(base64.b64decode(others[0]["mattered"]["numbers"]), dtype="<u2")
    assert others[0]["mattered"]["most"] == 2.5
    assert steps.tolist() == [50_000, 25_000, 12_500, 65_535, 50_000, 25_010]


@pytest.mark.parametrize(("style", "inverted"), [("paper", False), ("inverted", True)])
def test_an_embedded_page_is_one_attribute_of_a_frame(style, inverted):
    frame = Elements(embedded_page(Alignment(['"a"', "<b>"], ["'c'"], [[0.5, 0.5]]), style))
    ((tag, attributes),) = frame.found
    data = json.loads(Elements(attributes["srcdoc"]).scripts[0])
    assert (tag, data["inverted"]) == ("iframe", inverted)
    assert data["sentences"][0]["source"] == ['"a"', "<b>"]


# --- what its script draws ------------------------------------------------------------------------


def colours(svg):
    """The colours of the cells that an SVG draws, by row and column; every cell at most once."""
    drawn = {}
    for path in ElementTree.fromstring(svg).iter(f"{SVG}path"):
        cells = re.findall(r"M(\d+) (\d+)h1v1h-1z", path.get("d"))
        assert "".join(f"M{x} {y}h1v1h-1z" for x, y in cells) == path.get("d")
        for x, y in cells:
            assert (int(y), int(x)) not in drawn
            drawn[int(y), int(x)] = path.get("fill")
    return drawn


def greys(svg, shape):
    """The matrix that an SVG draws, as greys from 0 to 255."""
    drawn = np.zeros(shape, dtype=int)
    for cell, colour in colours(svg).items():
        (drawn[cell],) = {int(part) for part in re.findall(r"\d+", colour)}
    return drawn


def as_greys(weights):
    """What is expected of `greys`; the stored weight is a hair away from the true one."""
    return grey(np.rint(weights * 50000) / 50000).astype(int)


def hard(one, threshold=0.0):
    expected = np.zeros(one.weights.shape, dtype=int)
    for source, target in one.links():
        expected[target, source] = 255 * (one.weights[target, source] >= threshold)
    return expected


def drawn(path, *looks):
    """What the script of a page draws in Node, by look."""
    if not NODE:
        pytest.skip("node is not installed; it runs the page's script")
    command = [NODE, Path(__file__).with_name("heatmap.js"), path]
    typed = "".join(json.dumps(look) + "\n" for look in looks)
    ran = subprocess.run(command, input=typed, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_weights_links_and_greys_are_those_of_python(tmp_path):
    exact = Alignment(["a", "b"], ["c"], [[0.3, 0.7]], id=5)
    shown = [*ALIGNMENTS, exact]
    looks = {"mode": "soft"}, {"threshold": 0.3}, {"mode": "hard", "threshold": 0.6}
    found = drawn(written(tmp_path, shown), *looks, {"inverted": True})
    assert found[0]["greys"] == grey(np.arange(50_001) / 50_000).tolist()
    for one, soft, hidden, linked, inverted in zip(
        shown, *(x["drawn"] for x in found), strict=True
    ):
        weights, links = one.weights, one.links()
        assert np.array_equal(greys(soft["svg"], weights.shape), as_greys(weights))
        above = np.where(np.rint(weights * 50000) >= 15000, weights, 0)  # 0.3 itself is shown
        assert np.array_equal(greys(hidden["svg"], weights.shape), as_greys(above))
        assert np.array_equal(greys(linked["svg"], weights.shape), hard(one, 0.6))
        light = greys(inverted["svg"], weights.shape)
        light[as_greys(weights) == 0] = 255  # as the ground
        assert np.array_equal(light, 255 - as_greys(weights))
        assert soft["pharaoh"] == one.pharaoh()
        assert soft["links"] == [source for source, _ in links]
        strong = [f"{s}-{t}" for s, t in links if weights[t, s] >= 0.6]
        assert linked["pharaoh"] == " ".join(strong)


BLUE, RED = (33, 102, 172), (178, 24, 43)


def test_what_mattered_has_the_sign_in_its_colour(tmp_path):
    """Without attribution the weights are drawn."""
    (found,) = drawn(written(tmp_path, ALIGNMENTS[:2]), {"mode": "mattered"})
    without, known = (one["svg"] for one in found["drawn"])
    assert np.array_equal(greys(without, (8, 8)), as_greys(ALIGNMENTS[0].weights))
    cells = colours(known)
    assert cells.pop((2, 0)) == "#f00" and (2, 1) not in cells  # zero is as the ground
    for place, fill in cells.items():
        share, end = EFFECTS[place] / 2, BLUE if EFFECTS[place] > 0 else RED
        expected = [247 + abs(share) * (part - 247) for part in end]
        assert np.allclose([int(part) for part in re.findall(r"\d+", fill)], expected, atol=0.51)


def test_odd_words_are_text_of_a_picture(tmp_path):
    path = written(tmp_path, [HOSTILE_ALIGNMENT, Alignment(["\udc80"], ["b"], [[np.nan]])])
    assert data_of(path)["sentences"][1]["source"] == ["\udc80"]
    hostile, surrogate = (one["svg"] for one in drawn(path, {})[0]["drawn"])
    labels = [text.text for text in ElementTree.fromstring(hostile).iter(f"{SVG}text")]
    assert labels[0] == HOSTILE[0] and "…" in labels[1] and labels[3:5] == list(HOSTILE[3:5])
    assert not set(re.findall(r"<(\w+)", hostile)) - {"svg", "rect", "g", "path", "text"}
    assert list(colours(surrogate).values()) == ["#f00"]
