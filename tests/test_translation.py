"""fairseq-generate and fairseq-interactive with their options."""

import re

import numpy as np
import pytest
from commands import generate, interactive, preprocess, sides, together

pytest_plugins = ["trained"]


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


def generate_each(data, checkpoint, *options):
    """Run fairseq-generate once for each of these options."""
    return together(*[lambda o=o: generate(data, checkpoint, o).ok() for o in options])


PADDED = "--batch-size 1", "--batch-size 16", "--batch-size 16 --left-pad-source"


# --- alignments -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alignments(learned):
    """Hard and soft alignments: one sentence at a time, and in batches padded on either side."""
    best = "--beam 3 --nbest 2 --print-alignment"
    options = [f"{best} {kind} {batch}" for kind in ("hard", "soft") for batch in PADDED]
    finished = generate_each(learned.corpus.data, learned.checkpoint, *options)
    return finished[:3], finished[3:]


def test_alignments_do_not_depend_on_what_a_sentence_is_batched_with(alignments):
    hard, soft = alignments
    for finished in (*hard[1:], *soft):
        assert finished.hypotheses() == hard[0].hypotheses()
    for finished in hard[1:]:
        assert pairs(finished) == pairs(hard[0])
    alone = weights(soft[0])
    for finished in soft[1:]:
        batched = weights(finished)
        assert batched.keys() == alone.keys()
        for number, both in alone.items():
            for one, other in zip(both, batched[number], strict=True):
                np.testing.assert_allclose(one, other, atol=2e-5)


def test_soft_alignments_are_rows_of_weights_and_the_hard_ones_their_largest(learned, alignments):
    (hard, *_), (soft, *_) = alignments
    for number, (source, _) in enumerate(sides(learned.corpus.text, "test")):
        for k, hypothesis in enumerate(soft.hypotheses()[number]):
            alpha = weights(soft)[number][k]
            assert alpha.shape == (len(hypothesis.split()) + 1, len(source) + 1)
            np.testing.assert_allclose(alpha.sum(axis=1), 1, atol=1e-4)
            for position, target in pairs(hard)[number][k]:
                assert alpha[target, position] >= alpha[target, :-1].max() - 1e-6


def test_references_are_scored_with_soft_alignments(learned):
    data, checkpoint = learned.corpus.data, learned.checkpoint
    options = "--score-reference --print-alignment soft", "--beam 1"
    forced, free = generate_each(data, checkpoint, *options)
    compared = 0
    for number, (source, target) in enumerate(sides(learned.corpus.text, "test")):
        assert forced.hypotheses()[number] == [" ".join(target)]
        assert weights(forced)[number][0].shape == (len(target) + 1, len(source) + 1)
        of_words = [float(score) for score in forced.lines("P")[number][0].split()]
        assert scores(forced)[number][0] == pytest.approx(np.mean(of_words), abs=1e-4)
        if free.hypotheses()[number] == forced.hypotheses()[number]:
            compared += 1
            assert scores(free)[number] == pytest.approx(scores(forced)[number], abs=1e-4)
    assert compared > 30


# --- beams and ensembles ----------------------------------------------------------------------


def test_ensembles_and_n_best(learned):
    last = learned.checkpoint
    earlier = sorted(learned.folder.glob("checkpoint[0-9]*.pt"))[0]
    options = "--beam 4 --nbest 3"
    one, twice, two = together(
        *[
            lambda path=path: generate(learned.corpus.data, path, options).ok()
            for path in (last, f"{last}:{last}", f"{last}:{earlier}")
        ]
    )
    for finished in (one, twice, two):
        for number, found in scores(finished).items():
            assert len(found) == 3 and found == sorted(found, reverse=True)
            assert len(set(finished.hypotheses()[number])) == 3
    assert twice.hypotheses() == one.hypotheses()
    assert scores(two) != scores(one)
    assert scores(twice) == {n: pytest.approx(s, abs=1e-4) for n, s in scores(one).items()}


def test_a_prefix_is_kept(learned):
    finished = generate(learned.corpus.data, learned.checkpoint, "--prefix-size 2 --beam 2").ok()
    for number, (_, target) in enumerate(sides(learned.corpus.text, "test")):
        assert finished.hypotheses()[number][0].split()[:2] == target[:2]


def test_the_authors_search_does_not_depend_on_the_batch(learned_shortlist):
    options = "--authors-search --unnormalized --forbid-unk --beam 6 --nbest 4"
    corpus, checkpoint = learned_shortlist.corpus, learned_shortlist.checkpoint
    kinds = [f"{options} {batch}" for batch in PADDED]
    alone, batched, left = generate_each(corpus.data, checkpoint, *kinds)
    assert sorted(alone.hypotheses()) == list(range(60))
    for finished in (batched, left):
        assert finished.hypotheses() == alone.hypotheses()
        for number, found in scores(alone).items():
            assert scores(finished)[number] == pytest.approx(found, abs=1e-4)
    for number, (source, _) in enumerate(sides(learned_shortlist.corpus.text, "test")):
        for hypothesis in alone.hypotheses()[number]:
            assert len(source) // 2 <= len(hypothesis.split()) + 1 <= 3 * (len(source) + 1)


