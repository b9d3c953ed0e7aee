"""Unknown words: what is counted, and how it is said."""

import pytest
from fairseq.data import Dictionary

from fairseq_rnnsearch.text.coverage import (
    Vocabulary,
    WordCount,
    language_name,
    marked,
    unknown_words,
    words_of,
)
from fairseq_rnnsearch.text.plain_text import PlainText

KNOWN = Vocabulary("en", frozenset(("a", "b", "c@@", "d")))


def said(caplog, *sentences):
    """The warning about a text's sentences."""
    caplog.clear()
    count = WordCount(KNOWN)
    for sentence in sentences:
        count.add(sentence.split())
    count.warn()
    return caplog.messages


def test_words_are_pieces_put_together_and_unknown_if_one_piece_is(caplog):
    messages = said(caplog, "a q c@@ d c@@ q", "q")  # a, q, cd, cq; q
    assert messages == ["3 of 5 English words are unknown: q, cq"]
    assert said(caplog, "q") == ["1 of 1 English word is unknown: q"]
    assert said(caplog, "a", "") == said(caplog) == []


def test_examples_are_few_and_short_and_cannot_write_to_a_terminal(caplog):
    (message,) = said(caplog, f"{'q' * 99} \x1b[2J", " ".join(f"q{i}" for i in range(98)))
    assert message.startswith("100 of 100 ") and message.endswith("…, \ufffd[2J, q0, q1, q2")


def test_fairseq_s_symbols_are_no_words():
    dictionary = Dictionary()
    dictionary.add_symbol("the")
    assert words_of(dictionary, "fr") == Vocabulary("fr", frozenset({"the"}))
    assert (language_name("fr"), language_name("xx")) == ("French", "xx")


def test_unknown_words_are_marked_as_a_whole():
    tokens = ["a", "q", "c@@", "q@@", "d", "<unk>", "c@@", "d", "z@@"]
    shown = ["a", "<unk:q>", "<unk:c@@", "q@@", "d>", "<unk>", "c@@", "d", "<unk:z>"]
    assert marked(tokens, KNOWN) == shown
    assert unknown_words(["q", *tokens], KNOWN) == ("q", "cqd", "<unk>", "z")


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
