"""BLEU and chrF are those of sacreBLEU's paired resampling, and fall into bins of lengths."""

import random

import numpy as np
import pytest
from reporting.lengths import by_length, curves
from reporting.scores import TOKENISERS, Bootstrap, compare
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from fairseq_rnnsearch.errors import UserError

RESAMPLES = 300


def noisy(sentences, dropped, seed):
    draw = random.Random(seed)
    return [" ".join(w for w in s.split() if draw.random() >= dropped) for s in sentences]


@pytest.fixture(scope="module")
def references():
    words = "le la un deux maison, rouge (vert) chat. chien l'eau 3,5 a-t-il « oui » C'est".split()
    draw = random.Random(7)
    return [" ".join(draw.choices(words, k=draw.randint(1, 40))) for _ in range(150)]


@pytest.fixture(scope="module")
def systems(references):
    drops = {"one": (0.2, 1), "two": (0.22, 2), "three": (0.5, 3), "the same": (0.2, 1)}
    return {name: noisy(references, *drop) for name, drop in drops.items()}


# --- scores -------------------------------------------------------------------------------------


THEIRS = {
    "BLEU": lambda kind: BLEU(tokenize=TOKENISERS[kind], force=True),
    "chrF": lambda kind: CHRF(),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [*(("BLEU", kind) for kind in TOKENISERS), ("chrF", "tokens")],
)
def test_paired_bootstrap_is_sacrebleu(references, systems, name, kind):
    """The seed is that of ``sacrebleu --paired-bs``, which is this test as a command."""
    signatures, results = PairedTest(
        list(systems.items()),
        {name: THEIRS[name](kind)},
        [references],
        test_type="bs",
        n_samples=RESAMPLES,
    )()
    ((scored, signature),) = signatures.items()  # sacreBLEU's name for chrF is chrF2
    found = compare(systems, [references], Bootstrap(RESAMPLES, "one"), name, kind)
    assert found.signature == f"{scored}|{signature}"
    for system, theirs in zip(systems, results[scored], strict=True):
        ours = found.scores[system]
        assert ours.value == pytest.approx(theirs.score)
        if system != "the same":  # for sacreBLEU it is the least alike of all
            assert ours.p_value == theirs.p_value
        half = (ours.interval[1] - ours.interval[0]) / 2
        assert half == pytest.approx(theirs.ci, abs=0.15)
        assert half > 0.5
    baseline, same = found.scores["one"], found.scores["the same"]
    assert baseline.difference is None and baseline.p_value is None
    assert (same.difference, same.p_value) == (0, 1)
    assert found.scores["three"].difference < 0


def test_systems_that_are_nearly_equal_are_no_surer_to_differ(references):
    """One sentence of 150 differs: most resamples hold it never, once or twice."""
    systems = {"one": references, "two": [*references[:-1], "x y z w"]}
    found = compare(systems, [references], Bootstrap(RESAMPLES, "one"))
    assert found.scores["two"].difference < 0 and found.scores["two"].p_value > 0.05


# --- lengths ------------------------------------------------------------------------------------


def test_bins_without_sentences():
    same = ["a b c d"] * 3
    bins = by_length({"one": same}, [same], np.array([4, 4, 25]), 10, 60, Bootstrap(20))
    assert [bin.sentences for bin in bins] == [2, 0, 1]  # none beyond the longest sentence
    assert bins[1].scores == {}
    assert curves(bins, ["one"], 2) == ([4.0], {"one": [pytest.approx(100)]}, [2])
    with pytest.raises(UserError, match="no bin has 3 sentences or more; --fewest"):
        curves(bins, ["one"], 3)