# --- unknown words ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def raw(learned_shortlist, tmp_path_factory):
    """The shortlist corpus as --dataset-impl raw."""
    corpus = learned_shortlist.corpus
    folder = tmp_path_factory.mktemp("raw") / "data"
    preprocess(
        corpus.text,
        folder,
        f"--srcdict={corpus.data}/dict.en.txt",
        f"--tgtdict={corpus.data}/dict.fr.txt",
        "--dataset-impl raw",
    ).ok()
    return folder


def test_unknown_words_are_replaced_by_what_they_look_at(learned_shortlist, raw):
    options = "--source-lang en --target-lang fr --dataset-impl raw --beam 2"
    plain, *replaced = generate_each(
        raw,
        learned_shortlist.checkpoint,
        f"{options} --print-alignment hard",
        f"{options} --print-alignment hard --replace-unk ''",
        f"{options} --print-alignment soft --replace-unk ''",
        f"{options} --replace-unk '' --batch-size 16",
    )
    texts = sides(learned_shortlist.corpus.text, "test")
    unknown = 0
    for number, (source, _) in enumerate(texts):
        words = plain.hypotheses()[number][0].split()
        looked_at = {target: position for position, target in pairs(plain)[number][0]}
        expected = [
            source[looked_at[i]] if word == "<unk>" else word for i, word in enumerate(words)
        ]
        unknown += words.count("<unk>")
        for finished in replaced:
            assert finished.hypotheses()[number] == [" ".join(expected)]
    assert unknown >= 10


def test_interactive_replaces_unknown_words_without_falling_over(learned_shortlist):
    finished = interactive(
        learned_shortlist.corpus.data,
        learned_shortlist.checkpoint,
        "--beam 2 --replace-unk",
        stdin="house weird bird\nred house\nboat\n",
    ).ok()
    assert sorted(finished.hypotheses()) == [0, 1, 2]


def test_unknown_words_can_be_forbidden_or_made_dearer(learned_shortlist):
    data, checkpoint = learned_shortlist.corpus.data, learned_shortlist.checkpoint
    options = "--beam 2", "--beam 2 --forbid-unk", "--beam 2 --unkpen 100"
    plain, *without = generate_each(data, checkpoint, *options)
    assert "<unk>" in str(plain.hypotheses())
    for finished in without:
        assert sorted(finished.hypotheses()) == list(range(60))
        assert "<unk>" not in str(finished.hypotheses())


# --- typed sentences --------------------------------------------------------------------------


def test_typed_sentences(learned):
    long = "red house bird " * 100
    lines = ["red house bird", "", "calm tree", long, "nowhere house", "lamp"]
    buffered, one_by_one = together(
        lambda: interactive(
            learned.corpus.data,
            learned.checkpoint,
            "--beam 3 --nbest 2 --print-alignment soft --buffer-size 6 --batch-size 4",
            stdin="\n".join(lines),
        ).ok(),
        lambda: interactive(
            learned.corpus.data,
            learned.checkpoint,
            "--beam 3 --nbest 2 --print-alignment hard",
            stdin="\n".join(lines) + "\n",
        ).ok(),
    )
    assert sorted(buffered.hypotheses()) == list(range(len(lines)))
    for number in (0, 2, 4, 5):  # how long a long translation may get depends on the batch
        assert buffered.hypotheses()[number] == one_by_one.hypotheses()[number]
    assert buffered.hypotheses()[0][0] == "maison rouge oiseau"
    order = [int(n) for n in re.findall(r"^S-(\d+)\t", buffered.out, re.MULTILINE)]
    assert order == list(range(len(lines)))
    for number, line in enumerate(lines):
        for k, hypothesis in enumerate(buffered.hypotheses()[number]):
            alpha = weights(buffered)[number][k]
            assert alpha.shape == (len(hypothesis.split()) + 1, len(line.split()) + 1)
        assert all(
            position < max(1, len(line.split()))
            for hypothesis in pairs(one_by_one)[number]
            for position, _ in hypothesis
        )


def test_generate_and_interactive_agree(learned):
    text = (learned.corpus.text / "test.en").read_text()
    options = "--beam 3 --print-alignment soft --max-len-a 0 --max-len-b 20"
    typed, generated = together(
        lambda: interactive(learned.corpus.data, learned.checkpoint, options, stdin=text).ok(),
        lambda: generate(learned.corpus.data, learned.checkpoint, options).ok(),
    )
    assert typed.hypotheses() == generated.hypotheses()
    for number, (alpha,) in weights(generated).items():
        np.testing.assert_allclose(weights(typed)[number][0], alpha, atol=2e-5)


# --- what is typed --------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer_size", [1, 9])
def test_a_byte_that_is_no_text_is_named_after_the_lines_before_it(learned, tmp_path, buffer_size):
    (tmp_path / "typed").write_bytes(b"red house\n\xff bird\ncalm tree\n")
    options = f"--buffer-size {buffer_size}"
    for more, name in (
        ({"stdin": (tmp_path / "typed").read_bytes()}, "standard input"),
        ({}, str(tmp_path / "typed")),
    ):
        given = [options] if more else [options, f"--input={tmp_path / 'typed'}"]
        finished = interactive(learned.corpus.data, learned.checkpoint, *given, **more)
        assert f"{name}, line 2, byte 1: byte 0xff is not valid UTF-8" in finished.error()
        assert finished.out.count("\nH-0") == 1 and "H-1" not in finished.out
