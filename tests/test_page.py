"""The page of alignments: its text as Python sees it, and its behaviour in headless Chromium.

The weights that a test expects are computed here from the alignment, never read from the page.
"""

import base64
import dataclasses
import io
import json
import operator
import os
import re
import shutil
import subprocess
import tempfile
import time
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import Look
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.page import STYLE, embedded_page
from fairseq_rnnsearch.figures.page import Page as AlignmentPage
from fairseq_rnnsearch.figures.pictures import grey

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ("<script>window.ran=1</script>", "</script><script>window.ran=2</script>")
HOSTILE += ("<img/src=x/onerror=window.ran=3>", "<!--", "&amp;", "\"'`${1}", "{{script}}")
HOSTILE += ("a\u2028b\u2029c", "\\u003c\\", "\x07")
HOSTILE_ALIGNMENT = Alignment(HOSTILE, HOSTILE, np.full((10, 10), 0.1))


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
ALIGNMENTS = [
    alignment(ENGLISH, FRENCH, id=17, score=-7.25),
    alignment("a cat", "un chat noir", id=3, score=-1.5),
    alignment("peace , world .", "שלום , עולם.", id=4, score=-90.0),
    alignment("a very small dog barks", "un très petit chien aboie", id=101),
]


# --- without a browser ----------------------------------------------------------------------------


class Elements(HTMLParser):
    """Checks that elements are closed in order; collects names, attributes and scripts."""

    EMPTY = frozenset({"meta", "link", "input"})

    def __init__(self, page):
        super().__init__()
        self.open, self.found, self.scripts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
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


def test_elements_and_labels(tmp_path):
    elements = Elements(written(tmp_path).read_text(encoding="utf-8"))
    assert [tag for tag, _ in elements.found].count("script") == 2
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in elements.found:
        for name in ("aria-labelledby", "aria-controls", "for"):
            assert attributes.get(name, ids[0]) in ids
        assert not [name for name in attributes if name.startswith("on")]


