"""How much of a text a model knows: what is counted, when it is said, and what is suspected."""

import pytest
from fairseq.data import Dictionary

from fairseq_rnnsearch.data.coverage import (
    ENOUGH,
    LONG,
    Count,
    CountedText,
    Vocabulary,
    marked,
    unknown_words,
    words_of,
)
from fairseq_rnnsearch.data.plain_text import PlainText

KNOWN = Vocabulary("en", {"a": 6, "b": 3, "c@@": 4, "d": 4})
OTHER = Vocabulary("fr", {"x": 1, "y": 1})


def said(caplog, *texts, source=KNOWN, target=OTHER):
    """Warnings about texts, each a list of source sentences or of pairs of sentences."""
    caplog.clear()
    for sentences in texts:
        text = CountedText(source, target)
        for pair in sentences:
            here, *there = pair if isinstance(pair, tuple) else (pair,)
            for sentence in there:
                text.add_target(target.tokens(sentence), sentence)
            text.add_source(source.tokens(here), here)
        text.end()
    return [record.getMessage() for record in caplog.records]


def test_words_are_pieces_put_together_and_unknown_if_one_piece_is(caplog):
    assert KNOWN.pieces_per_word == 17 / 13
    assert [Vocabulary("en", x).pieces_per_word for x in ({}, {"a@@": 2})] == [1, 1]  # no word
    (message,) = said(caplog, ["a q c@@ d c@@ q"])  # a, q, cd, cq
    assert message == (
        "probably a bad translation: 2 of 4 words (en) are unknown to the model: q, cq"
    )


@pytest.mark.parametrize(("unknown", "is_said"), [(4, False), (5, True), (6, True)])
def test_five_in_a_hundred_words_of_a_longer_text(caplog, unknown, is_said):
    names = " ".join(f"q{i}" for i in range(unknown))
    messages = said(caplog, [names, "a " * (100 - unknown)])
    assert len(messages) == is_said
    assert not is_said or messages[0].endswith("unknown to the model, such as q0, q1, q2, q3, q4")


def test_one_unknown_word_in_one_sentence(caplog):
    (message,) = said(caplog, [f"q {'a ' * 99}", ""])
    assert message.endswith("1 of 100 words (en) is unknown to the model: q")


@pytest.mark.parametrize(("pieces", "is_said"), [(2, False), (3, True), (4, True)])
def test_half_as_many_pieces_again_as_in_the_training(caplog, pieces, is_said):
    vocabulary = Vocabulary("en", {"c@@": 1, "d": 1})
    messages = said(caplog, [" ".join([*["c@@"] * (pieces - 1), "d"])], source=vocabulary)
    assert len(messages) == is_said
    if is_said:
        start = "probably a bad translation: the model has hardly seen such words: the 1 word (en)"
        split = f"split into {pieces}.0 subword pieces each, and those of the training into 2.0"
        assert messages == [f"{start} {split}: {'c' * (pieces - 1)}d"]


def test_unknown_words_matter_more_than_many_pieces(caplog):
    vocabulary = Vocabulary("en", {"c@@": 1, "d": 1})
    (message,) = said(caplog, ["c@@ c@@ c@@ q"], source=vocabulary)
    assert message.endswith("1 of 1 word (en) is unknown to the model: cccq")


def test_it_warns_once_for_each_text(caplog):
    first, second = said(caplog, ["a b"], ["a q", "q"], ["z"])
    assert "2 of 3 words (en) are " in first and "1 of 1 word (en) is " in second
    assert said(caplog, [], [""], ["a"]) == []


def test_a_long_text_is_judged_before_its_end(caplog):
    text = CountedText(KNOWN, OTHER)
    for _ in range(ENOUGH - 1):
        text.add_source(["q"])
    assert not caplog.records
    text.add_source(["q"])
    assert len(caplog.records) == 1
    text.add_source(["q"])
    text.end()
    assert len(caplog.records) == 1


def test_the_first_sentences_alone_are_kept():
    count = Count(KNOWN)
    for _ in range(ENOUGH + 9):
        count.add(["a"], "a")
    assert (count.words, len(count.sentences)) == (ENOUGH + 9, ENOUGH)


