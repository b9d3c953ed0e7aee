"""What holds for any input, searched for counterexamples by hypothesis."""

import ast
import io
import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_rnnsearch.align.symmetrisation import METHODS, symmetrise
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import Alignment, read_alignments, write_gallery
from fairseq_rnnsearch.runs.options import read_value
from fairseq_rnnsearch.text.corpus import check_text, lines_as_they_come

# the same examples every time; the folder is written anew by each
settings.register_profile(
    "suite",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("suite")

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
links = st.frozensets(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=12)


@given(st.binary(max_size=80))
def test_lines_that_come_are_those_of_a_file(tmp_path, content):
    path = tmp_path / "text.en"
    path.write_bytes(content)

    def outcome(read):
        try:
            return read()
        except UserError as mistake:
            return str(mistake)

    def of_file():
        check_text(path)
        with path.open(encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file]

    found = outcome(
        lambda: [line.rstrip("\r\n") for line in lines_as_they_come(io.BytesIO(content), str(path))]
    )
    assert found == (outcome(of_file) if content else [])


@given(st.text(st.sampled_from("0123456789.,+-*()[]{}'\"abc_:= <>|%TrueNon"), max_size=30))
def test_a_string_is_a_value_or_refused(text):
    try:
        found = read_value(text)
    except UserError:
        return
    try:
        expected = ast.literal_eval(text.strip())
    except ValueError:  # sums and multiples of lists
        assert re.search(r"[+*]", text)
    else:
        assert repr(found) == repr(expected)


@given(links, links, st.sampled_from(sorted(METHODS)))
def test_joined_links_lie_between_intersection_and_union(forward, inverse, method):
    joined = symmetrise(forward, inverse, method)
    assert forward & inverse <= joined <= forward | inverse
    assert symmetrise(forward, forward, method) == forward


@given(st.lists(words, max_size=4), st.lists(words, max_size=4), st.integers(1, 99))
def test_alignments_are_read_back_and_no_word_becomes_markup(tmp_path, source, target, seed):
    draw = np.random.default_rng(seed)
    weights = draw.random((len(target), len(source))).round(6)
    made = Alignment([*source, "</script><script>"], [*target, "<img src=x onerror=y>"], np.pad(
        weights, ((0, 1), (0, 1))
    ), seed)  # fmt: skip
    write_gallery(tmp_path, [made], ("jsonl", "html"))
    (again,) = read_alignments(tmp_path / "alignments.jsonl").values()
    assert (again.source, again.target, again.id) == (made.source, made.target, made.id)
    assert np.array_equal(again.weights, made.weights)
    twice = 2 * (tmp_path / "alignments.jsonl").read_text(encoding="utf-8")
    (tmp_path / "twice.jsonl").write_text(twice, encoding="utf-8")
    with pytest.raises(UserError, match=f"line 2: found id {seed} a second time"):
        read_alignments(tmp_path / "twice.jsonl")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<script") == 2 and "<img" not in page
    data = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)[1]
    assert json.loads(data)["sentences"][0]["source"] == list(made.source)
