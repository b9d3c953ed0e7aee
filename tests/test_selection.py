"""Data selection: the n-gram model beside a slow one, scores, the cut, and blocks of text."""

import math
import sys
from collections import Counter, defaultdict

import numpy as np
import pytest
from wmt14 import RECIPE

from fairseq_rnnsearch.errors import UserError

sys.path.insert(0, str(RECIPE))

from cut import within_budget
from ngram import END, SPECIAL, UNKNOWN, NGramModel, Vocabulary
from parallel_text import read_blocks
from selection import Contrast, Selector


class SlowModel:
    """Interpolated modified Kneser-Ney with dictionaries of tuples, one probability at a time."""

    def __init__(self, vocabulary, sentences, order):
        self.vocabulary = set(vocabulary) | {"</s>", "<unk>"}
        self.order = order
        padded = [["<s>", *self.known(s), "</s>"] for s in sentences]
        raw = Counter(
            tuple(s[i : i + n])
            for s in padded
            for n in range(1, order + 2)
            for i in range(len(s) - n + 1)
        )
        before = defaultdict(set)
        for ngram in raw:
            before[ngram[1:]].add(ngram[0])
        self.counts = {}
        for ngram, count in raw.items():
            if len(ngram) <= order and ngram != ("<s>",):
                as_text = len(ngram) == order or ngram[0] == "<s>"
                self.counts[ngram] = count if as_text else len(before[ngram])
        self.discounts = {n: self.estimate_discounts(n) for n in range(1, order + 1)}

    def known(self, sentence):
        return [w if w in self.vocabulary else "<unk>" for w in sentence.split()]

    def estimate_discounts(self, n):
        t = Counter(count for ngram, count in self.counts.items() if len(ngram) == n)
        if not (t[1] and t[2] and t[3]):
            return [0.5, 1.0, 1.5]
        Y = t[1] / (t[1] + 2 * t[2])
        D = [1 - 2 * Y * t[2] / t[1], 2 - 3 * Y * t[3] / t[2], 3 - 4 * Y * t[4] / t[3]]
        return D if 0 < D[0] < 1 and 0 < D[1] < 2 and 0 < D[2] < 3 else [0.5, 1.0, 1.5]

    def probability(self, word, context):
        n = len(context) + 1
        following = {g: c for g, c in self.counts.items() if len(g) == n and g[:-1] == context}
        lower = self.probability(word, context[1:]) if context else 1 / len(self.vocabulary)
        if not following:
            return lower
        total = sum(following.values())
        removed = sum(self.discounts[n][min(c, 3) - 1] for c in following.values())
        count = following.get((*context, word), 0)
        kept = count - self.discounts[n][min(count, 3) - 1] if count else 0
        return kept / total + removed / total * lower

    def log_probabilities(self, sentence):
        words = ["<s>", *self.known(sentence), "</s>"]
        return [
            math.log(self.probability(words[i], tuple(words[max(0, i - self.order + 1) : i])))
            for i in range(1, len(words))
        ]


def random_sentences(seed, sentences, words="abcdefgh"):
    draw = np.random.default_rng(seed)
    weights = 1 / np.arange(1, len(words) + 1)
    return [
        " ".join(draw.choice(list(words), draw.integers(0, 9), p=weights / weights.sum()))
        for _ in range(sentences)
    ]


def text_of(sentences):
    return "".join(sentence + "\n" for sentence in sentences)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("sentences", [2, 60])
def test_equals_the_slow_model(order, sentences):
    train = [*random_sentences(1, sentences), ""]
    vocabulary = Vocabulary.of(train, 2)
    model = NGramModel.estimate(vocabulary, text_of(train), order)
    slow = SlowModel(vocabulary.words[3:], train, order)
    held_out = [*random_sentences(2, 12, "abcdefghXY"), "", train[0]]
    expected = [slow.log_probabilities(sentence) for sentence in held_out]
    tokens = vocabulary.encode(text_of(held_out))
    found = model.log_probabilities(tokens)
    assert np.allclose(found, np.concatenate(expected), rtol=1e-12)
    per_word = [-sum(logs) / len(logs) for logs in expected]
    assert np.allclose(model.cross_entropies(tokens), per_word, rtol=1e-12)


def test_words_are_those_seen_often_enough():
    vocabulary = Vocabulary.of(["b a a", "c b", "<unk> <unk> é é"], 2)
    assert vocabulary.words == [*SPECIAL, "a", "b", "é"]
    # a blank line, two spaces and a no-break space
    assert vocabulary.encode("a  c\n\né\u00a0b b\n").tolist() == [3, 2, END, END, 2, 4, END]


def test_a_token_that_is_spelt_like_a_symbol_is_an_unknown_word():
    assert Vocabulary(["a"]).encode("a </s> <s> <unk>\n").tolist() == [3, *[UNKNOWN] * 3, END]


# --- selection -----------------------------------------------------------------------------------


def test_scores_are_axelrods_and_those_of_a_saved_selector(tmp_path):
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
    found = selector.scores(*map(text_of, new))
    assert np.allclose(found, expected, atol=1e-6)
    selector.save(tmp_path)
    assert np.array_equal(Selector.load(tmp_path).scores(*map(text_of, new)), found)


def test_words_are_the_domain_s_that_are_frequent_enough():
    inside, outside = ["a a a b b c"], ["a b c c d d d d"]
    contrast = Contrast.estimate(text_of(inside), text_of(outside), 2, 3)
    slow = [SlowModel(["a"], text, 2) for text in (inside, outside)]
    ours, theirs = (np.mean(model.log_probabilities("a d b")) for model in slow)
    assert contrast.differences("a d b\n") == pytest.approx([theirs - ours])


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
def test_blocks_hold_every_line_once_and_both_sides_are_counted(tmp_path, lines):
    source = write(tmp_path, "a", b"a", b"", "b\u2028b\x85\r".encode(), end=b"")
    target = write(tmp_path, "b", b"1", b"2", b"3")
    blocks = list(read_blocks(source, target, lines))
    assert [line for first, _ in blocks for line in first] == [b"a", b"", "b\u2028b\x85\r".encode()]
    assert [line for _, second in blocks for line in second] == [b"1", b"2", b"3"]
    write(tmp_path, "a", b"a", b"b")
    with pytest.raises(UserError, match=r"/a has 2 lines but .*/b has 3"):
        list(read_blocks(source, target, lines))
