"""Precision, recall and AER by hand and by other programs; symmetrisation; what files may hold."""

import math
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest

from fairseq_rnnsearch.align.alignment_error_rate import (
    NO_LINKS,
    Counts,
    bootstrap_interval,
    count_links,
    total,
)
from fairseq_rnnsearch.align.links import SentenceLinks, read_links
from fairseq_rnnsearch.align.symmetrisation import symmetrise
from fairseq_rnnsearch.commands.evaluate import main
from fairseq_rnnsearch.errors import UserError


def links(text):
    """Return the pairs of `0-0 2-1`."""
    return frozenset((int(i), int(j)) for i, j in (link.split("-") for link in text.split()))


def gold(sure, possible=""):
    return SentenceLinks(links(sure), links(sure) | links(possible))


@pytest.fixture
def write(tmp_path):
    """Return a function that makes a file with a text and returns its path."""

    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


@pytest.fixture(scope="session")
def hansards():
    """Return the folder of the NAACL 2003 gold alignments.

    It is below RNNSEARCH_SHARED or beside the checkout.
    """
    named = os.environ.get("RNNSEARCH_SHARED")
    shared = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    directory = shared / "data" / "hansards"
    if not directory.is_dir():
        if named:
            pytest.fail(f"RNNSEARCH_SHARED={named!r}: there is no directory {directory}")
        pytest.skip(f"the gold alignments are not here: no {directory} (set RNNSEARCH_SHARED)")
    return directory


def run(capsys, *arguments):
    """Return the rows that a command prints: first word to the rest."""
    main([str(argument) for argument in arguments])
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    return {row[0]: row[1] for row in rows}


# --- the measures ---------------------------------------------------------------------------------

ONE_SENTENCE = {
    # sure, possible besides, hypothesis: precision, recall, AER, by hand
    "all right": ("0-0 1-1", "", "0-0 1-1", 1, 1, 0),
    "all wrong": ("0-0 1-1", "", "0-1 1-0", 0, 0, 1),
    "possible links cost nothing": ("0-0", "0-1 1-0", "0-0 0-1", 1, 1, 0),
    "possible links alone": ("0-0", "0-1", "0-1", 1, 0, 1 - 1 / 2),
    "one of each": ("0-0 1-1", "2-1", "0-0 2-1 2-2", 2 / 3, 1 / 2, 1 - 3 / 5),
    "one missing": ("0-0 1-1 2-2", "", "0-0 1-1", 1, 2 / 3, 1 - 4 / 5),
    "one too many": ("0-0", "", "0-0 1-1", 1 / 2, 1, 1 - 2 / 3),
    "no hypothesis": ("0-0", "", "", math.nan, 0, 1),
    "nothing sure": ("", "0-0 0-1", "0-0 1-1", 1 / 2, math.nan, 1 - 1 / 2),
    "nothing at all": ("", "", "", math.nan, math.nan, math.nan),
}


@pytest.mark.parametrize("case", ONE_SENTENCE)
def test_one_sentence(case):
    sure, possible, hypothesis, *expected = ONE_SENTENCE[case]
    score = total(count_links([gold(sure, possible)], [links(hypothesis)]))
    found = [score.precision, score.recall, score.aer]
    assert found == pytest.approx(expected, nan_ok=True, abs=1e-15)


def test_other_programs_give_the_same_on_the_hansards(hansards, write, capsys):
    """Pinned from the workshop's wa_eval_align.pl, printed to six digits; NLTK 3.10.4 agrees.

    The hypothesis joins target word j of n to source word j * m // n of m.
    """
    lines = []
    for pair in (hansards / "enfr.src-tgt").read_text(encoding="utf-8").splitlines():
        m, n = (len(side.split()) for side in pair.split("|||"))
        lines.append(" ".join(f"{j * m // n}-{j}" for j in range(n)) + "\n")
    files = "--gold", hansards / "enfr.gold", "--hypothesis", write("diagonal", "".join(lines))
    rows = run(capsys, "aer", *files)
    assert rows["precision"] == "46.04% (3573 of 7761 links are possible)"
    assert rows["recall"] == "36.13% (1459 of 4038 sure links are found)"
    assert rows["AER"] == "57.35% (1 - (1459 + 3573) / (7761 + 4038))"
    score = Counts(7761, 4038, 17438, 1459, 3573)
    six_digits = f"{score.precision:.6f} {score.recall:.6f} {score.aer:.6f}"
    assert six_digits == "0.460379 0.361317 0.573523"


