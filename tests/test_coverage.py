"""How much of a text a model knows: what is counted, when it is said, and what is suspected."""

import pytest

from fairseq_rnnsearch.data.coverage import ENOUGH, Coverage, Vocabulary, marked
from fairseq_rnnsearch.data.plain_text import PlainText

KNOWN = Vocabulary("en", {"a": 6, "b": 3, "c@@": 4, "d": 4})
OTHER = Vocabulary("fr", {"x": 1, "y": 1})


def said(caplog, *texts, source=KNOWN, target=OTHER):
    """Warnings about texts, each a list of source sentences or of pairs of sentences."""
    caplog.clear()
    coverage = Coverage(source, target)
    for sentences in texts:
        text = coverage.text()
        for pair in sentences:
            here, *there = pair if isinstance(pair, tuple) else (pair,)
            for sentence in there:
                text.add_target(target.tokens(sentence), sentence)
            text.add_source(source.tokens(here), here)
        text.end()
    return [record.getMessage() for record in caplog.records]


def test_words_are_pieces_put_together_and_unknown_if_one_piece_is(caplog):
    assert KNOWN.pieces_per_word == 17 / 13
    (message,) = said(caplog, ["a q c@@ d c@@ q"])  # a, q, cd, cq
    assert message == "50.0% of the 4 en words are unknown to the model (such as q, cq)"


@pytest.mark.parametrize(("unknown", "is_said"), [(5, False), (6, True)])
def test_more_than_five_in_a_hundred_words(caplog, unknown, is_said):
    names = " ".join(f"q{i}" for i in range(unknown))
    messages = said(caplog, [f"{names} {'a ' * (100 - unknown)}"])
    assert len(messages) == is_said
    assert not is_said or messages[0].endswith("(such as q0, q1, q2, q3, q4)")


@pytest.mark.parametrize(("pieces", "is_said"), [(2, False), (3, True)])
def test_more_than_twice_the_pieces_of_the_training(caplog, pieces, is_said):
    word = " ".join([*["c@@"] * (pieces - 1), "d"])
    messages = said(caplog, [word])
    assert len(messages) == is_said
    if is_said:
        assert messages[0].startswith("the 1 en words have 3.0 subword pieces each, and those of")
        assert messages[0].endswith("the training had 1.3 (such as ccd)")


def test_it_warns_once_and_of_the_first_text_that_is_bad(caplog):
    (message,) = said(caplog, ["a b"], ["a q"], ["z"])
    assert message.startswith("50.0% of the 2 ")
    assert said(caplog, [], [""], ["a"]) == []


def test_a_long_text_is_judged_before_its_end(caplog):
    text = Coverage(KNOWN, OTHER).text()
    for _ in range(ENOUGH - 1):
        text.add_source(["q"])
    assert not caplog.records
    text.add_source(["q"])
    assert [record.getMessage()[:6] for record in caplog.records] == ["100.0%"]


def test_swapped_languages_are_suspected_on_both_sides(caplog):
    (message,) = said(caplog, [("x y", "a b"), ("x", "a q")])
    source, target = message.split("; 1")
    assert "it looks like fr: are the languages swapped? (0.0% unknown)" in source
    assert "00.0% of the 4 fr words" in target and "looks like en" in target
    (message,) = said(caplog, ["q z"])  # neither language
    assert "looks like" not in message


def test_another_way_to_make_tokens_is_suspected(caplog):
    plain = PlainText("en")
    english = Vocabulary("en", {"the": 1, "cat": 1, ".": 1}, plain.tokens, plain.others)
    (message,) = said(caplog, ["The cat."], source=english)
    assert message.endswith("tokenizer moses and lower case would suit it better (0.0% unknown)")


def test_examples_are_short_and_cannot_write_to_a_terminal(caplog):
    (message,) = said(caplog, [f"{'q' * 99} \x1b[2J <unk>"])
    assert message.endswith(f"(such as {'q' * 29}…, ?[2J)")


def test_unknown_words_are_marked_as_a_whole():
    tokens = ["a", "q", "c@@", "q@@", "d", "<unk>", "c@@", "d", "z@@"]
    shown = ["a", "<unk:q>", "<unk:c@@", "q@@", "d>", "<unk>", "c@@", "d", "<unk:z>"]
    assert marked(tokens, KNOWN) == shown


# --- the quickstart's tokens ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("en", "Marie's cats don't sing, (today)?", "Marie 's cats don't sing , ( today ) ?"),
        ("fr", "Est-ce qu’il l'a vu aujourd'hui ?", "Est-ce qu' il l' a vu aujourd'hui ?"),
        ("fr", "L'île, d'abord (jusqu'ici).", "L' île , d' abord ( jusqu' ici ) ."),
    ],
)
def test_words_and_marks_of_plain_text_and_of_tokens(language, text, tokens):
    plain = PlainText(language, "words")
    assert plain.tokens(text) == tokens.split()
    assert plain.tokens(tokens) == tokens.split()
    assert plain.text(tokens.split()) == text.replace("’", "'")
