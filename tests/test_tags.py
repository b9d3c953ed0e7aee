"""Tags and placeholders of a line come back; `test_living.py` holds the page to the same table."""

import json
import re
from pathlib import Path
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


TABLE = json.loads(Path(__file__).with_name("tags.json").read_text("utf-8"))


def _spans(text: str) -> np.ndarray:
    return np.array([one.span() for one in re.finditer(r"\w+|[^\w\s]", text)]).reshape(-1, 2)


def linked(text: str, translation: str, links: str | int) -> Links:
    """The links ``0-0 1-2``, or at random by a seed."""
    source, target = _spans(text), _spans(translation)
    if isinstance(links, str):
        words = range(len(source))
        weights = [[f"{j}-{i}" in links.split() for j in words] for i in range(len(target))]
    else:
        weights = np.random.default_rng(links).random((len(target), len(source)))
    return Links(source, target, np.array(weights, float).reshape(len(target), len(source)))


def _back(line: str, translation: str, seed: int = 0) -> str:
    taken = taken_out(line)
    return taken.put_back(translation, linked(taken.text, translation, seed))


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


@pytest.mark.parametrize("case", TABLE["cases"], ids=str)
def test_tags_are_taken_out_and_come_back_around_the_words_that_theirs_became(case):
    line, text, translation, links, back = case
    taken = taken_out(line)
    assert taken.text == text
    assert taken.put_back(translation, linked(text, translation, links)) == back


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