# --- the interval ---------------------------------------------------------------------------------


def some_counts(sentences):
    generator = random.Random(0)
    counts = []
    for _ in range(sentences):
        sure, possible, links = (generator.randint(1, 20) for _ in range(3))
        found = generator.randint(0, min(links, sure))
        allowed = min(links, found + generator.randint(0, possible))
        counts.append(Counts(links, sure, sure + possible, found, allowed))
    return counts


def test_interval_is_that_of_a_bootstrap_in_plain_loops():
    counts = some_counts(60)
    generator = random.Random(5)
    rates = []
    for _ in range(4000):
        drawn = [generator.choice(counts) for _ in counts]
        matches = sum(c.hypothesis_sure + c.hypothesis_possible for c in drawn)
        rates.append(1 - matches / sum(c.hypothesis + c.sure for c in drawn))
    expected = np.percentile(rates, [2.5, 97.5])
    assert expected[1] - expected[0] > 0.05  # the tolerance below is a small part of it
    assert bootstrap_interval(counts, 4000, seed=1) == pytest.approx(expected, abs=0.004)


def test_sentences_without_links_widen_the_interval():
    counts = some_counts(10)
    low, high = bootstrap_interval(counts, 2000, seed=1)
    padded = bootstrap_interval([*10 * [NO_LINKS], *counts, *10 * [NO_LINKS]], 2000, seed=1)
    assert padded[0] < low and high < padded[1]


# --- symmetrisation -------------------------------------------------------------------------------

SYMMETRISED = {
    # method, forward, inverse, joined, by hand
    "intersection": ("intersection", "0-0 1-1 2-1", "0-0 1-2 2-1", "0-0 2-1"),
    "union": ("union", "0-0 1-1", "0-0 1-2", "0-0 1-1 1-2"),
    "both empty": ("grow-diag-final-and", "", "", ""),
    "one empty: nothing grown, only finished": (
        "grow-diag-final-and",
        "0-0 0-1 1-2",
        "",
        "0-0 1-2",
    ),
    "no link far from the intersection": ("grow-diag-final-and", "0-0 0-5", "0-0", "0-0"),
    # The shortest of 20,000 random pairs for each point in which an implementation may go astray,
    # with what printgrow of Moses' symal.cpp (commit 14d2a671) gave for it.
    "diagonal neighbours too": ("grow-diag-final-and", "0-1", "0-1 1-0 2-1", "1-0 0-1 2-1"),
    "target words outermost; links added ahead belong to the scan": (
        *("grow-diag-final-and", "0-0 2-1 1-2 0-3", "1-0 2-1", "1-0 2-1 1-2 0-3"),
    ),
    "one of two may have links when growing": ("grow-diag-final-and", "0-0 0-1", "0-1", "0-0 0-1"),
    "grow-diag leaves words without links": ("grow-diag", "2-0 0-1", "0-0 0-1", "0-0 0-1"),
    "neither may in the end; forward is first": ("grow-diag-final-and", "2-0", "0-0", "2-0"),
    "until nothing is added": ("grow-diag-final-and", "2-0", "0-0 1-0 2-0", "0-0 1-0 2-0"),
    "order of the neighbours": ("grow-diag-final-and", "0-0 0-1", "0-0 1-1", "0-0 0-1 1-1"),
}


@pytest.mark.parametrize("case", SYMMETRISED)
def test_symmetrisation(case):
    method, forward, inverse, joined = SYMMETRISED[case]
    assert symmetrise(links(forward), links(inverse), method) == links(joined)


# --- files ----------------------------------------------------------------------------------------

