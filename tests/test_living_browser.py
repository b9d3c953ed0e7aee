"""The living page in headless Chromium: every touch by mouse and keyboard, and no network."""

import copy
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_living import searched
from test_page import Page, eventually

from fairseq_rnnsearch import load
from fairseq_rnnsearch.commands.translator import Translator
from fairseq_rnnsearch.living.living_page import write_living_page
from fairseq_rnnsearch.plugin.model import RNNSearchConfig, RNNSearchModel

pytest_plugins = ["trained"]

TEXT = "red house bird vast lamp"
IDLE = "return /ms$/.test(document.getElementById('status').textContent)"


@pytest.fixture(scope="module")
def model(learned):
    model = load(learned.checkpoint, learned.corpus.data)
    model.models[0].decoder.kernels = "reference"  # which `Touched` can reach into
    return model


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("living") / "living.html"
    write_living_page(path, [model], weights="float32", examples=[TEXT, "bird"])
    return path


class Living(Page):
    """The page, and what a reader sees and does."""

    def open(self, fragment=""):
        super().open(fragment)
        assert eventually(lambda: self.run(IDLE))
        return self

    def texts(self, css):
        return self.of(css, "one.textContent")

    def chips(self):
        return self.texts(".chip")

    def shows(self, hypothesis, model):
        """Wait until the chips are the words of a hypothesis of fairseq."""
        words = [*model._target_tokens(hypothesis), "</s>"]
        assert eventually(lambda: self.chips() == words), (self.chips(), words)

    def drag(self, target, start, end):
        actions = self.actions()
        pointer = actions.w3c_actions.pointer_action
        pointer.move_to_location(*self.cell(target, start)).pointer_down()
        pointer.move_to_location(*self.cell(target, end))
        actions.perform()
        assert self.all(".move")  # an arrow shows where the weight would go
        actions = self.actions()
        actions.w3c_actions.pointer_action.pointer_up()
        actions.perform()

    def weights(self):
        """The rows that the page shows, from the tips of the matrix' cells."""
        found = []
        for target in range(len(self.all(".label[data-side=target]"))):
            row = []
            for source in range(len(self.all(".label[data-side=source]"))):
                self.hover_cell(target, source)
                tip = self.one(".tip").text.replace("−", "-")
                row.append(float(re.search(r"-?\d+\.\d{3}", tip)[0]))
            found.append(row)
        return np.array(found)


@pytest.fixture
def page(browser, path):
    shown = Living(browser, path)
    yield shown.open()
    assert shown.errors() == []


def test_it_translates_what_is_typed(page, model):
    page.shows(searched(model, TEXT, 5)[0], model)
    assert page.one(".translation").text == model.translate(TEXT, beam=5).text
    field = page.one("#sentence")
    field.send_keys(page.keys.CONTROL + "a")
    field.send_keys("rare key")
    page.shows(searched(model, "rare key", 5)[0], model)
    assert re.match(r"score −?\d\.\d{3} · 3 steps$", page.one(".score").text)
    page.one("#beam").send_keys(page.keys.END)
    assert page.one("#beam-value").text == "12"
    page.shows(searched(model, "rare key", 12)[0], model)
    page.one("#prefix").send_keys("table")
    page.shows(searched(model, "rare key", 12, {0: "table"})[0], model)
    page.one("#prefix").send_keys("x")
    message = "tablex is not in the target dictionary"
    assert eventually(lambda: page.one("#status").text == message)
    page.one("#prefix").send_keys(page.keys.BACKSPACE)
    assert eventually(lambda: page.run(IDLE))  # the words did not change meanwhile
    page.shows(searched(model, "rare key", 12, {0: "table"})[0], model)
    page.all(".chip")[0].click()
    page.all(".choice-of-word:enabled")[0].click()  # in the place of what was typed
    assert eventually(lambda: page.chips()[0] != "table")
    page.shows(searched(model, "rare key", 12, {0: page.chips()[0]})[0], model)
    page.one("#prefix").clear()
    field.send_keys(page.keys.CONTROL + "a" + page.keys.BACKSPACE)
    assert eventually(lambda: page.chips() == [])


