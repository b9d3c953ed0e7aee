"""Both pages in headless Chromium: each opens, answers and saves, without an error in the console.

What their scripts compute is compared with Python in `test_page` and `test_living`, in Node.
"""

import copy
import io
import re
import time
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from test_living import searched
from test_page import (
    ALIGNMENTS,
    ENGLISH,
    FRENCH,
    HOSTILE,
    HOSTILE_ALIGNMENT,
    SVG,
    TITLE,
    as_greys,
    greys,
    hard,
    written,
)

from fairseq_rnnsearch import load
from fairseq_rnnsearch.commands.translator import Translator
from fairseq_rnnsearch.living.living_page import write_living_page
from fairseq_rnnsearch.plugin.model import RNNSearchConfig, RNNSearchModel

pytest_plugins = ["trained"]

TEXT = "red house bird vast lamp"
IDLE = "return /ms$/.test(document.getElementById('status').textContent)"


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
        self.run = browser.execute_script

    def open(self, fragment=""):
        self.browser.get("about:blank")  # or a change of fragment would be no new visit
        self.browser.get(self.path.as_uri() + fragment)
        return self

    def texts(self, css):
        code = (
            "return Array.from(document.querySelectorAll(arguments[0]), (one) => one.textContent)"
        )
        return self.run(code, css)

    def all(self, css):
        return self.browser.find_elements("css selector", css)

    def one(self, css):
        (found,) = self.all(css)
        return found

    def hover(self, found):
        self.actions().move_to_element(found).perform()

    def at_cell(self, target, source):
        """An action that moves the pointer to a cell, found from the matrix's black ground."""
        self.run("arguments[0].scrollIntoView({block: 'center'})", self.one(".matrix"))
        box = self.all(".matrix svg > rect")[0].rect
        rows, columns = (len(self.all(f".label[data-side={s}]")) for s in ("target", "source"))
        x = box["x"] + (source + 0.5) * box["width"] / columns
        y = box["y"] + (target + 0.5) * box["height"] / rows - self.run("return scrollY")
        actions = self.actions()
        actions.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        return actions

    def type(self, field, text):
        self.one(field).send_keys(self.keys.CONTROL + "a")
        self.one(field).send_keys(self.keys.BACKSPACE + text)

    def readout(self):
        """What is said of the active word, without the marks that keep the order of its words."""
        return re.sub("[\u2068\u2069]", "", self.one(".readout").text)

    def shows_what_mattered(self):
        return any("how far" in text for text in self.texts(".legend"))

    def greys(self, shape):
        return greys(self.one(".matrix svg").get_property("outerHTML"), shape)

    def chosen(self):
        return int(self.one("#name").text.removeprefix("Sentence "))

    def is_sound(self):
        return self.browser.get_log("browser") == []


# --- the page of alignments -----------------------------------------------------------------------


def test_the_page_of_alignments_opens(browser, tmp_path):
    """Foreign words are shown, and never run."""
    page = Page(browser, written(tmp_path, [*ALIGNMENTS, HOSTILE_ALIGNMENT], title=TITLE))
    page.open("#sentence=17")
    assert browser.title == page.one("h1").text == TITLE
    assert page.texts(".source .word") == ENGLISH.split()
    assert page.texts(".target .word") == FRENCH.split()
    assert page.texts(".matrix .label") == ENGLISH.split() + FRENCH.split()
    weights = ALIGNMENTS[0].weights
    assert np.array_equal(page.greys((8, 8)), as_greys(weights))
    page.hover(page.all(".target .word")[5])
    figures = [one.get_dom_attribute("data-weight") for one in page.all(".source .word")]
    assert figures == [f"{weight:.3f}" if weight >= 0.005 else None for weight in weights[5]]
    page.at_cell(2, 6).perform()
    assert f"sur ← Area {weights[2, 6]:.3f}" in page.readout()
    page.one("input[value=hard] + span").click()
    assert np.array_equal(page.greys((8, 8)), hard(ALIGNMENTS[0]))
    page.run("location.hash = '#sentence=666'")
    assert eventually(lambda: page.chosen() == 666)
    assert page.texts(".source .word") == list(HOSTILE)
    page.at_cell(0, 1).perform()
    assert page.run("return window.ran === undefined")
    assert page.all("img, .matrix script, #list script") == [] and page.is_sound()