SAME_LINKS = {
    # all say: 0-0 and 1-2 sure, 2-1 possible; a sentence without links; 0-1 sure
    "talp": ("1-1 3p2 2-3\n\n1-2\n", {}),
    "talp with a byte order mark": ("\ufeff1-1 3p2 2-3\n\n1-2\n", {}),
    "talp, a link twice and both sure and possible": ("1p1 1-1 3p2 3p2 2-3\n\n1-2\n", {}),
    "talp from 0": ("0-0 2p1 1-2\n\n0-1\n", {"first_word": 0}),
    "naacl": ("1 1 1\n1 3 2 P\n1 2 3 S\n3 1 2\n", {}),
    "naacl with zeros, tabs, confidence": (
        "0001\t1\t1\tS\t1\n0001 3 2 P 0.25\n0003 1 2 .5\n\n0001 2 3 1e-3\n",
        {},
    ),
    "naacl with null links": ("1 1 1\n1 3 2 P\n1 2 3 S\n2 0 1\n2 1 0 P\n3 1 2 S\n3 0 1 P\n", {}),
}


@pytest.mark.parametrize("case", SAME_LINKS)
def test_formats_say_the_same(write, case):
    text, options = SAME_LINKS[case]
    file = read_links(write("links", text), **options)
    assert list(file.sentences) == [gold("0-0 1-2", "2-1"), gold(""), gold("0-1")]
    assert file.null_links == text.count(" 0 ")
    assert file.format == ("talp" if "-" in text.split()[0] or "p" in text.split()[0] else "naacl")


def test_pharaoh_counts_from_0_and_all_links_are_sure(write):
    path = write("links", "0-0 1-2\n\n3-1\n")
    assert list(read_links(path).sentences) == [gold("0-0 1-2"), gold(""), gold("3-1")]
    assert read_links(path).format == "pharaoh"
    path = write("links", "1-1 2-3\n\n4-2\n")
    for options in ({"first_word": 1}, {"format": "talp"}):
        assert list(read_links(path, **options).sentences) == [
            gold("0-0 1-2"),
            gold(""),
            gold("3-1"),
        ]