def test_another_word_and_undo(page, model):
    before = page.chips()
    page.all(".chip")[1].click()
    choices = [re.sub(r"[\d.]+$", "", text) for text in page.texts(".choice-of-word")]
    assert len(choices) == 5 and before[1] in choices
    other = next(word for word in choices if word not in (before[1], "</s>"))
    page.all(".choice-of-word")[choices.index(other)].click()
    words = {0: before[0], 1: other}
    page.shows(searched(model, TEXT, 5, words)[0], model)
    assert "touched" in page.all(".chip")[1].get_dom_attribute("class")
    assert eventually(lambda: page.all(".chip.changed"))
    page.one("body").send_keys(page.keys.CONTROL + "z")
    assert eventually(lambda: page.chips() == before)
    assert not page.one("#undo").is_enabled()


def test_the_search_goes_on_from_a_word_that_the_beam_has_held(page, model):
    page.one(".model summary").click()
    assert eventually(lambda: page.all(".tree text"))
    assert page.texts(".tree text.best title")[0].startswith(f"{page.chips()[0]}, probability")
    assert all(re.fullmatch(r" −?\d+\.\d\d", score) for score in page.texts(".tree .score"))
    other = next(one for one in page.all(".tree text") if "best" not in one.get_attribute("class"))
    first = page.run("return arguments[0].firstChild.textContent", other)
    other.click()
    page.shows(searched(model, TEXT, 5, {0: first})[0], model)
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:  # a tree wider than the paper shrinks as a whole, and words wider than it are not printed
        width, ratio, natural = page.run("""
            const svg = document.querySelector('.tree svg'), { attributes } = svg;
            svg.parentElement.style.width = '300px';
            const { width, height } = svg.getBoundingClientRect();
            return [width, height / width, attributes.height.value / attributes.width.value];
        """)
        assert width == 300 and ratio == pytest.approx(natural, rel=0.01)
        assert page.run("return document.querySelector('.tree svg').viewBox.baseVal.width") > 300
        assert not page.one(".pair").is_displayed()
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_weight_is_moved_by_dragging(page, model):
    row = searched(model, TEXT, 5)[0]["attention"].T.numpy()[1].copy()
    start = int(row.argmax())
    end = (start + 2) % 5
    row[end], row[start] = row[end] + row[start], 0
    word = page.chips()[0]
    page.drag(1, start, end)
    assert eventually(lambda: page.all(".label.touched"))
    moved = searched(model, TEXT, 5, {0: word}, {1: row})[0]
    page.shows(moved, model)
    np.testing.assert_allclose(page.weights(), moved["attention"].T, atol=6e-4)
    page.one("#undo").click()
    page.shows(searched(model, TEXT, 5)[0], model)
    assert not page.all(".label.touched")


def test_weight_is_given_by_keys(page, model):
    page.one("#sentence").click()
    page.run("document.querySelector('.matrix').focus({focusVisible: true})")
    page.press(page.keys.ARROW_DOWN, page.keys.ARROW_RIGHT, page.keys.ARROW_RIGHT, page.keys.ENTER)
    word, row = page.chips()[0], np.eye(6)[2]
    assert eventually(lambda: page.all(".label.touched"))
    page.shows(searched(model, TEXT, 5, {0: word}, {1: row})[0], model)


