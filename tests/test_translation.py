"""fairseq-generate and fairseq-interactive with their options."""

import re

import numpy as np
import pytest
import torch
from commands import sides
from in_process import fairseq, generate, interactive

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.runs.programs import in_printed_words, read_checked


def weights(finished):
    """For each sentence the soft alignments of its hypotheses, (target, source).

    fairseq-interactive prints the number of each row behind it.
    """
    return {
        number: [
            np.array([[float(p) for p in row.split("-")[0].split(",")] for row in line.split(" ")])
            for line in lines
        ]
        for number, lines in finished.lines("A").items()
    }


def pairs(finished):
    """For each sentence its hypotheses' (source, target) positions."""
    return {
        number: [[tuple(map(int, pair.split("-"))) for pair in line.split()] for line in lines]
        for number, lines in finished.lines("A").items()
    }


def scores(finished):
    return {n: [float(h.split("\t")[0]) for h in lines] for n, lines in finished.lines("H").items()}


BEST = "--beam 3 --nbest 2 --print-alignment"


@pytest.fixture(scope="module")
def soft(learned):
    """Two translations of each sentence alone, with their soft alignments."""
    return generate(learned.corpus.data, learned.checkpoint, f"{BEST} soft --batch-size 1")


@pytest.mark.parametrize("batch", ["--batch-size 16", "--batch-size 16 --left-pad-source"])
def test_alignments_do_not_depend_on_what_a_sentence_is_batched_with(batch, learned, soft):
    finished = generate(learned.corpus.data, learned.checkpoint, f"{BEST} soft {batch}")
    assert finished.hypotheses() == soft.hypotheses()
    alone, batched = weights(soft), weights(finished)
    assert batched.keys() == alone.keys()
    for number, both in alone.items():
        for one, other in zip(both, batched[number], strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)


def test_soft_alignments_are_rows_of_weights_and_the_hard_ones_their_largest(learned, soft):
    hard = pairs(generate(learned.corpus.data, learned.checkpoint, f"{BEST} hard --batch-size 16"))
    for number, (source, _) in enumerate(sides(learned.corpus.text, "test")):
        for k, hypothesis in enumerate(soft.hypotheses()[number]):
            alpha = weights(soft)[number][k]
            assert alpha.shape == (len(hypothesis.split()) + 1, len(source) + 1)
            np.testing.assert_allclose(alpha.sum(axis=1), 1, atol=1e-4)
            assert len(hard[number][k]) == len(hypothesis.split())
            for position, target in hard[number][k]:
                assert alpha[target, position] >= alpha[target, :-1].max() - 1e-6


@pytest.mark.parametrize(
    ("option", "source", "target", "expected"),
    [
        ("@@ ", "a@@ b c", "x@@ y@@ z", [[0.5, 0.5]]),
        ("sentencepiece", "▁a b ▁c", "▁x y z", [[0.5, 0.5]]),
        (None, "a@@ b c", "x@@ y@@ z", [[0.3, 0, 0.7], [0, 0.5, 0.5], [0.2, 0.5, 0.3]]),
    ],
)
def test_printed_links_count_the_printed_words(option, source, target, expected):
    weights = torch.tensor([[0.3, 0, 0.7, 0], [0, 0.5, 0.5, 0], [0.2, 0.5, 0.3, 0], [0, 0, 0, 1]])
    sides = [(side.split(), option) for side in (source, target)]
    torch.testing.assert_close(in_printed_words(weights, sides)[:-1, :-1], torch.tensor(expected))


def test_references_are_scored_with_soft_alignments(learned, soft):
    options = "--score-reference --print-alignment soft"
    forced = generate(learned.corpus.data, learned.checkpoint, options)
    compared = 0
    for number, (source, target) in enumerate(sides(learned.corpus.text, "test")):
        assert forced.hypotheses()[number] == [" ".join(target)]
        assert weights(forced)[number][0].shape == (len(target) + 1, len(source) + 1)
        of_words = [float(score) for score in forced.lines("P")[number][0].split()]
        assert scores(forced)[number][0] == pytest.approx(np.mean(of_words), abs=1e-4)
        if soft.hypotheses()[number][0] == forced.hypotheses()[number][0]:
            compared += 1
            assert scores(soft)[number][0] == pytest.approx(scores(forced)[number][0], abs=1e-4)
    assert compared > 30


# --- beams and ensembles ----------------------------------------------------------------------


def test_ensembles_and_n_best(learned, soft):
    last, data = learned.checkpoint, learned.corpus.data
    earlier = sorted(learned.folder.glob("checkpoint[0-9]*.pt"))[0]
    twice, two = (
        generate(data, f"{last}:{path}", "--beam 3 --nbest 2") for path in (last, earlier)
    )
    for finished in (soft, twice, two):
        for number, found in scores(finished).items():
            assert len(found) == 2 and found == sorted(found, reverse=True)
            assert len(set(finished.hypotheses()[number])) == 2
    assert twice.hypotheses() == soft.hypotheses()
    assert scores(two) != scores(soft)
    assert scores(twice) == {n: pytest.approx(s, abs=1e-4) for n, s in scores(soft).items()}