def test_the_page_of_alignments_saves(browser, tmp_path):
    options = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", options)

    def downloaded(name):
        assert eventually((tmp_path / name).exists)
        return (tmp_path / name).read_bytes()

    page = Page(browser, written(tmp_path)).open("#sentence=17")
    page.one("#theme").click()  # files do not follow the window
    page.one("#svg").click()
    svg = downloaded("alignment-17.svg")
    weights = as_greys(ALIGNMENTS[0].weights)
    assert np.array_equal(greys(svg, (8, 8)), weights)
    root = ElementTree.fromstring(svg)
    assert [text.text for text in root.iter(f"{SVG}text")] == ENGLISH.split() + FRENCH.split()
    page.one("#png").click()
    png = downloaded("alignment-17.png")
    pixels = (imread(io.BytesIO(png), format="png")[..., 0] * 255).round().astype(int)
    ground = root.findall(f"{SVG}rect")[1]
    left, top, side = (float(ground.get(name)) for name in ("x", "y", "width"))
    places = (np.arange(8) + 0.5) * side / 8
    scale = pixels.shape[1] / float(root.get("width"))
    y, x = (((start + places) * scale).astype(int) for start in (top, left))
    assert np.array_equal(pixels[np.ix_(y, x)], weights) and pixels[0, 0] == 255
    assert page.is_sound()


# --- the living page ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(learned):
    model = load(learned.checkpoint, learned.corpus.data)
    model.models[0].decoder.kernels = "reference"  # which `Touched` can reach into
    return model


def another(model, network):
    """A translator of another network with the same words."""
    words = model.source_dictionary, model.target_dictionary, model.source_text, model.target_text
    return Translator([network], *words, length_limit=model.length_limit)


class Living(Page):
    def open(self, fragment=""):
        super().open(fragment)
        assert eventually(lambda: self.run(IDLE))
        return self

    def number_at(self, target, source):
        self.at_cell(target, source).perform()
        return float(re.search(r"−?\d+\.\d{3}", self.readout())[0].replace("−", "-"))

    def shows(self, hypothesis, model):
        """Wait until the chips are the words of a hypothesis of fairseq."""
        words = [model.target_dictionary[word] for word in hypothesis["tokens"].tolist()]
        assert eventually(lambda: self.texts(".chip") == words), (self.texts(".chip"), words)


def test_the_living_page_translates(browser, model, tmp_path):
    """Each sentence by each model, without a network; what is touched can be undone."""
    torch.manual_seed(0)
    cfg = RNNSearchConfig(fixed_context=True, encoder_hidden_size=8, decoder_hidden_size=8)
    task = SimpleNamespace(
        source_dictionary=model.source_dictionary, target_dictionary=model.target_dictionary
    )
    other = another(model, RNNSearchModel.build_model(cfg, task))
    path = tmp_path / "two.html"
    write_living_page(path, [model, other], weights="float32", examples=[TEXT])
    no_network = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", no_network)
    page = Living(browser, path).open()
    assert page.texts(".model h2") == ["RNNsearch", "RNNencdec"]
    assert page.texts(".translation") == [m.translate(TEXT, beam=5).text for m in (model, other)]

    write_living_page(path, [model], weights="float32", examples=[TEXT])
    page.open()
    page.type("#sentence", "rare key")
    page.shows(searched(model, "rare key", 5)[0], model)
    page.one("#beam").send_keys(page.keys.END)
    page.shows(searched(model, "rare key", 12)[0], model)
    page.one("#prefix").send_keys("table")
    prefixed = searched(model, "rare key", 12, {0: "table"})[0]
    page.shows(prefixed, model)
    page.all(".chip")[1].click()
    other = page.all(".choice-of-word:enabled")[0]
    words = {0: "table", 1: re.sub(r"[\d.]+$", "", other.get_property("textContent"))}
    other.click()
    page.shows(searched(model, "rare key", 12, words)[0], model)
    page.one("#undo").click()
    page.shows(prefixed, model)
    page.one("#prefix").clear()
    page.type("#sentence", "red zebra" + page.keys.ENTER + "rare key")
    page.shows(searched(model, "rare key", 12)[0], model)  # the sentence that is typed
    translations = [model.translate(text, beam=12).text for text in ("red zebra", "rare key")]
    assert page.texts(".translation button") == translations
    assert "zebra" in page.one(".warnings").text
    page.type("#sentence", "<b>red</b> bird {name}")
    marked = model.translate("<b>red</b> bird {name}", beam=12, markup=True)
    assert eventually(lambda: page.texts(".translation") == [marked.markup])
    page.run("document.getElementById('sentence').setSelectionRange(3, 6)")
    assert eventually(lambda: page.texts(".became") == [re.search("<b>(.*)</b>", marked.markup)[1]])
    page.open("#text=bird&beam=99&sentence=0.15e-1&step=9.1&moment=x")  # of a stranger
    page.shows(searched(model, "bird", 5)[0], model)
    assert page.is_sound()
    fetched = page.run(
        "return fetch('http://localhost/').then(() => 'yes', (error) => error.message)"
    )
    assert fetched == "Failed to fetch" and not page.is_sound()
    browser.execute_cdp_cmd("Network.disable", {})