def test_what_mattered_is_computed_when_it_is_asked_for(page, model):
    button = next(one for one in page.all(".view button") if one.text == "What mattered")
    button.click()
    assert eventually(lambda: page.all(".view.signed"))
    expected = model.translate(TEXT, beam=5, attribution=True).mattered
    np.testing.assert_allclose(page.weights(), expected, atol=6e-4)
    page.one("#sentence").send_keys(" key")  # it stays what is shown
    page.shows(searched(model, f"{TEXT} key", 5)[0], model)
    expected = model.translate(f"{TEXT} key", beam=5, attribution=True).mattered
    assert eventually(lambda: len(page.all(".label[data-side=source]")) == expected.shape[1])
    np.testing.assert_allclose(page.weights(), expected, atol=6e-4)
    button.click()
    assert eventually(lambda: not page.all(".view.signed"))


def test_a_step_under_the_glass(page):
    page.all(".chip")[2].click()
    page.all(".choices button")[-1].click()
    assert eventually(lambda: page.all(".equation"))
    assert page.one("#glass-name").text.startswith("RNNsearch, step 3 of 6")
    equations = " ".join(page.texts(".equation p"))
    order = ["eij =", "αij =", "ci =", "t̃i =", "tij =", "p(yi)", "ri =", "zi =", "s̃i =", "si = ("]
    places = [equations.index(part) for part in order]
    assert places == sorted(places)
    assert len(page.all(".likeliest li")) == 10
    strip = page.all(".strip")[1]
    page.actions().move_to_element(strip.find_element("css selector", "canvas")).perform()
    assert re.fullmatch(r"state before, number \d+: −?\d\.\d{3}", strip.text)
    strip.send_keys(page.keys.ARROW_RIGHT)
    assert re.fullmatch(r"state before, number \d+: −?\d\.\d{3}", strip.text)
    assert page.texts(".strip output").count("48 numbers on a scale of 0 to 1") == 2  # gates
    page.run("""
        const { step } = rnnsearch;
        rnnsearch.step = async (...given) => ({ ...await step(...given), previous: "l'\uffed" });
    """)
    page.one("#after").click()
    assert eventually(lambda: "step 4 of 6" in page.one("#glass-name").text)
    assert "l'" in page.texts(".equation span")
    page.one("#close").click()
    assert eventually(lambda: not page.one("#glass").is_displayed())


def test_two_models_side_by_side(browser, model, tmp_path):
    cfg = RNNSearchConfig(fixed_context=True, encoder_hidden_size=8, decoder_hidden_size=8)
    dictionaries = model.source_dictionary, model.target_dictionary
    task = SimpleNamespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
    torch.manual_seed(0)
    network = RNNSearchModel.build_model(cfg, task)
    texts = model.source_text, model.target_text
    # It never ends a sentence, and sums of hundreds of scores differ in their rounding.
    other = Translator([network], *dictionaries, *texts, length_limit=model.length_limit)
    write_living_page(tmp_path / "two.html", [model, other], weights="float32", examples=[TEXT])
    page = Living(browser, tmp_path / "two.html").open()
    assert page.texts(".model h2") == ["RNNsearch", "RNNencdec"]
    assert page.texts(".translation") == [m.translate(TEXT, beam=5).text for m in (model, other)]
    assert len(page.all(".matrix")) == 1
    page.all(".model")[1].find_elements("css selector", ".chip")[0].click()
    page.all(".choices button")[-1].click()
    assert eventually(lambda: "RNNencdec, step 1" in page.one("#glass-name").text)
    assert page.errors() == []


SPY = """
const post = Worker.prototype.postMessage;
globalThis.asked = [];
Worker.prototype.postMessage = function (message) {
  asked.push(`${message.call} ${message.given[0]}`);
  post.call(this, message);
};
"""


