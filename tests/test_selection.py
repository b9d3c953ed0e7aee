"""Data selection: scores, the cut, the ranking statistic; text in blocks over processes."""

import sys

import numpy as np
import pytest
from test_ngram import SlowModel, random_sentences, text_of
from wmt14 import RECIPE

from fairseq_rnnsearch.errors import UserError

sys.path.insert(0, str(RECIPE))

from cut import within_budget
from parallel_text import ordered_map, read_blocks
from selection import Contrast, Selector


def test_scores_are_axelrods():
    """Four slow models, their cross-entropies per word added up by hand."""
    inside = random_sentences(1, 30, "abc"), random_sentences(2, 30, "éèà")
    outside = random_sentences(3, 30, "cba"), random_sentences(4, 30, "àèé")
    new = [random_sentences(5, 8, "abcX"), random_sentences(6, 8, "éèàX")]
    expected = np.zeros(8)
    for side in (0, 1):
        words = sorted({word for s in inside[side] for word in s.split()})
        for text, sign in ((inside[side], 1), (outside[side], -1)):
            slow = SlowModel(words, text, 2)
            logs = [slow.log_probabilities(sentence) for sentence in new[side]]
            expected -= sign * np.array([sum(each) / len(each) for each in logs])
    texts = ((text_of(i), text_of(o)) for i, o in zip(inside, outside, strict=True))
    selector = Selector(*(Contrast.estimate(*pair, 2, 2) for pair in texts))
    assert np.allclose(selector.scores(text_of(new[0]), text_of(new[1])), expected, atol=1e-6)


def test_words_are_the_domain_s_that_are_frequent_enough():
    inside, outside = ["a a a b b c"], ["a b c c d d d d"]
    contrast = Contrast.estimate(text_of(inside), text_of(outside), 2, 3)
    slow = [SlowModel(["a"], text, 2) for text in (inside, outside)]
    ours, theirs = (np.mean(model.log_probabilities("a d b")) for model in slow)
    assert contrast.differences("a d b\n") == pytest.approx([theirs - ours])


def test_a_saved_selector_scores_the_same(tmp_path):
    draws = ((1, "abc"), (3, "éèà"))
    texts = [[text_of(random_sentences(n + i, 20, w)) for i in (0, 1)] for n, w in draws]
    selector = Selector(*(Contrast.estimate(*pair, 2, 2) for pair in texts))
    new = text_of(random_sentences(5, 8, "abcX")), text_of(random_sentences(6, 8, "éèàX"))
    selector.save(tmp_path)
    assert np.array_equal(Selector.load(tmp_path).scores(*new), selector.scores(*new))


CUTS = {  # scores, words, budget: pairs that are kept
    "the best first": ([3, 1, 2], [5, 5, 5], 10, [1, 2]),
    "a tie to the earlier": ([1, 1, 1], [5, 5, 5], 10, [0, 1]),
    "exactly full": ([2, 1], [3, 4], 7, [0, 1]),
    "one word short": ([2, 1], [3, 4], 6, [1]),
    "no smaller one is squeezed in": ([1, 2, 3], [4, 9, 1], 6, [0]),
    "more words than 32 bits count": ([1, 2, 3], [2**30] * 3, 2**31, [0, 1]),
    "zero keeps all": ([1, 2], [4, 9], 0, [0, 1]),
}


@pytest.mark.parametrize("name", CUTS)
def test_cut(name):
    scores, words, budget, kept = CUTS[name]
    assert np.flatnonzero(within_budget(np.array(scores), np.array(words), budget)).tolist() == kept


def write(folder, name, *lines, end=b"\n"):
    (folder / name).write_bytes(b"\n".join(lines) + end)
    return folder / name


@pytest.mark.parametrize("lines", [1, 2, 3, 100])
def test_blocks_hold_every_line_once(tmp_path, lines):
    source = write(tmp_path, "a", b"a", b"", "b\u2028b\x85\r".encode(), end=b"")
    target = write(tmp_path, "b", b"1", b"2", b"3")
    blocks = list(read_blocks(source, target, lines))
    assert [line for first, _ in blocks for line in first] == [b"a", b"", "b\u2028b\x85\r".encode()]
    assert [line for _, second in blocks for line in second] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("lines", [1, 2, 100])
def test_mismatched_sides_are_counted(tmp_path, lines):
    source, target = write(tmp_path, "a", b"a", b"b"), write(tmp_path, "b", b"1", b"2", b"3")
    with pytest.raises(UserError, match=r"/a has 2 lines but .*/b has 3"):
        list(read_blocks(source, target, lines))


def length_of(item):
    return len(item)


def test_the_map_keeps_its_order_and_does_not_run_ahead():
    taken = []

    def items():
        for n in range(60):
            taken.append(n)
            yield "x" * n

    found = ordered_map(length_of, items(), processes=2)
    assert next(found) == 0
    assert len(taken) < 10
    assert list(found) == list(range(1, 60))
    assert list(ordered_map(length_of, ["", "a"], processes=1)) == [0, 1]
