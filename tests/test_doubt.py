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
    doubts = {number: REASONS[number > 3] for number in range(1, 1205)}
    line = doubted_lines(doubts, 20_000)
    for part in ("1,204 of 20,000 ", " 1, 2, 3, 4, 5 ", " 1,199 ", "(1,201)", "(3)", *REASONS[:2]):
        assert part in line


def test_limits_are_those_of_the_model():
    model = load("en-fr")
    assert model.doubt_limits.shortest > Limits().shortest  # French has more pieces
    model.doubt_limits = Limits(least_bits=0)
    sure, several = model.translate(["I lost my keys.", "I lost my keys. I lost 12 keys."])
    assert sure.doubt == several.doubt == several.to_dict()["doubt"] == REASONS[-1]
    assert model.align("I lost my keys.", "").doubt is None


def test_models_of_single_sentences_split_lines():
    model = load("en-fr")
    line = "I lost my keys. Where are you?"
    split, whole = (model.translate(line, split_sentences=how) for how in (True, False))
    assert model.translate(line).score == split.score != whole.score
    texts = [one.text for one in split.nbest]
    assert texts[0] == split.text and len({*texts}) == len(texts) > 2
