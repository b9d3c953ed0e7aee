"""Text comes back from its tokens as it was, whatever the script and the characters."""

import io

import numpy as np
import pytest
from commands import call
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt.learn_bpe import learn_bpe

from fairseq_rnnsearch.figures import Alignment
from fairseq_rnnsearch.text.plain_text import PlainText
from fairseq_rnnsearch.text.reversible import join, parts, shown, split

LINES = {
    "Ukrainian": "Моє ім'я — п'ять об'єктів.",
    "Dutch": "De foto's van 's avonds",
    "Catalan": "L'any, col·laborar i d'això",
    "Irish": "Tá an t-úll ann; b'fhéidir",
    "Turkish": "İstanbul'da Ali'nin evi",
    "Guarani": "Che róga, ñandutí ha g̃uarã",
    "Sinhala": "ශ්‍රී ලංකාව",
    "emoji": "ok 👩‍💻👍🏽 🇫🇷🇩🇪 ❤️!",
    "an address": "https://example.org/a?b=1&c=50%#d",
    "mail": "write to a.b+c@example.org, and/or call",
    "per cent": "50% of 1,000.5 at 12:30",
    "placeholders": "<NUM1> {name} <b>bold</b> $HOME %s",
    "quotes": "“He said: 'no'”, « oui », \"x\"",
    "combining marks": "o\u0303 e\u0301",
    "subword marks": "@@ a@@ b@@@ @",
    "the marks themselves": "￭ ％ffed ％ ￭a￭",
    "spaces": "  a  b\u00a0c\u2028\t",
    "one space": " ",
    "nothing": "",
}


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Ім'я: l'homme, 50%!", "Ім'￭ я ￭: l'￭ homme ￭, 50 ￭% ￭!"),
        ("(It costs 1,000.50...)", "(￭ It costs 1,000.50 ￭... ￭)"),
        ("of .5 or 1:30, x.5", "of .￭ 5 or 1:30 ￭, x ￭.￭ 5"),
        ("dogs' don’t", "dogs ￭' don’￭ t"),
        ("90％0061", "90 ￭％ff05￭ 0061"),
        ("🇫🇷🇩🇪!", "🇫🇷 ￭🇩🇪 ￭!"),
        ("👩‍💻👍🏽", "👩‍💻 ￭👍🏽"),
        ("a\u00a0b", "a ￭％00a0￭ b"),
    ],
)
def test_words_and_symbols(text, tokens):
    assert split(text) == tokens.split()


any_text = (
    st.text()
    | st.text(" '’@a1.,:-\u200d\u0301👩💻🏽￭％0\u00a0\u2028🇫(…é")
    | st.text(" 'aBßẞİıÉΣǅⅣ٣2.⇧⇪％￭@")
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(LINES.values())) | any_text)
def test_any_text_comes_back(text):
    tokens = split(text)
    assert join(tokens) == text
    assert " ".join(tokens).split() == tokens
    assert not any(token.endswith("@@") for token in tokens)


@pytest.mark.parametrize(
    ("token", "pieces"),
    [
        ("Saturn", "％⇧ saturn"),
        ("NASA", "％⇪ nasa"),
        ("McDonald's", "％⇧ mc ％⇧ donald's"),
        ("I", "％⇧ i"),
        ("L'￭", "％⇧ l'￭"),
        ("STRAßE", "％⇪ straße"),
        ("1,961", "1 , 9 6 1"),
        ("3D", "3 ％⇧ d"),
        ("İzmir", "İzmir"),  # its lower case has two characters
        ("￭％00a0￭", "￭％00a0￭"),
    ],
)
def test_case_and_digits_are_parts(token, pieces):
    assert parts(token) == pieces.split()
    assert shown("".join(pieces.split())) == token.strip("￭")


@pytest.fixture(scope="module", params=[False, True])
def subwords(request, tmp_path_factory):
    """Merges that were learned from the lines, so that they also cross the marks."""
    text, codes = "\n".join(" ".join(split(line)) for line in LINES.values()), io.StringIO()
    learn_bpe(io.StringIO(f"{text}\n{text}\n"), codes, 100)
    path = tmp_path_factory.mktemp("subwords") / "codes"
    path.write_text(codes.getvalue(), encoding="utf-8")
    return PlainText("en", "reversible", bpe_codes=path, case_and_digits=request.param)


@settings(max_examples=200, deadline=None)
@given(text=any_text)
def test_any_text_comes_back_from_subwords(subwords, text):
    pieces = subwords.tokens(text)
    assert subwords.text(pieces) == text
    assert " ".join(pieces).split() == pieces


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "b￭", "￭c", "￭", "￭d￭", "％00a0", "％zz", "％⇧", "％⇪￭", "％⇧￭a"])
    )
)
def test_a_model_may_write_any_tokens(tokens):
    assert isinstance(join(tokens), str)


def test_pictures_show_words_without_the_marks():
    weights = np.full((4, 4), 0.25)
    pieces = Alignment(("l'￭", "ho@@", "mme", "</s>"), ("th@@", "e@@", "￭.", "</s>"), weights)
    words = pieces.merge_pieces()
    assert words.source == ("l'", "homme", "</s>")
    assert words.target[-2:] == (words.target[0], "</s>")


def test_files_are_tokenised_and_come_back():
    text = "".join(f"{line}\n" for line in LINES.values())
    program = "fairseq_rnnsearch.commands.tokenizing", "--language", "en"
    there = call(*program, stdin=text).ok()
    assert call(*program, "--join", stdin=there.out).ok().out == text
