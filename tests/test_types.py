"""The Python API as checkers of types see it."""

import inspect
from typing import get_type_hints

import pytest

import fairseq_rnnsearch
from fairseq_rnnsearch import Translator
from fairseq_rnnsearch.arguments import ScoringOptions, SearchOptions


def test_the_public_names_are_listed():
    """As a notebook completes them, and help() shows them."""
    assert {"load", "Translator", "Translation", "UserError"} <= set(dir(fairseq_rnnsearch))
    assert issubclass(fairseq_rnnsearch.UserError, ValueError)


@pytest.mark.parametrize(
    ("method", "options"), [("translate", SearchOptions), ("align", ScoringOptions)]
)
def test_checkers_know_every_option(method, options):
    parameters = inspect.signature(getattr(Translator, method)).parameters.values()
    by_name = {one.name: one.annotation for one in parameters if one.kind is one.KEYWORD_ONLY}
    assert get_type_hints(options) == by_name
