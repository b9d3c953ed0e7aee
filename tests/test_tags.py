"""Tags and placeholders of a line come back into its translation."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairseq_rnnsearch import load
from fairseq_rnnsearch.align.tags import Links, taken_out
from fairseq_rnnsearch.errors import UserError

TEXT = st.text("ab éX,.(!'&<> \t", max_size=6)
ESCAPED = TEXT.map(lambda text: text.replace("&", "&amp;").replace("<", "&lt;"))
ALONE = st.sampled_from(["<br/>", "{name}", "%s", "%1$d", "<x id='1>'/>", "<!-- no -->", "{{ a }}"])
TREE = st.recursive(
    ESCAPED | ALONE,
    lambda inner: st.builds(
        lambda name, parts: f"<{name}>{''.join(parts)}</{name.partition(' ')[0]}>",
        st.sampled_from(["b", 'g id="1"', "a", "b"]),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)
WORDS = st.lists(st.sampled_from(["un", "l'", "Mot", ",", "deux", "e-mail"]), max_size=8)


def _spans(text: str) -> np.ndarray:
    return np.array([match.span() for match in re.finditer(r"\S+", text)]).reshape(-1, 2)


def _back(line: str, translation: str, seed: int = 0) -> str:
    taken = taken_out(line)
    source, target = _spans(taken.text), _spans(translation)
    weights = np.random.default_rng(seed).random((len(target), len(source)))
    return taken.put_back(translation, Links(source, target, weights))


@settings(deadline=None)
@example(["&lt;", "<b><br/><b>&lt;&lt;</b></b>"], ["un", "un"], 1)
@given(st.lists(TREE, max_size=4), WORDS, st.integers(0, 9))
def test_well_formed_stays_well_formed(parts, words, seed):
    line, translation = "<br/>" + "".join(parts), " ".join(words)
    back = _back(line, translation, seed)
    before, after = (ElementTree.fromstring(f"<p>{text}</p>") for text in (line, back))

    def tags_of(tree):
        return sorted((one.tag, sorted(one.items())) for one in tree.iter())

    assert tags_of(before) == tags_of(after)
    for alone in ("{name}", "%s", "%1$d", "<!-- no -->", "{{ a }}"):
        assert back.count(alone) == line.count(alone)
    text = re.sub(r"\{name\}|%s|%1\$d|\{\{ a \}\}", "", "".join(after.itertext()))
    assert "".join(text.split()) == "".join(translation.split())


@settings(deadline=None)
@given(st.text("<>/ab{}%s&;\"'= ", max_size=30), WORDS)
def test_every_item_of_any_line_comes_back_once(line, words):
    items = [*taken_out(line).items]
    back = _back(line, " ".join(words))
    for part in (part for item in items for part in (item.before, item.after)):
        assert back.count(part) >= sum((part == i.before) + (part == i.after) for i in items)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("Click <b>Save</b>, {name}.", "Click Save,."),
        ("Hello {name}, you have %s new", "Hello, you have new"),
        ("line<br>next", "line next"),
        ("<p>All of <b>this</b>.</p>", "All of this."),
        ("a &amp; b &lt; <i>c</i>", "a & b < c"),
        ("a < b and 50% of c", "a < b and 50% of c"),
        ("<a>Menu</a><b>Item</b>", "Menu Item"),
    ],
)
def test_a_text_is_as_if_it_had_no_tags_and_unchanged_words_bring_them_back(line, text):
    taken = taken_out(line)
    assert taken.text == text
    characters = [(at, at + 1) for at in range(len(text))]
    back = taken.put_back(text, Links(characters, characters, np.eye(len(text))))
    assert back == line.replace("</a><b>", "</a> <b>")


def test_a_pair_goes_where_its_words_go():
    weights = [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]]
    line = taken_out('The <b>red <g id="1">car</g></b> sleeps')
    spans = _spans(line.text), _spans("La dort voiture rouge")
    back = line.put_back("La dort voiture rouge", Links(*spans, weights))
    assert back == 'La dort <b><g id="1">voiture</g> rouge</b>'


@pytest.fixture(scope="module")
def models():
    return load("en-fr"), load("fr-en")


def test_translations_of_lines_with_tags(models):
    model, inverse = models
    lines = [
        "The <b>red car</b> is <i>very fast</i>.",
        "He sleeps. <b>She</b> &amp; I read.",
        "Yes.",
    ]
    marked = model.translate(lines, markup=True, inverse=inverse)
    assert marked[0].markup == "La <b>voiture rouge</b> est <i>très rapide</i>."
    assert "<b>Elle</b>" in marked[1].markup and "<b>" not in marked[1].text
    plain = model.translate(["The red car is very fast.", "He sleeps. She & I read.", "Yes."])
    assert [one.text for one in marked] == [one.text for one in plain]
    assert marked[2].markup == plain[2].text and plain[2].markup is None


def test_alignments_of_lines_with_tags(models):
    model, _ = models
    source, target = (
        "The <b>red car</b> of {name} &amp; Tom",
        "La voiture rouge de {name} &amp; Tom",
    )
    aligned = model.align(source, target, markup=True)
    assert aligned.markup == target.replace("voiture rouge", "<b>voiture rouge</b>")


def test_tokens_that_are_not_in_the_line(models):
    model, _ = models
    model.target_text.line = lambda *_: None  # as Moses' tokens have none
    with pytest.raises(UserError):
        model.translate("The <b>red car</b>", markup=True)
