"""The n-gram model against counts by hand and a slow model written from the definition."""

import math
import sys
from collections import Counter, defaultdict

import numpy as np
import pytest
from wmt14 import RECIPE

sys.path.insert(0, str(RECIPE))

from ngram import BEGIN, END, SPECIAL, UNKNOWN, NGramModel, Vocabulary


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


@pytest.mark.parametrize("order", [1, 2, 3])
def test_probabilities_sum_to_one_after_any_context(order):
    train = random_sentences(3, 40)
    vocabulary = Vocabulary.of(train, 2)
    model = NGramModel.estimate(vocabulary, text_of(train), order)
    words = [number for number in range(len(vocabulary)) if number != BEGIN]
    for context in ([], [3], [UNKNOWN], [3, 4], [4, 3, 3], [len(vocabulary) - 1] * 2):
        total = 0.0
        for word in words:
            # after </s> another sentence would begin
            tokens = [*context, word] if word == END else [*context, word, END]
            total += math.exp(model.log_probabilities(np.array(tokens))[len(context)])
        assert total == pytest.approx(1, abs=1e-12)


def test_a_bigram_by_hand():
    """ "a a b" and "a b": the text is too small for an estimate, so that D = 0.5, 1, 1.5."""
    model = NGramModel.estimate(Vocabulary(["a", "b"]), "a a b\na b\n", 2)
    # different words before: a has 2 (<s>, a), b has 1, </s> has 1; 4 words without <s>
    a = (2 - 1) / 4 + (1 + 0.5 + 0.5) / 4 / 4
    b = end = (1 - 0.5) / 4 + (1 + 0.5 + 0.5) / 4 / 4
    # after <s>: a twice; after a: a once, b twice; after b: </s> twice
    expected = [(2 - 1) / 2 + a / 2, (2 - 1) / 3 + (0.5 + 1) / 3 * b, (2 - 1) / 2 + end / 2]
    found = np.exp(model.log_probabilities(model.vocabulary.encode("a b\n")))
    assert found == pytest.approx(expected, abs=1e-15)


def test_words_are_those_seen_often_enough():
    vocabulary = Vocabulary.of(["b a a", "c b", "<unk> <unk> é é"], 2)
    assert vocabulary.words == [*SPECIAL, "a", "b", "é"]
    # a blank line, two spaces and a no-break space
    assert vocabulary.encode("a  c\n\né\u00a0b b\n").tolist() == [3, 2, END, END, 2, 4, END]


def test_a_token_that_is_spelt_like_a_symbol_is_an_unknown_word():
    assert Vocabulary(["a"]).encode("a </s> <s> <unk>\n").tolist() == [3, *[UNKNOWN] * 3, END]


def test_a_saved_model_is_the_same(tmp_path):
    train = random_sentences(5, 30, "aé&h")
    model = NGramModel.estimate(Vocabulary.of(train), text_of(train), 3)
    model.save(tmp_path / "model.npz")
    loaded = NGramModel.load(tmp_path / "model.npz")
    tokens = model.vocabulary.encode(text_of(train))
    assert loaded.vocabulary.words == model.vocabulary.words
    assert np.array_equal(loaded.log_probabilities(tokens), model.log_probabilities(tokens))