def test_a_slider_goes_through_a_training(browser, model, tmp_path):
    torch.manual_seed(0)
    dictionaries, texts = (
        (model.source_dictionary, model.target_dictionary),
        (model.source_text, model.target_text),
    )
    early = copy.deepcopy(model.models[0])
    for parameter in early.parameters():
        parameter.data *= 0.7
    early = Translator([early], *dictionaries, *texts, length_limit=model.length_limit)
    options = {"weights": "float32", "examples": [TEXT], "is_training": True}
    path = tmp_path / "training.html"
    write_living_page(path, [early, model], names=["update 10", "update 99"], **options)
    spy = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SPY})
    page = Living(browser, path).open()
    page.shows(searched(model, TEXT, 5)[0], model)
    assert page.one(".model h2").text == page.one("#moment-name").text == "update 99"
    prepared = ["prepare 0", "prepare 1"]  # before the slider comes there
    assert eventually(lambda: browser.execute_script("return asked.slice(-2)") == prepared)
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", spy)
    page.one("#moment").send_keys(page.keys.HOME)
    assert eventually(lambda: page.one(".model h2").text == "update 10")
    page.shows(searched(early, TEXT, 5)[0], early)
    assert page.one("#moment-name").text == "update 10"
    page.all(".chip")[1].click()
    page.all(".choices button")[-1].click()
    assert eventually(lambda: "update 10, step 2" in page.one("#glass-name").text)
    page.one("#link").click()
    assert eventually(lambda: "link" in page.one("#status").text)
    page.open(page.run("return location.hash"))  # which has the moment and the step
    assert eventually(lambda: "update 10, step 2" in page.one("#glass-name").text)
    assert page.one("#moment").get_property("value") == "0"
    page.all(".choice-of-word:enabled")[0].click()
    assert eventually(lambda: len(page.all(".chip.touched")) == 1)
    page.one("#moment").send_keys(page.keys.END)  # there the word before it is not the model's own
    assert eventually(lambda: len(page.all(".chip.touched")) == 2)
    assert not page.all(".chip.changed") and page.errors() == []


def test_several_sentences_are_translated_each_by_itself(page, model):
    first, second = "red house bird", "vast lamp"
    field = page.one("#sentence")
    field.send_keys(page.keys.CONTROL + "a")
    field.send_keys(first + page.keys.ENTER + second)
    page.shows(searched(model, second, 5)[0], model)  # the sentence that is typed
    translations = [model.translate(text, beam=5).text for text in (first, second)]
    assert page.texts(".translation button") == translations
    page.all(".translation button")[0].click()
    page.shows(searched(model, first, 5)[0], model)
    before = page.chips()
    page.all(".chip")[0].click()
    page.all(".choice-of-word:enabled")[0].click()
    assert eventually(lambda: page.all(".chip.touched"))
    touched = page.chips()
    assert touched != before
    page.all(".translation button")[1].click()  # what was touched of the first one is kept
    page.shows(searched(model, second, 5)[0], model)
    page.all(".translation button")[0].click()
    assert eventually(lambda: page.chips() == touched)
    page.all(".translation button")[1].click()
    page.shows(searched(model, second, 5)[0], model)
    page.one("#undo").click()
    assert eventually(lambda: page.chips() == before)
    page.open("#sentence=2&text=red+house+bird%0Avast+lamp")
    page.shows(searched(model, second, 5)[0], model)
    assert page.all(".translation button")[1].get_attribute("aria-pressed") == "true"


def test_sentences_are_sent_once_and_not_when_the_text_was_replaced(page, model):
    page.run("""
        const post = worker.postMessage.bind(worker);
        globalThis.asked = [];
        worker.postMessage = (message) => {
          if (message.call === "translate") asked.push(message.given[0]);
          post(message);
        };
        globalThis.type = (text) => {
          at("sentence").value = text;
          begin();
        };
        type("red\\nred house\\nred\\nred");
    """)
    assert eventually(lambda: len(page.all(".translation button")) == 4)
    assert page.run("return asked.splice(0)") == ["red", "red house"]
    lines = "\n".join(f"bird key {'lamp ' * n}" for n in range(20))
    page.run("type(arguments[0]); setTimeout(type, 0, 'vast key')", lines)
    page.shows(searched(model, "vast key", 5)[0], model)
    sent = page.run("return asked")
    assert sent[-1] == "vast key" and len(sent) <= 3