def test_the_living_page_goes_through_a_step(browser, model, tmp_path):
    write_living_page(tmp_path / "living.html", [model], weights="float32", examples=[TEXT])
    page = Living(browser, tmp_path / "living.html").open()
    for _ in range(6):  # the steps of the tour, or the button would not be there
        page.one("#tour-next").click()
    assert not page.one("#tour").is_displayed()
    found = searched(model, TEXT, 5)[0]
    row = found["attention"].T.numpy()[1].copy()
    start, word = int(row.argmax()), page.texts(".chip")[0]
    end = (start + 2) % 5
    row[end], row[start] = row[end] + row[start], 0
    drag = page.at_cell(1, start)
    drag.w3c_actions.pointer_action.pointer_down()
    drag.perform()
    drop = page.at_cell(1, end)
    drop.w3c_actions.pointer_action.pointer_up()
    drop.perform()
    moved = searched(model, TEXT, 5, {0: word}, {1: row})[0]
    page.shows(moved, model)
    assert page.number_at(1, end) == pytest.approx(float(row[end]), abs=6e-4)
    page.one("body").send_keys(page.keys.CONTROL + "z")
    page.shows(found, model)

    page.one(".model summary").click()
    assert eventually(lambda: page.all(".tree text"))
    other = next(one for one in page.all(".tree text") if "best" not in one.get_attribute("class"))
    first = page.run("return arguments[0].firstChild.textContent", other)
    other.click()
    page.shows(searched(model, TEXT, 5, {0: first})[0], model)
    page.one("#reset").click()
    page.shows(found, model)

    next(one for one in page.all(".view button") if one.text == "What mattered").click()
    assert eventually(page.shows_what_mattered)
    expected = model.translate(TEXT, beam=5, attribution=True).mattered
    assert f"{np.abs(expected).max():.2f} how far" in page.one(".legend").text
    cancelled = page.run(
        "const mattered = rnnsearch.mattered('a', Array(99).fill('</s>'));"
        " ask('cancel'); return mattered"
    )
    assert cancelled is None
    place = np.unravel_index(np.abs(expected).argmax(), expected.shape)
    assert page.number_at(*place) == pytest.approx(expected[place], abs=6e-4)

    page.all(".chip")[2].click()
    page.all(".choices button")[-1].click()
    assert eventually(lambda: page.all(".equation"))
    assert page.one("#glass-name").text.startswith("RNNsearch, step 3 of 6")
    assert len(page.all(".likeliest li")) == 6 + 10  # source words, and likeliest words
    page.one("#after").click()
    assert eventually(lambda: "step 4 of 6" in page.one("#glass-name").text)
    page.one("#close").click()
    assert eventually(lambda: not page.one("#glass").is_displayed()) and page.is_sound()


def test_an_address_restores_what_is_shown_in_a_frame_without_rights(browser, model, tmp_path):
    write_living_page(tmp_path / "living.html", [model], other_direction="back.html")
    src = "living.html#text=bird&beam=3&step=0.1&show=mattered,beam"
    (tmp_path / "frame.html").write_text(f'<iframe sandbox="allow-scripts" src="{src}"></iframe>')
    page = Page(browser, tmp_path / "frame.html").open()
    browser.switch_to.frame(page.one("iframe"))
    assert eventually(lambda: page.shows_what_mattered() and page.all(".equation"))
    assert page.texts("#beam-value") == ["3"] and page.all(".tree text.best") and page.is_sound()
    back = page.run("at('back').onclick = () => false; at('back').click(); return at('back').hash")
    assert back == f"#text={page.one('.translation').text.replace(' ', '+')}"
    browser.switch_to.default_content()


def test_the_living_page_goes_through_a_training(browser, model, tmp_path):
    network = copy.deepcopy(model.models[0])
    for parameter in network.parameters():
        parameter.data *= 0.7
    early, path = another(model, network), tmp_path / "training.html"
    options = {"weights": "float32", "examples": [TEXT], "is_training": True}
    write_living_page(path, [early, model], names=["update 10", "update 99"], **options)
    page = Living(browser, path).open()
    page.shows(searched(model, TEXT, 5)[0], model)
    assert page.one(".model h2").text == page.one("#moment-name").text == "update 99"
    page.one("#moment").send_keys(page.keys.HOME)
    page.shows(searched(early, TEXT, 5)[0], early)
    said = page.one("#moment").get_attribute("aria-valuetext")
    assert page.one(".model h2").text == page.one("#moment-name").text == said == "update 10"
    page.all(".chip")[1].click()
    page.all(".choices button")[-1].click()
    assert eventually(lambda: "update 10, step 2" in page.one("#glass-name").text)
    assert page.is_sound()