def test_a_prefix_is_kept(learned):
    finished = generate(learned.corpus.data, learned.checkpoint, "--prefix-size 2 --beam 2")
    for number, (_, target) in enumerate(sides(learned.corpus.text, "test")):
        assert finished.hypotheses()[number][0].split()[:2] == target[:2]


def test_the_authors_search_does_not_depend_on_the_batch(learned_shortlist):
    options = "--authors-search --unnormalized --forbid-unk --beam 6 --nbest 4 --batch-size"
    corpus, checkpoint = learned_shortlist.corpus, learned_shortlist.checkpoint
    alone, batched = (
        generate(corpus.data, checkpoint, f"{options} {batch}")
        for batch in ("1", "16 --left-pad-source")
    )
    assert sorted(alone.hypotheses()) == list(range(60))
    assert batched.hypotheses() == alone.hypotheses()
    for number, (source, _) in enumerate(sides(corpus.text, "test")):
        assert scores(batched)[number] == pytest.approx(scores(alone)[number], abs=1e-4)
        for hypothesis in alone.hypotheses()[number]:
            assert len(source) // 2 <= len(hypothesis.split()) + 1 <= 3 * (len(source) + 1)


# --- unknown words ----------------------------------------------------------------------------


def test_unknown_words_are_replaced_by_what_they_look_at(learned_shortlist, tmp_path):
    corpus, checkpoint = learned_shortlist.corpus, learned_shortlist.checkpoint
    languages = "--source-lang en --target-lang fr --dataset-impl raw"
    dictionaries = f"--srcdict={corpus.data}/dict.en.txt --tgtdict={corpus.data}/dict.fr.txt"
    places = f"--testpref={corpus.text}/test --destdir={tmp_path}"
    fairseq("preprocess", languages, dictionaries, places)
    plain, *replaced = (
        generate(tmp_path, checkpoint, f"{languages} --beam 2 {options}")
        for options in (
            "--print-alignment hard",
            "--print-alignment soft --replace-unk ''",
            "--replace-unk '' --batch-size 16",
        )
    )
    unknown = 0
    for number, (source, _) in enumerate(sides(corpus.text, "test")):
        words = plain.hypotheses()[number][0].split()
        looked_at = {target: position for position, target in pairs(plain)[number][0]}
        expected = [
            source[looked_at[i]] if word == "<unk>" else word for i, word in enumerate(words)
        ]
        unknown += words.count("<unk>")
        for finished in replaced:
            assert finished.hypotheses()[number] == [" ".join(expected)]
    assert unknown >= 10
    (tmp_path / "text").write_text("house weird bird\nred house\nboat\n")
    typed = interactive(corpus.data, checkpoint, tmp_path / "text", "--beam 2 --replace-unk")
    assert sorted(typed.hypotheses()) == [0, 1, 2]


@pytest.mark.parametrize("option", ["--forbid-unk", "--unkpen 100"])
def test_unknown_words_can_be_forbidden_or_made_dearer(option, learned_shortlist):
    data, checkpoint = learned_shortlist.corpus.data, learned_shortlist.checkpoint
    found = generate(data, checkpoint, "--beam 2", option).hypotheses()
    assert sorted(found) == list(range(60))
    assert "<unk>" not in str(found)


# --- typed sentences --------------------------------------------------------------------------


def test_typed_sentences(learned, soft, tmp_path):
    known = [" ".join(source) for source, _ in sides(learned.corpus.text, "test")]
    odd = ["", "red house bird " * 100, "nowhere house", "lamp"]
    lines = [*odd, *known]
    (tmp_path / "text").write_text("\n".join(lines))
    given = learned.corpus.data, learned.checkpoint, tmp_path / "text"
    buffered = interactive(*given, f"{BEST} soft --buffer-size 6 --batch-size 4")
    one_by_one = interactive(*given, f"{BEST} hard")
    order = [int(n) for n in re.findall(r"^S-(\d+)\t", buffered.out, re.MULTILINE)]
    assert order == list(range(len(lines)))
    for number, line in enumerate(lines):
        if number != 1:  # how long a long translation may get depends on the batch
            assert buffered.hypotheses()[number] == one_by_one.hypotheses()[number]
        for k, hypothesis in enumerate(buffered.hypotheses()[number]):
            alpha = weights(buffered)[number][k]
            assert alpha.shape == (len(hypothesis.split()) + 1, len(line.split()) + 1)
            if number >= len(odd):
                assert hypothesis == soft.hypotheses()[number - len(odd)][k]
                np.testing.assert_allclose(weights(soft)[number - len(odd)][k], alpha, atol=2e-5)
        assert all(
            position < max(1, len(line.split()))
            for hypothesis in pairs(one_by_one)[number]
            for position, _ in hypothesis
        )


@pytest.mark.parametrize("buffer_size", [1, 9])
def test_a_byte_that_is_no_text_is_named_after_the_lines_before_it(tmp_path, buffer_size):
    (tmp_path / "typed").write_bytes(b"red house\n\xff bird\ncalm tree\n")
    batches = read_checked(str(tmp_path / "typed"), buffer_size)
    assert next(batches) == ["red house"]
    with pytest.raises(UserError, match=r"typed, line 2, byte 1: byte 0xff"):
        next(batches)