def test_nothing_is_fetched(tmp_path):
    page = written(tmp_path).read_text(encoding="utf-8")
    assert set(re.findall(r"""https?://[^\s"'}]+""", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"@import|url\(|\bfetch\(|XMLHttpRequest|\bimport\b", page)
    elements = Elements(page)
    assert not [attributes for _, attributes in elements.found if "src" in attributes]
    assert [a["href"] for _, a in elements.found if "href" in a] == ["data:,"]
    assert "default-src 'none'" in page


def test_every_colour_and_width_that_is_used_is_defined(tmp_path):
    """The shared sheet defines them, the page's own uses them, and the script sets --weight."""
    page = written(tmp_path).read_text(encoding="utf-8")
    defined = set(re.findall(r"(--[\w-]+):", page)) | {"--weight", "--natural"}
    assert set(re.findall(r"var\((--[\w-]+)", page)) <= defined
    assert {"--page", "--ink", "--line"} <= defined


def luminance(colour):
    """Relative luminance as WCAG defines it."""
    digits = colour if len(colour) == 6 else "".join(digit * 2 for digit in colour)
    parts = np.array([int(digits[at : at + 2], 16) for at in (0, 2, 4)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("least", "colour", "ground"),
    [(4.5, colour, "page") for colour in ("ink", "faint", "accent")]
    + [(4.5, "ink", "mark"), (4.5, "ink", "chosen"), (4.5, "on-accent", "accent")]
    + [(3, "rule", "page"), (3, "rule", "panel")],
)
def test_colours_contrast_as_wcag_demands(theme, least, colour, ground):
    found = re.findall(r"--([\w-]+): light-dark\(#(\w+), #(\w+)\)", STYLE.read_text())
    colours = {name: dark if theme == "dark" else light for name, light, dark in found}
    darker, lighter = sorted(luminance(colours[name]) for name in (colour, ground))
    assert (lighter + 0.05) / (darker + 0.05) >= least


def test_words_are_data(tmp_path):
    path = written(tmp_path, [HOSTILE_ALIGNMENT], title="</title><script>&\"'")
    elements = Elements(path.read_text(encoding="utf-8"))
    assert len(elements.scripts) == 2
    assert not set("<\u2028\u2029") & set(elements.scripts[0])
    (sentence,) = json.loads(elements.scripts[0])["sentences"]
    assert sentence["source"] == sentence["target"] == list(HOSTILE)
    assert "<title>&lt;/title&gt;&lt;script&gt;&amp;&#34;&#39;</title>" in path.read_text("utf-8")


def test_lone_surrogate(tmp_path):
    path = written(tmp_path, [Alignment(["\udc80"], ["b"], [[1.0]])])
    assert data_of(path)["sentences"][0]["source"] == ["\udc80"]
    assert "\\udc80" in embedded_page(Alignment(["\udc80"], ["b"], [[1.0]])).encode().decode()


def test_stored_weights_and_statistics(tmp_path):
    weights = np.array([[0.25, 0.7, 0.05], [0.3, np.nan, 1.5], [-0.1, 0.00001, 1 / 3]])
    stored = data_of(written(tmp_path, [Alignment("abc", "def", weights)]))
    steps = np.frombuffer(base64.b64decode(stored["sentences"][0]["weights"]), dtype="<u2")
    expected = [12500, 35000, 2500, 15000, 65535, 50000, 0, 0, 16667]
    assert (stored["steps"], stored["nan"]) == (50_000, 65_535)
    assert np.allclose(steps, expected, atol=1) and steps[4] == 65535

    (stored,) = data_of(written(tmp_path, ALIGNMENTS[:1]))["sentences"]
    first = ALIGNMENTS[0]
    assert stored["confidence"] == pytest.approx(first.confidence(), abs=1e-4)
    assert stored["entropy"] == pytest.approx(first.entropy(), abs=1e-4)
    assert stored["links"] == [source for source, _ in first.links()]
    assert (stored["id"], stored["score"]) == (17, -7.25)


def test_stored_effects(tmp_path):
    effects = np.array([[2.5, 0.0, -1.25], [np.nan, np.inf, 1e-3]])
    one = Alignment("abc", "de", np.full((2, 3), 1 / 3), attribution=effects)
    path = written(tmp_path, [one, ALIGNMENTS[1]])
    (stored, without) = data_of(path)["sentences"]
    steps = np.frombuffer(base64.b64decode(stored["mattered"]["numbers"]), dtype="<u2")
    assert stored["mattered"]["most"] == 2.5 and "mattered" not in without
    assert steps.tolist() == [50_000, 25_000, 12_500, 65_535, 50_000, 25_010]
    assert 'value="mattered"' in path.read_text(encoding="utf-8")
    assert 'value="mattered"' not in written(tmp_path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("style", "inverted"), [("paper", False), ("inverted", True), ("slides", True)]
)
def test_an_embedded_page_is_one_attribute_of_a_frame(style, inverted):
    frame = Elements(embedded_page(Alignment(['"a"', "<b>"], ["'c'"], [[0.5, 0.5]]), style))
    ((tag, attributes),) = frame.found
    data = json.loads(Elements(attributes["srcdoc"]).scripts[0])
    assert (tag, data["inverted"]) == ("iframe", inverted)
    assert data["sentences"][0]["source"] == ['"a"', "<b>"]


def test_probabilities_are_there_if_all_are_numbers(tmp_path):
    one = Alignment("ab", "cd", np.full((2, 2), 0.5))
    given = [None, (0.25, 1.0), (np.nan, 1.0)]
    alignments = [dataclasses.replace(one, probabilities=each) for each in given]
    sentences = data_of(written(tmp_path, alignments))["sentences"]
    assert [each.get("probabilities") for each in sentences] == [None, [0.25, 1.0], None]


def test_the_script_maps_weights_to_greys_as_python_does(tmp_path):
    node = shutil.which("node")
    if not node:
        pytest.skip("node is not installed; the tests in Chromium hold it, too")
    page = written(tmp_path).read_text(encoding="utf-8")
    _, script = Elements(page).scripts
    rule = "\n".join(re.findall(r"^const (?:GREYS|grey) = .*$", script, re.M))
    program = (
        f"{rule}\n"
        "console.log(JSON.stringify(Array.from({length: 50001}, (_, n) => grey(n / 50000))))"
    )
    weights = np.arange(50_001) / 50_000
    ran = subprocess.run([node, "-e", program], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == grey(weights).tolist()


def test_same_arguments_same_bytes(tmp_path):
    first = written(tmp_path).read_bytes()
    assert b"steps of 0.00002" in first  # the precision is said
    assert written(tmp_path, iter(ALIGNMENTS)).read_bytes() == first


def test_five_hundred_sentences_stay_small(tmp_path):
    sentence = alignment("word " * 30, "mot " * 30)
    assert written(tmp_path, [sentence] * 500).stat().st_size < 2_000_000


def test_whole_or_not_at_all(tmp_path, monkeypatch):
    path = written(tmp_path)
    before = path.read_bytes()

    def full(sentences, file):
        file.write(sentences.read(100))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(UserError, match="No space left on device"):
        written(tmp_path, ALIGNMENTS[:1])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["index.html"]


# --- in Chromium ----------------------------------------------------------------------------------


def eventually(holds):
    """For what the browser does in its own time: a download, an event after a change."""
    deadline = time.monotonic() + 60
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Page:
    """A page in the browser, and what a reader sees and does."""

    def __init__(self, browser, path):
        from selenium.webdriver import ActionChains, Keys

        self.browser, self.path, self.keys = browser, path, Keys
        self.actions = lambda: ActionChains(browser, duration=0)
        self.run, self.errors = browser.execute_script, lambda: browser.get_log("browser")

    def open(self, fragment=""):
        self.browser.get("about:blank")  # or a change of fragment would be no new visit
        self.browser.get(self.path.as_uri() + fragment)
        return self

    def of(self, css, what):
        """Return what JavaScript says of each element `one` that a selector finds."""
        code = f"return Array.from(document.querySelectorAll(arguments[0]), (one) => {what})"
        return self.run(code, css)

    def all(self, css):
        return self.browser.find_elements("css selector", css)

    def one(self, css):
        (found,) = self.all(css)
        return found

    def hover(self, found):
        self.actions().move_to_element(found).perform()

    def cell(self, target, source):
        """Where a reader sees a cell: from the matrix's black ground, not from the script."""
        self.run("arguments[0].scrollIntoView({block: 'center'})", self.one(".matrix"))
        box, *_ = self.of(
            ".matrix svg > rect",
            "(({left, top, width, height}) => [left, top, width, height])"
            "(one.getBoundingClientRect())",
        )
        rows, columns = (len(self.all(f".label[data-side={s}]")) for s in ("target", "source"))
        x = box[0] + (source + 0.5) * box[2] / columns
        y = box[1] + (target + 0.5) * box[3] / rows
        return round(x), round(y)

    def hover_cell(self, target, source):
        actions = self.actions()
        actions.w3c_actions.pointer_action.move_to_location(*self.cell(target, source))
        actions.perform()

    def press(self, *keys):
        self.actions().send_keys(*keys).perform()

    def search(self, query):
        field = self.one("#search")
        field.send_keys(self.keys.CONTROL + "a")
        field.send_keys(self.keys.BACKSPACE + query)

    def set_threshold(self, value):
        self.run(
            "arguments[0].value = arguments[1];"
            "arguments[0].dispatchEvent(new Event('input', {bubbles: true}))",
            self.one("#threshold"),
            value,
        )

    def switch(self, mode):
        self.one(f"input[value={mode}] + span").click()

    def chosen(self):
        return int(self.one("#name").text.removeprefix("Sentence "))

    def listed(self):
        return self.of("#list li small", "parseInt(one.textContent)")

    def words(self, side):
        """[(word, weight in figures or None, opacity of its mark)]"""
        opacity = "Number(one.style.getPropertyValue('--weight'))"
        what = f"[one.textContent, one.dataset.weight ?? null, {opacity}]"
        return self.of(f".{side} .word", what)

    def labels(self):
        return self.of(".matrix .label", "one.textContent")

    def active(self):
        return [(found.get_dom_attribute("data-side"), found.text) for found in self.all(".active")]

    def figures(self):
        """The weights written into the matrix: {(target, source): weight}"""
        what = "[one.dataset.row, one.dataset.column, one.dataset.weight].map(Number)"
        found = self.of(".overlay [data-weight]", what)
        return {(int(row), int(column)): weight for row, column, weight in found}

    def readout(self, name=".readout"):
        """What is said of a cell, without the marks that keep the order of its words."""
        return re.sub("[\u2068\u2069]", "", self.one(name).text)

    def greys(self, shape):
        return greys(self.run("return document.querySelector('.matrix svg').outerHTML"), shape)


def greys(svg, shape):
    """The matrix that an SVG draws, as greys from 0 to 255; every cell at most once."""
    root = ElementTree.fromstring(svg)
    drawn = np.zeros(shape, dtype=int)
    for path in root.iter(f"{SVG}path"):
        (grey,) = {int(part) for part in re.findall(r"\d+", path.get("fill"))}
        cells = re.findall(r"M(\d+) (\d+)h1v1h-1z", path.get("d"))
        assert "".join(f"M{x} {y}h1v1h-1z" for x, y in cells) == path.get("d")
        for x, y in cells:
            assert drawn[int(y), int(x)] == 0
            drawn[int(y), int(x)] = grey
    return drawn


def as_greys(weights):
    """What is expected of `greys`; the stored weight is a hair away from the true one."""
    return grey(np.rint(weights * 50000) / 50000).astype(int)


def hard(one, threshold=0.0):
    expected = np.zeros(one.weights.shape, dtype=int)
    for source, target in one.links():
        expected[target, source] = 255 * (one.weights[target, source] >= threshold)
    return expected


@pytest.fixture
def page(browser, tmp_path):
    return Page(browser, written(tmp_path, title="Alignments & <more>"))


def test_loads_without_errors(page):
    page.open()
    assert page.browser.title == "Alignments & <more>"
    assert page.one("h1").text == "Alignments & <more>"
    assert page.chosen() == 3  # the first of the list, which is sorted by number
    assert page.one("#count").text == "4 sentences"
    page.open("#sentence=17")
    assert [word for word, _, _ in page.words("source")] == ENGLISH.split()
    assert [word for word, _, _ in page.words("target")] == FRENCH.split()
    labels = [found.text for found in page.all(".matrix .label")]
    assert labels == ENGLISH.split() + FRENCH.split()
    assert np.array_equal(page.greys((8, 8)), as_greys(ALIGNMENTS[0].weights))
    assert page.errors() == []


@pytest.mark.parametrize(
    ("side", "number", "word"), [("target", 5, "économique"), ("source", 4, "European")]
)
def test_a_word_shows_those_of_the_other_side(page, side, number, word):
    weights = ALIGNMENTS[0].weights
    other, looked_at, cell = (
        ("source", weights[number], lambda i: (number, i))
        if side == "target"
        else ("target", weights[:, number], lambda i: (i, number))
    )
    page.open("#sentence=17").hover(page.all(f".{side} .word")[number])
    for weight, (_, figure, mark) in zip(looked_at, page.words(other), strict=True):
        if weight < 0.005:
            assert figure is None
        else:
            assert float(figure) == pytest.approx(weight, abs=0.00052)
            assert mark == pytest.approx(weight, abs=0.00002)
    assert page.active() == [(side, word)] * 2
    figures = page.figures()
    assert set(figures) == {cell(i) for i in range(8) if looked_at[i] >= 0.005}
    assert all(abs(weights[cell] - figure) < 0.00052 for cell, figure in figures.items())
    if side == "target":
        best = looked_at.argmax()
        assert f"{ENGLISH.split()[best]} {looked_at[best]:.3f}" in page.one(".readout").text
    page.hover(page.one("h1"))
    assert page.active() == [] and page.figures() == {}
    assert {figure for _, figure, _ in page.words(other)} == {None}
    assert page.errors() == []


def test_labels_of_the_matrix_do_the_same(page):
    page.open("#sentence=17")
    for side, number, word in (("target", 6, "européenne"), ("source", 2, "on")):
        page.hover(page.all(f".matrix [data-side={side}]")[number])
        assert page.active() == [(side, word)] * 2


def test_cell_under_the_pointer(page):
    weights = ALIGNMENTS[0].weights
    page.open("#sentence=17")
    for target, source in [(0, 0), (5, 4), (7, 7), (2, 6)]:
        page.hover_cell(target, source)
        assert page.active() == [("target", FRENCH.split()[target])] * 2
        said = f"{FRENCH.split()[target]} ← {ENGLISH.split()[source]} {weights[target, source]:.3f}"
        assert said in page.readout(".tip")
    page.hover(page.one("h1"))
    assert not page.one(".tip").is_displayed()


def test_search(page):
    page.open()
    for query, found in [
        ("dog", [101]),
        ("ECONOMIQUE", [17]),
        ("un  chat", [3]),
        ("a", [3, 4, 17, 101]),
        ("עולם", [4]),
        ("l'accord", [17]),  # as it is written, not as it is split
        ("World.", [4]),
        ("</s>", []),
    ]:
        page.search(query)
        assert page.listed() == found
        assert found == [] or page.chosen() in found
    assert page.one("#count").text == "0 of 4 sentences"
    page.search("")
    assert page.listed() == [3, 4, 17, 101]
    assert page.errors() == []


def test_sort(page):
    page.open("#sentence=4")
    keys = {
        **{name: operator.attrgetter(name) for name in ("id", "score")},
        **{name: operator.methodcaller(name) for name in ("confidence", "entropy")},
        "length": lambda one: len(one.source),
    }
    for order, key in keys.items():
        known = [one for one in ALIGNMENTS if key(one) is not None]
        unknown = [one.id for one in ALIGNMENTS if key(one) is None]
        rising = [one.id for one in sorted(known, key=key)]
        page.one(f"#sort option[value={order}]").click()
        assert page.listed() == rising + unknown, order
        page.one("#direction").click()
        assert page.listed() == rising[::-1] + unknown, order
        assert page.one("#direction").get_dom_attribute("aria-pressed") == "true"
        page.one("#direction").click()
        assert page.chosen() == 4


def test_threshold_hides(page):
    weights = ALIGNMENTS[0].weights
    page.open("#sentence=17").set_threshold(0.3)
    assert page.one("#threshold-value").text == "0.30"
    expected = np.where(weights >= 0.3, weights, 0)
    assert 0 < np.count_nonzero(expected) < 20
    assert np.array_equal(page.greys((8, 8)), as_greys(expected))
    page.hover(page.all(".target .word")[5])
    shown = [figure is not None for _, figure, _ in page.words("source")]
    assert shown == (weights[5] >= 0.3).tolist()
    page.one("#threshold").click()  # the middle
    assert page.one("#threshold-value").text == "0.50"
    page.one("#threshold").send_keys(page.keys.ARROW_RIGHT)
    assert page.one("#threshold-value").text == "0.51"
    assert np.array_equal(page.greys((8, 8)), as_greys(np.where(weights >= 0.51, weights, 0)))


def test_weight_equal_to_the_threshold_is_shown(browser, tmp_path):
    path = written(tmp_path, [Alignment(["a", "b"], ["c"], [[0.3, 0.7]])])
    page = Page(browser, path).open()
    page.set_threshold(0.3)
    assert page.greys((1, 2)).tolist() == [[76, 179]]
    page.set_threshold(0.31)
    assert page.greys((1, 2)).tolist() == [[0, 179]]


def test_soft_and_hard(page):
    first = ALIGNMENTS[0]
    page.open("#sentence=17").switch("hard")
    assert np.array_equal(page.greys((8, 8)), hard(first))
    page.hover(page.all(".target .word")[5])
    (best,) = [source for source, target in first.links() if target == 5]
    words = page.words("source")
    assert [j for j in range(8) if words[j][1] is not None] == [best]
    assert float(words[best][1]) == pytest.approx(first.weights[5, best], abs=0.00052)
    assert words[best][2] == 1
    page.hover(page.all(".target .word")[7])  # an end symbol has no link
    assert {figure for _, figure, _ in page.words("source")} == {None}
    page.set_threshold(0.6)
    assert np.array_equal(page.greys((8, 8)), hard(first, 0.6))
    page.one("input[value=hard]").send_keys(page.keys.ARROW_LEFT)
    page.set_threshold(0)
    assert np.array_equal(page.greys((8, 8)), as_greys(first.weights))


BLUE, RED = (33, 102, 172), (178, 24, 43)


def test_what_mattered(browser, tmp_path, downloaded):
    effects = np.array([[1.0, -0.5], [2.0, 0.04], [np.nan, 0.0]])
    one = dataclasses.replace(ALIGNMENTS[1], attribution=effects)
    page = Page(browser, written(tmp_path, [ALIGNMENTS[0], one])).open("#sentence=3")
    page.switch("mattered")
    page.one("#svg").click()
    drawn = {}
    for path in ElementTree.fromstring(downloaded("alignment-3.svg")).iter(f"{SVG}path"):
        for column, row in re.findall(r"M(\d+) (\d+)h1v1h-1z", path.get("d")):
            drawn[int(row), int(column)] = path.get("fill")
    assert drawn.pop((2, 0)) == "#f00" and (2, 1) not in drawn  # zero is as the ground
    for (row, column), fill in drawn.items():
        share, end = effects[row, column] / 2, BLUE if effects[row, column] > 0 else RED
        expected = [247 + abs(share) * (part - 247) for part in end]
        assert np.allclose([int(part) for part in re.findall(r"\d+", fill)], expected, atol=0.51)
    page.hover_cell(0, 1)
    assert page.readout().startswith("un ← cat −0.500")
    page.hover(page.all(".target .word")[1])
    assert page.readout() == "chat ← a 2.000"  # the other is too small
    assert page.of(".overlay text", "one.textContent") == ["2.0"]
    page.hover(page.all(".source .word")[1])
    assert page.readout() == "cat → un −0.500"
    assert page.of(".overlay text", "one.textContent") == ["−.5"]
    assert not page.one("#legend").is_displayed()
    page.press(page.keys.ESCAPE)
    page.run("location.hash = '#sentence=17'")  # of which it is not known: its weights
    assert eventually(lambda: page.chosen() == 17)
    assert np.array_equal(page.greys((8, 8)), as_greys(ALIGNMENTS[0].weights))
    assert page.errors() == []


@pytest.fixture
def downloaded(browser, tmp_path):
    """Return a function that returns the content of a file that the browser has been given."""
    options = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", options)

    def downloaded(name):
        assert eventually((tmp_path / name).exists)
        return (tmp_path / name).read_bytes()

    return downloaded


def test_download_svg(page, downloaded):
    page.open("#sentence=17").one("#theme").click()  # the file does not follow the window
    page.hover(page.all(".target .word")[5])
    page.one("#svg").click()
    svg = downloaded("alignment-17.svg")
    assert np.array_equal(greys(svg, (8, 8)), as_greys(ALIGNMENTS[0].weights))
    root = ElementTree.fromstring(svg)
    assert [text.text for text in root.iter(f"{SVG}text")] == ENGLISH.split() + FRENCH.split()
    assert root.get("fill") == "#000" and root.find(f"{SVG}rect").get("fill") == "#fff"
    assert page.errors() == []


def test_download_png(page, downloaded):
    page.open("#sentence=17").one("#png").click()
    png = downloaded("alignment-17.png")
    pixels = (imread(io.BytesIO(png), format="png")[..., :3] * 255).round().astype(int)
    assert (pixels[0, 0] == 255).all()
    page.one("#svg").click()  # the same picture, which has the cells' places
    svg = ElementTree.fromstring(downloaded("alignment-17.svg"))
    ground = svg.findall(f"{SVG}rect")[1]
    left, top, side = float(ground.get("x")), float(ground.get("y")), float(ground.get("width")) / 8
    scale = pixels.shape[1] / float(svg.get("width"))
    assert scale == 3
    x = ((left + (np.arange(8) + 0.5) * side) * scale).astype(int)
    y = ((top + (np.arange(8) + 0.5) * side) * scale).astype(int)
    assert np.array_equal(pixels[np.ix_(y, x)][..., 0], as_greys(ALIGNMENTS[0].weights))
    assert page.errors() == []


def pasted(page):
    """What the clipboard holds, as a reader would find out."""
    page.search("")
    page.one("#search").send_keys(page.keys.CONTROL + "v")
    return page.one("#search").get_property("value")


def test_copy_pharaoh_line(page):
    first = ALIGNMENTS[0]
    page.open("#sentence=17")
    assert page.one("#pharaoh").text == first.pharaoh()
    page.one("#copy").click()
    assert eventually(lambda: "copied" in page.one("#done").text)
    assert pasted(page) == first.pharaoh()
    page.open("#sentence=17").set_threshold(0.6)
    kept = [f"{s}-{t}" for s, t in first.links() if first.weights[t, s] >= 0.6]
    assert 0 < len(kept) < 7
    page.one("#copy").click()
    assert eventually(lambda: "copied" in page.one("#done").text)
    assert pasted(page) == " ".join(kept)


def test_copy_where_the_clipboard_is_refused(page):
    page.open("#sentence=17")
    page.run("navigator.clipboard.writeText = () => Promise.reject(new Error('refused'))")
    page.run("getSelection().removeAllRanges()")
    page.one("#copy").click()
    assert pasted(page) == ALIGNMENTS[0].pharaoh()


def test_keyboard_in_the_list(page):
    keys = page.open().keys
    page.run("document.getElementById('list').focus()")
    seen = []
    for key in (keys.ARROW_DOWN, keys.ARROW_DOWN, keys.ARROW_UP, keys.END, keys.END, keys.HOME):
        page.press(key)
        seen.append(page.chosen())
        chosen = page.one("#list [aria-selected=true]").get_property("id")
        assert page.one("#list").get_dom_attribute("aria-activedescendant") == chosen
        assert page.browser.current_url.endswith(f"#sentence={page.chosen()}")
    assert seen == [4, 17, 4, 101, 101, 3]
    page.one("#search").send_keys(keys.ARROW_DOWN)
    assert page.chosen() == 4
    for button, number in (("#next", 17), ("#previous", 4)):
        page.one(button).click()
        assert page.chosen() == number


def test_keyboard_through_the_whole_page(page):
    """Tab reaches every control once, each shows its focus, and none holds it."""
    page.open("#sentence=17")
    seen = []
    for _ in range(30):
        page.press(page.keys.TAB)
        name, outline = page.run(
            "const one = document.activeElement, next = one.nextElementSibling;"
            "const style = getComputedStyle(one.name === 'mode' ? next : one);"
            "const name = one.ariaRoleDescription || one.id || one.value || one.textContent;"
            "return [name, style.outlineStyle]"
        )
        if name in seen or page.run("return document.activeElement === document.body"):
            break
        assert outline != "none", name
        seen.append(name)
    expected = (
        "theme search sort direction list previous next soft threshold inverted The L' matrix"
    )
    found = [name.removeprefix("alignment ") for name in seen if "How to read" not in name]
    assert found == [*expected.split(), "pharaoh", "copy", "png", "svg"]


def test_keyboard_in_words_and_matrix(page):
    keys = page.keys
    page.open("#sentence=17").run("document.querySelector('.target .word').focus()")
    page.press(keys.ARROW_RIGHT)
    assert page.active() == [("target", "accord")] * 2
    page.press(keys.END)
    assert page.active() == [("target", "</s>")] * 2
    page.press(keys.ESCAPE)
    assert page.active() == []
    # From what stands before it: focus given by a script or the mouse moves no cursor.
    page.run("document.querySelector('.target [tabindex=\"0\"]').focus()")
    page.press(keys.TAB, keys.ARROW_DOWN, keys.ARROW_RIGHT, keys.ARROW_RIGHT)
    assert page.readout().startswith(f"accord ← on {ALIGNMENTS[0].weights[1, 2]:.3f}")
    assert page.one(".readout").get_dom_attribute("role") == "status"


def test_right_to_left(page):
    page.open("#sentence=4")
    for side, direction in (("source", "ltr"), ("target", "rtl")):
        found = page.run(f"return getComputedStyle(document.querySelector('.{side}')).direction")
        assert found == direction
    page.run("document.querySelector('.target .word').focus()")
    page.press(page.keys.ARROW_LEFT)  # the next word stands on the left
    assert [side for side, _ in page.active()] == ["target", "target"]
    assert page.active()[0][1] == ","
    assert "\u2068עולם.\u2069" in page.labels()


def test_deep_link(page):
    assert page.open("#sentence=101").chosen() == 101
    page.run("location.hash = '#sentence=4'")
    assert eventually(lambda: page.chosen() == 4)
    page.open("#sentence=999")
    assert page.chosen() == 3
    assert "there is no sentence 999" in page.one("#count").text
    assert page.errors() == []


def test_light_and_dark(page):
    def ground():
        return page.run("return getComputedStyle(document.body).backgroundColor")

    def system(*schemes):
        features = [{"name": "prefers-color-scheme", "value": scheme} for scheme in schemes]
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    try:
        system("light")
        page.open()
        light, dark = "rgb(255, 255, 255)", "rgb(22, 24, 29)"
        assert eventually(lambda: ground() == light)
        system("dark")
        assert eventually(lambda: ground() == dark)
        assert page.one("#theme").get_dom_attribute("aria-pressed") == "true"
        page.one("#theme").click()
        assert ground() == light
        assert np.array_equal(page.greys((3, 2)), as_greys(ALIGNMENTS[1].weights))
    finally:
        system()


def test_black_on_white(browser, tmp_path):
    page = Page(browser, written(tmp_path, style="inverted")).open("#sentence=3")
    expected = 255 - as_greys(ALIGNMENTS[1].weights)
    svg = page.run("return document.querySelector('.matrix svg').outerHTML")
    drawn = greys(svg, (3, 2))
    drawn[as_greys(ALIGNMENTS[1].weights) == 0] = 255  # as the ground
    assert np.array_equal(drawn, expected) and "<rect" in svg and "rgb(255,255,255)" in svg
    page.one("#inverted").click()
    assert np.array_equal(page.greys((3, 2)), as_greys(ALIGNMENTS[1].weights))
    assert page.errors() == []


def test_end_symbols_are_no_words(page):
    page.open("#sentence=17")
    assert page.one("#lengths").text == "7 → 7 words"
    (listed,) = page.of("#list li[aria-selected=true]", "one.textContent")
    assert "</s>" not in listed and "17 · 7 → 7 words" in listed
    terms = page.of("#facts dt", "one.textContent")
    assert [term.split()[0] for term in terms] == ["confidence", "entropy", "score"]


def test_a_frame_for_notebooks(browser, tmp_path):
    """Two on one page: each shows its own weights, and is as high as what is in it."""
    likely = dataclasses.replace(
        ALIGNMENTS[1], probabilities=(0.5, 0.25, 1.0), attribution=np.full((3, 2), -1.5)
    )
    frames = [embedded_page(likely), embedded_page(ALIGNMENTS[0], "inverted")]
    (tmp_path / "index.html").write_text("<p>text</p>".join(frames), encoding="utf-8")
    page = Page(browser, tmp_path / "index.html").open()
    heights = "Number.parseInt(one.style.height) === one.contentDocument.body.scrollHeight + 2"
    assert eventually(lambda: page.of("iframe", heights) == [True, True])
    browser.switch_to.frame(0)
    page.hover(page.all(".target .word")[1])
    best = ALIGNMENTS[1].weights[1].argmax()
    said = page.readout()
    assert said.startswith(f"chat ← {['a', 'cat'][best]} {ALIGNMENTS[1].weights[1, best]:.3f}")
    assert said.endswith("; probability 0.250")
    page.one("#mattered").click()
    page.hover(page.all(".target .word")[1])
    assert page.readout() == "chat ← a −1.500, cat −1.500; probability 0.250"
    browser.switch_to.parent_frame()
    browser.switch_to.frame(1)
    assert len(page.all(".target .word")) == 8 and page.active() == []
    browser.switch_to.default_content()
    assert page.errors() == []


def test_hostile_words_are_shown_and_never_run(browser, tmp_path, downloaded):
    surrogate = Alignment(["\udc80"], ["b"], [[1.0]], id=1)
    page = Page(browser, written(tmp_path, [HOSTILE_ALIGNMENT, surrogate])).open()
    assert [word for word, *_ in page.words("source")] == list(HOSTILE)
    labels = page.labels()
    assert labels[0] == HOSTILE[0] and "…" in labels[1] and labels[3:5] == list(HOSTILE[3:5])
    page.hover(page.all(".source .word")[0])
    page.hover_cell(0, 1)
    page.one("#svg").click()
    ElementTree.fromstring(downloaded("alignment-0.svg"))
    page.one("#png").click()
    downloaded("alignment-0.png")
    page.open("#sentence=1").one("#png").click()
    downloaded("alignment-1.png")
    assert page.run("return window.ran === undefined")
    assert page.all("img, .matrix script, #list script") == []
    assert page.errors() == []


def test_odd_sentences(browser, tmp_path):
    odd = [
        Alignment(["a", "b"], [], np.zeros((0, 2)), id=0),
        Alignment([], ["a"], np.zeros((1, 0)), id=1),
        Alignment(["a", "b"], ["c"], [[np.nan, 1.0]], id=2),
        Alignment(["</s>"], ["</s>"], [[1.0]], id=3),
    ]
    page = Page(browser, written(tmp_path, odd)).open()
    assert "nothing to draw" in page.one(".matrix").text
    assert not page.one("#png").is_enabled()
    assert page.open("#sentence=1").chosen() == 1
    page.open("#sentence=2").hover(page.one(".target .word"))
    assert page.words("source")[0][1] == "NaN"
    assert "#f00" in page.one(".matrix svg").get_property("outerHTML")
    assert page.open("#sentence=3").one("#pharaoh").text == ""
    assert not page.one("#copy").is_enabled()
    assert page.errors() == []


def many(count):
    draw = np.random.default_rng(0)
    vocabulary = [f"w{n}" for n in range(300)]
    for n in range(count):
        target, source = draw.integers(5, 40, 2)
        words = [tuple(draw.choice(vocabulary, size)) for size in (source, target)]
        yield Alignment(*words, soft_alignment(target, source, n), id=n, score=-float(n % 7))


def test_five_hundred_sentences(browser, tmp_path):
    alignments = list(many(500))
    page = Page(browser, written(tmp_path, alignments)).open()
    assert page.listed() == list(range(500))
    page.run("document.getElementById('list').focus()")
    page.press(page.keys.END)
    assert page.chosen() == 499
    what = "[one.getBoundingClientRect().top, one.getBoundingClientRect().bottom]"
    ((top, bottom),) = page.of("#list", what)
    ((first, last),) = page.of("#list [aria-selected=true]", what)
    assert top <= first and last <= bottom + 1
    last = alignments[499].weights
    assert np.array_equal(page.greys(last.shape), as_greys(last))
    page.search("w123")
    found = [one.id for one in alignments if any("w123" in w for w in one.source + one.target)]
    assert page.listed() == found and 0 < len(found) < 500
    page.search("")
    page.one("#sort option[value=entropy]").click()
    by_entropy = sorted(alignments, key=lambda one: round(one.entropy(), 4))
    assert page.listed() == [one.id for one in by_entropy]
    page.one("#sort option[value=score]").click()  # equal ones stay in order
    assert page.listed() == sorted(range(500), key=lambda n: -(n % 7))
    assert page.errors() == []


LABEL_SIZE = """
    const one = document.querySelector('.matrix .label');
    return parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().b * -1;
"""


def test_labels_of_long_sentences_stay_legible(browser, tmp_path):
    words = " ".join(f"word{n}" for n in range(120))
    page = Page(browser, written(tmp_path, [alignment(words, words)])).open()
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.of(".matrix", "one.scrollHeight <= one.clientHeight") == [True]
    assert page.run(LABEL_SIZE) >= 7  # its box scrolls instead
    page.run("document.querySelector('.target .word').focus()")
    page.press(page.keys.TAB, page.keys.END)
    assert page.one(".readout").text.startswith("\u2068word0\u2069 ← \u2068word119\u2069")
    last = page.one(".overlay .cell").rect
    assert last["x"] + last["width"] <= page.run("return innerWidth")


def test_phone(browser, tmp_path):
    alignments = [*ALIGNMENTS, alignment("x" * 300 + " b", "c " + "y" * 300, id=9)]
    alignments[0] = dataclasses.replace(ALIGNMENTS[0], attribution=ALIGNMENTS[0].weights)
    page = Page(browser, written(tmp_path, alignments, title="T" * 200))

    def turn_into_phone(width):
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    try:
        turn_into_phone(390)
        page.open("#sentence=17")
        for number in (9, 4, 17):
            page.run("location.hash = `#sentence=${arguments[0]}`", number)
            assert eventually(lambda number=number: page.chosen() == number)
            page.all(".target .word")[0].click()
            for width in (390, 320):
                turn_into_phone(width)
                assert eventually(lambda width=width: page.run("return innerWidth") == width)
                assert page.run("return document.documentElement.scrollWidth") == width
        assert page.run(LABEL_SIZE) >= 8
        assert len(set(page.of(".choice span", "one.getBoundingClientRect().top"))) == 1
        assert len(set(page.of(".choice span", "one.offsetHeight"))) == 1
        assert all(button.size["height"] >= 44 for button in page.all("button"))
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