def test_rows_are_compared_with_those_of_the_same_words(page):
    changed = page.run("""
        const [view] = views, { answer } = view, { belongs, pieces, weights } = answer;
        const target = belongs.target.slice(0, -1);
        // as if the first word were new
        view.markChanges({ pieces: pieces.slice(1), weights: weights.slice(1),
          belongs: { ...belongs, target } });
        return [[...view.changed.words], [...view.changed.rows]];
    """)
    assert changed == [[0], [0]]


def test_text_has_its_language_and_groups_have_names(page):
    languages = "#sentence en, #prefix fr, #examples option:nth-child(2) en, .pair .words en"
    for place in f"{languages}, .translation fr, .tree fr".split(", "):
        css, language = place.rsplit(" ", 1)
        assert page.all(css)[0].get_attribute("lang") == language, place
    assert page.one(".choices").get_attribute("aria-label") == "Likeliest words"


def test_unknown_words_are_named(page):
    field = page.one("#sentence")
    field.send_keys(page.keys.CONTROL + "a")
    field.send_keys("red zebra" + page.keys.ENTER + "quagga bird")
    said = "2 of 4 English words are unknown: zebra, quagga"
    assert eventually(lambda: page.one(".warnings").text.startswith(said))
    assert page.texts(".pair .unknown") == ["quagga"]
    assert not page.one("#known p").is_displayed()
    page.one(".warnings button").click()
    assert "red" in page.one("#known p").text.split(" · ")


def test_reset(page):
    before = page.chips()
    assert page.one("#reset").text == "Reset" and not page.one("#reset").is_enabled()
    page.all(".chip")[1].click()
    page.all(".choice-of-word:enabled")[0].click()
    assert eventually(lambda: page.one("#reset").is_enabled())
    touched = page.chips()
    page.one("#reset").click()
    assert eventually(lambda: page.chips() == before)
    page.one("#undo").click()
    assert eventually(lambda: page.chips() == touched)


def test_an_example_can_be_chosen_again(page, model):
    for _ in range(2):
        page.run("const one = document.getElementById('examples'); one.value = 'bird';"
                 "one.dispatchEvent(new Event('change'))")  # fmt: skip
        page.shows(searched(model, "bird", 5)[0], model)
        assert page.one("#examples").get_property("value") == ""
        page.one("#sentence").send_keys(" key")
        page.shows(searched(model, "bird key", 5)[0], model)


def test_the_keyboard_keeps_its_place(page):
    where = "return document.activeElement.dataset.step ?? document.activeElement.className"
    page.run("document.querySelectorAll('.chip')[1].focus()")
    page.press(page.keys.ENTER)
    choice = page.all(".choice-of-word:enabled")[0]
    page.run("arguments[0].focus()", choice)
    page.press(page.keys.ENTER)
    assert eventually(lambda: page.all(".chip.touched"))
    assert eventually(lambda: page.run(where) == "1")
    page.one(".model summary").click()
    assert eventually(lambda: page.all(".tree text"))
    page.run("document.querySelectorAll('.tree text')[0].focus()")
    page.press(" ")
    assert eventually(lambda: page.run(where) == "0")
    page.all(".chip")[2].click()
    page.all(".choices button")[-1].click()
    assert eventually(lambda: page.one("#glass").is_displayed())
    strip = page.all(".strip")[1]
    page.run("arguments[0].focus()", strip)
    page.press(page.keys.END)
    assert strip.get_attribute("aria-valuenow") == strip.get_attribute("aria-valuemax")
    page.one("#close").click()
    assert eventually(lambda: page.run(where) == "2")