def test_a_line_of_several_sentences(caplog):
    known = Vocabulary("en", {"A": 1, "b.": 1})
    assert said(caplog, ["A b.", "A b. b."], source=known) == []
    assert said(caplog, [("A b. A b.", "x y")], source=known) == []  # to be aligned
    (message,) = said(caplog, ["A b. A b.", "A b.", "A A b. A"], source=known)
    assert message.startswith("several sentences in 2 lines, such as 'A b. A b.': ")


def test_a_very_long_sentence_is_named_before_it_is_translated(caplog):
    assert said(caplog, [("a " * (LONG + 1), "x")]) == []  # whose translation is given
    text = CountedText(KNOWN, OTHER)
    text.add_source(["a"] * LONG)
    assert not caplog.records
    for _ in range(2):
        text.add_source(["a"] * (LONG + 1))
    (record,) = caplog.records
    assert record.getMessage().startswith("a sentence of 501 tokens, 'a a a")


@pytest.mark.parametrize("given", ["co\u00adfine", "co\ufb01ne", "cofine\u0301"])
def test_words_that_are_known_in_another_form_of_unicode(caplog, given):
    known = Vocabulary("en", {"cofine": 1, "cofin\u00e9": 1})
    (message,) = said(caplog, [given], source=known)
    assert message.endswith("without soft hyphens would suit it better (0.0% unknown)")


def test_swapped_languages_are_suspected_on_both_sides(caplog):
    (message,) = said(caplog, [("x y", "a b"), ("x", "a q")])
    assert message.startswith("probably a bad alignment: ")
    source, target = message.split("; 4")
    assert "it looks like fr: are the languages swapped? (0.0% unknown)" in source
    assert " of 4 words (fr)" in target and "looks like en" in target
    (message,) = said(caplog, ["q z x"])  # neither language: one word is no sign
    assert "looks like" not in message


def test_another_way_to_make_tokens_is_suspected(caplog):
    dictionary = Dictionary()
    for word in ("the", "cat", "."):
        dictionary.add_symbol(word)
    english = words_of(dictionary, "en", PlainText("en"))
    assert english.counts == {"the": 1, "cat": 1, ".": 1}  # the symbols are no words
    (message,) = said(caplog, ["The cat."], source=english)
    assert message.endswith("tokenizer moses and lower case would suit it better (0.0% unknown)")


def test_examples_are_short_and_cannot_write_to_a_terminal(caplog):
    (message,) = said(caplog, [f"{'q' * 99} \x1b[2J <unk>"])
    assert message.endswith(f": {'q' * 29}…, \ufffd[2J, <unk>")


def test_unknown_words_of_binarised_text_have_no_name(caplog):
    text = CountedText(KNOWN, OTHER)
    text.add_source(["<unk>", "q"])
    text.end()
    assert caplog.messages[0].endswith("2 of 2 words (en) are unknown to the model: q")


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


# validation bits; a source, and the probabilities of its translation's tokens; whether it is said
SURE = {
    "surer than of people's": (2.0, "a b", [0.3, 0.3], False),
    "less sure": (2.0, "a b", [0.3, 0.1], True),
    "unknown words are said alone": (2.0, "a q", [0.1], False),
    "no validation": (None, "a b", [0.1], False),
    "a toy corpus, above 1/2": (0.1, "a b", [0.6, 0.6], False),
    "a toy corpus, below 1/2": (0.1, "a b", [0.4, 0.5], True),
    "nothing was found": (2.0, "a b", [0.0], False),
}


@pytest.mark.parametrize("case", SURE)
def test_a_model_that_is_unsure_of_what_it_writes(case, caplog):
    bits, source, probabilities, is_said = SURE[case]
    text = CountedText(KNOWN, OTHER, bits)
    text.add_source(source.split(), source)
    text.add_translation(probabilities)
    text.end()
    assert sum("unlike the training's" in one for one in caplog.messages) == is_said


def test_an_unsure_text_is_said_once_with_both_figures(caplog):
    text = CountedText(KNOWN, OTHER, 2.0)
    for _ in range(2 * ENOUGH):
        text.add_source(["a"], "a")
        text.add_translation([0.5, 0.02])
    (message,) = caplog.messages  # before the end
    text.end()
    assert caplog.messages == [message]
    assert "a probability of 0.100 a token" in message and "gave 0.250 to human" in message