MALFORMED = {
    # text, options, what is named after the path
    "possible link in pharaoh": ("0-0\n1p1\n", {"format": "pharaoh"}, ", line 2: .*'1p1'.*talp"),
    "sentence 0": ("1 1 1\n0 1 1\n", {}, ", line 2: .*'0 1 1'"),
    "negative": ("2--1\n", {}, ", line 1: .*'2--1'"),
    "zero in a file from 1": ("1-1\n2p2 0-3\n", {}, ", line 2: .*'0-3'.*--zero-based"),
    "naacl from 0": ("1 1 1\n", {"first_word": 0}, " is a naacl file"),
    "two numbers in naacl": ("1 1 1\n1 2\n", {}, ", line 2: .*'1 2'"),
    "no confidence": ("1 1 1 S 1x\n", {}, ", line 1: .*'1 1 1 S 1x'"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_links(write, case):
    text, options, message = MALFORMED[case]
    with pytest.raises(UserError, match=f"links{message}"):
        read_links(write("links", text), **options)


# --- the commands ---------------------------------------------------------------------------------

GOLD = "1-1 2p1 2-2\n1-1\n\n"  # sure 0-0 1-1, possible 1-0; sure 0-0; nothing


@pytest.mark.parametrize(
    ("options", "hypothesis", "inverse"),
    [
        ("", "0-0 1-0 0-1\n0-1\n\n", None),
        ("--reverse hypothesis", "0-0 0-1 1-0\n1-0\n\n", None),
        ("--one-based hypothesis", "1-1 2-1 1-2\n1-2\n\n", None),
        ("--hypothesis-format talp", "1-1 2-1 1-2\n1-2\n\n", None),
        ("", "1 1 1\n1 2 1 P\n1 1 2\n2 1 2\n", None),
        ("--symmetrise intersection", "0-0 1-0 0-1\n0-1 0-2\n\n", "0-0 1-0 0-1 1-1\n0-1\n0-0\n"),
        ("--symmetrise union", "0-0 1-0\n\n\n", "0-0 0-1\n0-1\n\n"),
        ("--symmetrise union --reverse inverse", "0-0 1-0\n\n\n", "0-0 1-0\n1-0\n\n"),
        ("--symmetrise union --one-based inverse", "0-0 1-0\n\n\n", "1-1 1-2\n1-2\n\n"),
        ("--symmetrise union --hypothesis-format talp", "1-1 2-1\n\n\n", "1-1 1-2\n1-2\n\n"),
        # in the second sentence the link of the forward direction goes first
        ("--symmetrise grow-diag-final-and", "0-0 1-0 0-1\n0-1\n\n", "0-0 1-0 0-1\n0-0\n\n"),
    ],
)
def test_aer_command(write, capsys, options, hypothesis, inverse):
    """In each case A = 0-0 1-0 0-1; 0-1; nothing: 2 of 4 possible, 1 of 3 sure."""
    arguments = [*options.split()]
    if inverse is not None:
        arguments += ["--hypothesis-inverse", write("inverse", inverse)]
    files = "--gold", write("gold", GOLD), "--hypothesis", write("hypothesis", hypothesis)
    rows = run(capsys, "aer", *files, *arguments)
    assert rows["sentences"] == "3, 1 of them without gold links"
    assert rows["gold"] == "links   3 sure, 4 possible (the sure included)"
    assert rows["precision"] == "50.00% (2 of 4 links are possible)"
    assert rows["recall"] == "33.33% (1 of 3 sure links are found)"
    assert rows["AER"] == "57.14% (1 - (1 + 2) / (4 + 3))"


def test_aer_says_how_sure_it_is(write, capsys):
    gold, hypothesis = write("gold", "1 1 1\n1 0 2 P\n2 1 1 P\n2 2 2\n"), write("h", "0-0\n0-1\n")
    files = "--gold", gold, "--hypothesis", hypothesis
    main(list(map(str, ["aer", *files, "--bootstrap", 500, "--seed", 3])))
    # one sentence has AER 0, the other 1: so have their resamples, each in a quarter of the cases
    assert "\n95% interval 0.00% to 100.00% of AER (500 resamples" in capsys.readouterr().out


AER = "aer --gold=gold --hypothesis=given"
UNION = "symmetrise --forward=forward --inverse=given --method=union"


@pytest.mark.parametrize(
    ("command", "text", "noted"),
    [
        # it seems to count from 1
        (AER, "1-1\n1-2\n\n", "--one-based hypothesis"),
        (f"{AER} --one-based hypothesis", "1-1\n1-2\n\n", None),
        (AER, "1-1\n0-2\n\n", None),
        # it seems to have the target first
        (UNION, "2-1 0-0\n", "given: 2 of its links .* --reverse inverse"),
        (f"{UNION} --reverse inverse", "2-1 0-0\n", None),
        (UNION, "2-1 0-1 1-2\n", None),
    ],
)
def test_a_file_that_seems_to_be_of_another_kind_is_noted(
    write, capsys, monkeypatch, tmp_path, command, text, noted
):
    for name, content in {"gold": GOLD, "forward": "0-0 1-2\n", "given": text}.items():
        write(name, content)
    monkeypatch.chdir(tmp_path)
    main(command.split())
    said = capsys.readouterr().err
    assert re.search(noted, said) if noted else not said


def test_symmetrise_command_writes_what_symal_writes(write, capsys):
    """Target word by target word, an empty line for a sentence without links."""
    forward = write("forward", "0-0 2-1 1-2 0-3\n\n2-0\n")
    inverse = write("inverse", "0-1 1-2\n\n0-0\n")  # from the other model: its source first
    options = "--reverse inverse --method grow-diag-final-and".split()
    main(["symmetrise", "--forward", str(forward), "--inverse", str(inverse), *options])
    assert capsys.readouterr().out == "1-0 2-1 1-2 0-3\n\n2-0\n"