def test_keys_of_the_browser_and_of_buttons_are_theirs(page):
    page.hover_cell(2, 1)
    save = next(one for one in page.all(".view button") if one.text == "What mattered")
    page.run("arguments[0].focus()", save)
    page.press(page.keys.ENTER)
    assert eventually(lambda: page.all(".view.signed"))
    page.run("document.querySelector('.matrix').focus()")
    page.press(page.keys.ARROW_DOWN)
    prevented = page.run("""
        return ['ArrowRight', '+'].map((key) => !document.querySelector('.matrix').dispatchEvent(
          new KeyboardEvent('keydown', {key, ctrlKey: true, bubbles: true, cancelable: true})));
    """)
    assert prevented == [False, False]
    assert not page.one("#undo").is_enabled()  # no weight was moved


def test_a_link_of_a_stranger(page, model):
    for step, place in (("0.15e-1", "1.5"), ("9.1", "99"), ("0.99", "0")):
        page.open(f"#text=bird&sentence={place}&step={step}&moment=x")
        page.shows(searched(model, "bird", 5)[0], model)
    page.run("location.hash = 'text=' + 'red.+'.repeat(900)")
    assert eventually(lambda: page.one("#status").text.endswith(", cut after 2000 letters"))


def test_an_engine_that_dies_is_told(browser, path, tmp_path):
    broken = path.read_text().replace('id="engine">', 'id="engine">throw new Error("no");', 1)
    (tmp_path / "broken.html").write_text(broken)
    page = Page(browser, tmp_path / "broken.html")
    page.open()
    said = "this browser cannot run the model: "
    assert eventually(lambda: page.one("#status").text.startswith(said))
    assert page.errors()


def test_a_long_beam_is_a_tree(page):
    tokens = page.run("""
        const tree = [...Array(5000).keys()].map((n) => ({token: `w${n}\uffed`,
          parent: n ? n - 1 : null,
          probability: 1, score: -n, isBest: true}));
        let chosen;
        const place = document.createElement('div');
        drawTree(place, tree, (tokens) => { chosen = tokens; });
        place.querySelectorAll('text')[4999].dispatchEvent(new MouseEvent('click'));
        return [chosen.length, chosen[4999], place.querySelector('title').textContent];
    """)
    assert tokens[:2] == [5000, "w4999\uffed"] and tokens[2].startswith("w0, probability 1.000")


def test_an_answer_to_another_text_is_pale(page, model):
    def is_busy():
        return page.one("#models").get_attribute("aria-busy") == "true"

    assert not is_busy()
    page.one("#prefix").send_keys("tablex")
    assert eventually(is_busy), page.one("#status").text
    assert page.one("#prefix").get_attribute("aria-invalid") == "true"
    page.one("#prefix").send_keys(page.keys.CONTROL + "a" + page.keys.BACKSPACE)
    assert eventually(lambda: not is_busy())
    assert page.one("#prefix").get_attribute("aria-invalid") == "false"
    page.run("""
        const answer = rnnsearch.sentences;
        rnnsearch.sentences = (text) => new Promise((done) => setTimeout(done, 1500, answer(text)));
    """)
    field = page.one("#sentence")
    field.send_keys(" key")
    assert eventually(is_busy) and page.one("#status").text == "translating …"
    assert eventually(lambda: not is_busy())
    page.shows(searched(model, f"{TEXT} key", 5)[0], model)
    page.run("arguments[0].value = 'red. '.repeat(500)", field)
    field.send_keys("x")
    assert len(field.get_property("value")) == 2000
    assert eventually(lambda: page.one("#status").text.endswith(", cut after 2000 letters"))


def test_the_matrix_is_saved_as_a_picture(browser, page, tmp_path):
    options = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Page.setDownloadBehavior", options)
    for kind, begins in {"png": b"\x89PNG", "svg": b"<svg"}.items():
        name = f"alignment-1.{kind}"
        next(one for one in page.all(".view button") if one.text == f"Save {kind.upper()}").click()
        assert eventually((tmp_path / name).exists)
        assert (tmp_path / name).read_bytes().startswith(begins)
        assert page.one("#status").text == f"{name} saved"


