"""Reasons to doubt a translation; `test_living.py` holds the page to the same table."""

import json
from pathlib import Path

import pytest

from fairseq_rnnsearch import load
from fairseq_rnnsearch.commands.doubt import REASONS, Limits, doubt_of, doubted_lines

TABLE = json.loads(Path(__file__).with_name("doubt.json").read_text("utf-8"))


@pytest.mark.parametrize("case", TABLE["cases"], ids=str)
def test_the_first_reason_is_given(case):
    *given, reason = case
    assert doubt_of(*given, Limits(*TABLE["limits"])) == reason


def test_a_text_has_one_line_for_its_doubts():
    line = doubted_lines({number: REASONS[number > 3] for number in range(1, 1205)}, 20_000)
    parts = ("1,204 of 20,000 ", " 1, 2, 3, 4, 5 ", " 1,199 ", "(1,201)", "(3)", *REASONS[:2])
    assert [part for part in parts if part not in line] == []


def test_models_of_single_sentences_split_lines_and_doubt_each_sentence():
    model = load("en-fr")
    assert model.doubt_limits.shortest > Limits().shortest  # French has more pieces
    model.doubt_limits = Limits(least_bits=0)
    found = model.translate(["I lost my keys. I lost 12 keys.", "I lost my keys."])
    assert found[0].score != model.translate(found[0].source, split_sentences=False).score
    assert [one.to_dict()["doubt"] for one in found] == [REASONS[-1]] * 2
    texts = [one.text for one in found[0].nbest]
    assert texts[0] == found[0].text and len({*texts}) == len(texts) > 2