def test_a_link_is_copied(browser, page):
    permissions = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.execute_cdp_cmd("Browser.grantPermissions", permissions)
    page.one("#link").click()
    assert eventually(lambda: page.one("#status").text == "link copied")
    field = page.one("#prefix")
    field.send_keys(page.keys.CONTROL + "v")
    assert field.get_property("value") == page.run("return location.href")
    field.clear()


def test_it_needs_no_network_and_a_link_holds_the_sentence(page):
    no_network = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    page.browser.execute_cdp_cmd("Network.enable", {})
    page.browser.execute_cdp_cmd("Network.emulateNetworkConditions", no_network)
    page.one("#link").click()
    address = "#beam=5&text=" + TEXT.replace(" ", "+")
    assert eventually(lambda: page.run("return location.hash") == address)
    page.open("#beam=2&text=vast+key&step=0.2")
    assert eventually(lambda: "step 2 of 3" in page.one("#glass-name").text)
    page.run("location.hash = '#beam=2&text=vast+key'")  # without a step
    assert eventually(lambda: not page.one("#glass").is_displayed())
    assert page.run("return document.getElementById('sentence').value") == "vast key"
    assert page.one("#beam-value").text == "2"
    loaded = page.run("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert [name for name in loaded if not name.startswith(("blob:", "data:"))] == []
    refused = page.browser.execute_async_script(
        "const done = arguments[0]; fetch('http://localhost/').then(() => done(false),"
        " (error) => done(error.message))"
    )
    assert refused == "Failed to fetch"
    assert "Content Security Policy" in page.errors()[0]["message"]
    page.browser.execute_cdp_cmd("Network.disable", {})


def test_the_page_does_not_freeze_while_it_translates(page):
    long = " ".join([TEXT] * 12)
    gaps = """
        const done = arguments[1]; let last = performance.now(), worst = 0, runs = true;
        const watch = (now) => { worst = Math.max(worst, now - last); last = now;
          if (runs) requestAnimationFrame(watch); };
        requestAnimationFrame(watch);
        const start = performance.now();
        rnnsearch.translate(arguments[0], {beam: 12}).then(() => { runs = false;
          done([worst, performance.now() - start]); });"""
    page.browser.set_script_timeout(60)
    worst, took = page.browser.execute_async_script(gaps, long)
    assert worst < max(100, took / 2), (worst, took)


def test_look(page):
    page.one("#theme").click()
    dark = page.run("return document.documentElement.dataset.theme")
    page.one("#theme").click()
    assert {dark, page.run("return document.documentElement.dataset.theme")} == {"dark", "light"}
    size = page.one(".translation").size["height"]
    letters = page.all(".matrix .label")[0].size["height"]
    page.one("#large").click()
    assert page.one(".translation").size["height"] > size
    assert page.all(".matrix .label")[0].size["height"] > 1.2 * letters
    above = "return ['.translation', '#beam', '.matrix svg > rect'].map((one) => "
    above += "document.querySelector(one).getBoundingClientRect()).map(({top, width}) => "
    above += "({top, width}))"
    translation, beam, matrix = page.run(above)
    assert beam["top"] < translation["top"]
    assert matrix["width"] > 6 * 30  # cells are larger where there is room
    page.browser.set_window_size(500, 900)
    try:
        time.sleep(0.2)
        translation, beam, narrow = page.run(above)
        assert translation["top"] < beam["top"]
        assert narrow["width"] <= matrix["width"]
        width = "return [document.documentElement.scrollWidth, innerWidth]"
        wide, window = page.run(width)
        assert wide <= window  # wide parts scroll in boxes of their own
        page.run("scrollTo(0, document.body.scrollHeight)")
        edges = "const [line, status] = ['footer > :last-child', '#status'].map((one) => "
        edges += "document.querySelector(one).getBoundingClientRect());"
        end_of_page, status = page.run(edges + "return [line.bottom, status.top]")
        assert end_of_page <= status  # which is fixed to the window's lower edge
    finally:
        page.browser.set_window_size(1280, 1000)
