"""An n-gram language model with interpolated modified Kneser-Ney smoothing, in numpy.

Data selection (selection.py) estimates it from some thousand sentences and scores millions. Of
the packages on the index, kenlm's Python module only queries such models; varikn estimates them,
a little worse, and has no wheel for Python 3.12.

The probability of word w after context c of k-1 words, c' being c without its first word
(Chen and Goodman 1999, section 4.1.6):

    p_k(w | c) = max(0, n(c w) - D(n(c w))) / n(c .) + b(c) p_{k-1}(w | c')
    b(c)       = sum over w of D(n(c w)) / n(c .),  or 1 where c was never followed by anything

and below the unigrams stands the uniform distribution over the vocabulary. n is the count in the
text for the highest order and for n-grams that begin with <s>; for the others it is the number of
different words seen before the n-gram. D(1), D(2) and D(3 and more) are estimated for each order
from the numbers t_i of n-grams with n = i:

    Y = t_1 / (t_1 + 2 t_2),    D(i) = i - (i+1) Y t_{i+1} / t_i

A sentence is <s> w_1 ... w_T </s>: <s> is never predicted, </s> is, and contexts do not reach
beyond <s>. The vocabulary is closed: all other words are one word, <unk>.

An n-gram is a number: its place among the sorted n-grams of its order. Its key there is
(number of its first n-1 words) * vocabulary + (last word), so that a search per order looks up
all positions of a text at once.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.errors import UserError

BEGIN, END, UNKNOWN = 0, 1, 2
SPECIAL = ("<s>", "</s>", "<unk>")
_BLANK = -1
# D(1), D(2) and D(3 and more) where a text is too small to estimate them
_USUAL_DISCOUNTS = (0.5, 1.0, 1.5)


class Vocabulary:
    """Gives words numbers: 0 to <s>, 1 to </s>, 2 to every word that is not listed."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = [*SPECIAL, *words]
        # "" stands between two spaces in a row and at the end of a text.
        # A token of the text that is spelt like a symbol is a word that nobody knows.
        self._numbers = _Numbers({word: i for i, word in enumerate(self.words) if i > END})
        self._numbers |= {"\n": END, "": _BLANK}

    @classmethod
    def of(cls, sentences: Iterable[str], min_count: int = 2) -> "Vocabulary":
        """Take the words of tokenised sentences that occur ``min_count`` times or more.

        The most frequent ones come first.
        """
        counts = Counter(word for sentence in sentences for word in sentence.split())
        frequent = [word for word in counts if counts[word] >= min_count and word not in SPECIAL]
        return cls(sorted(frequent, key=lambda word: (-counts[word], word)))

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, text: str) -> np.ndarray:
        """Return the numbers of lines of tokens, each ended by a line feed, which becomes </s>.

        Returns:
            (tokens,) int64.
        """
        tokens = text.replace("\n", " \n ").split(" ")
        numbers = np.fromiter(map(self._numbers.__getitem__, tokens), np.int64, len(tokens))
        return numbers[numbers != _BLANK]


class _Numbers(dict):
    """Numbers by words, and `UNKNOWN` for any word that is not there."""

    def __missing__(self, word: str) -> int:
        return UNKNOWN


@dataclass(frozen=True)
class Order:
    """The n-grams of one length.

    Attributes:
        keys: (n-grams,) int64, sorted.
        discounted: (n-grams,) float64, max(0, n - D(n)) / n(context .).
        backoff: (n-grams of one word less,) float64, the b of each as a context.
    """

    keys: np.ndarray
    discounted: np.ndarray
    backoff: np.ndarray

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the numbers of these keys, and -1 where there is no such n-gram."""
        places = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        if not len(self.keys):
            return np.full_like(keys, -1)
        return np.where(self.keys[places] == keys, places, -1)


class NGramModel:
    """The model of the module's description.

    Args:
        vocabulary: the words that are told apart.
        orders: the n-grams of one word, of two words, and so on. The ``keys`` of the unigrams are
            the numbers of all words.
    """

    def __init__(self, vocabulary: Vocabulary, orders: Sequence[Order]) -> None:
        self.vocabulary = vocabulary
        self.orders = list(orders)

    @classmethod
    def estimate(cls, vocabulary: Vocabulary, text: str, order: int) -> "NGramModel":
        """Estimate a model from lines of tokens, each ended by a line feed.

        Args:
            order: how many words the longest n-gram has.

        Raises:
            UserError: the order is below one, or the text has no sentence.
        """
        if order < 1:
            raise UserError(f"order {order} of an n-gram model: must be 1 or more")
        tokens = vocabulary.encode(text)
        if not len(tokens):
            raise UserError("the text to estimate an n-gram model from has no sentence")
        tokens = _with_begin(tokens)
        keys, numbers = _number_ngrams(tokens, len(vocabulary), order)
        counts = _adjusted_counts(keys, numbers, tokens)
        contexts = [1, len(vocabulary), *(len(of_order) for of_order in keys[1:])]
        orders = [
            _smooth(of_order, count, len(vocabulary), contexts[shorter])
            for shorter, (of_order, count) in enumerate(zip(keys, counts, strict=True))
        ]
        return cls(vocabulary, orders)

    def log_probabilities(self, tokens: np.ndarray) -> np.ndarray:
        """Return ln p of each token after the tokens of its sentence before it.

        Args:
            tokens: (tokens,), the numbers of whole sentences, each ended by </s>, without <s>.

        Returns:
            (tokens,) float64, in nats.
        """
        with_begin = _with_begin(tokens)
        predicted = with_begin != BEGIN
        size = len(self.vocabulary)
        numbers = with_begin
        # <s> cannot be predicted, and so has no part of the uniform distribution.
        uniform = 1.0 / (size - 1)
        probability = self.orders[0].discounted[numbers] + self.orders[0].backoff[0] * uniform
        for order in self.orders[1:]:
            context = _before(numbers)
            numbers = np.full_like(numbers, -1)
            known = np.flatnonzero(context >= 0)
            entries = order.find(context[known] * size + with_begin[known])
            numbers[known] = entries
            probability[known] *= order.backoff[context[known]]
            seen = entries >= 0
            probability[known[seen]] += order.discounted[entries[seen]]
        return np.log(probability[predicted])

    def cross_entropies(self, tokens: np.ndarray) -> np.ndarray:
        """Return (sentences,) float64: nats per word of each, where </s> counts as a word."""
        ends = np.flatnonzero(tokens == END)
        if not len(ends):
            return np.zeros(0)
        starts = np.concatenate([[0], ends[:-1] + 1])
        return -np.add.reduceat(self.log_probabilities(tokens), starts) / (ends + 1 - starts)

    def save(self, path: Path) -> None:
        """Write the model as .npz, with its words as UTF-8 text and nothing pickled."""
        arrays = {"words": np.frombuffer("\n".join(self.vocabulary.words).encode(), np.uint8)}
        for n, order in enumerate(self.orders, start=1):
            arrays |= {f"{field}{n}": getattr(order, field) for field in Order.__annotations__}
        with path.open("wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> "NGramModel":
        """Read what `save` wrote.

        Raises:
            UserError: the file is not that.
        """
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays = dict(archive)
            words = arrays["words"].tobytes().decode().split("\n")
            depth = sum(name.startswith("keys") for name in arrays)
            orders = [
                Order(*(arrays[f"{field}{n}"] for field in Order.__annotations__))
                for n in range(1, depth + 1)
            ]
        except Exception as problem:  # damage can be anywhere, and can then raise anything
            raise UserError(f"{path} cannot be read as an n-gram model: {problem}") from problem
        return cls(Vocabulary(words[len(SPECIAL) :]), orders)


def _with_begin(tokens: np.ndarray) -> np.ndarray:
    """Insert <s> before each sentence."""
    ends = np.flatnonzero(tokens == END)
    return np.insert(tokens, np.concatenate([[0], ends[:-1] + 1]), BEGIN)


def _before(numbers: np.ndarray) -> np.ndarray:
    """Return for each position the number of the n-gram that ends one position earlier, or -1."""
    return np.concatenate([[-1], numbers[:-1]])


def _number_ngrams(
    tokens: np.ndarray, size: int, order: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Number all n-grams of a text.

    Args:
        size: how many words the vocabulary has.

    Returns:
        For each order the sorted keys, and for each position the number of the n-gram that ends
        there. An n-gram does not reach from one sentence into the next: there its number is -1.
    """
    keys, numbers = [np.arange(size)], [tokens]
    for _ in range(1, order):
        context = np.where(tokens == BEGIN, -1, _before(numbers[-1]))
        inside = context >= 0
        ngrams, places = np.unique(context[inside] * size + tokens[inside], return_inverse=True)
        here = np.full_like(tokens, -1)
        here[inside] = places
        keys.append(ngrams)
        numbers.append(here)
    return keys, numbers


def _adjusted_counts(
    keys: list[np.ndarray], numbers: list[np.ndarray], tokens: np.ndarray
) -> list[np.ndarray]:
    """Return the n of each n-gram, for each order.

    In the highest order it counts how often the n-gram occurs; below it counts the different words
    that stand before the n-gram.
    """
    highest = len(keys) - 1
    counts = []
    for order, (of_order, here) in enumerate(zip(keys, numbers, strict=True)):
        occurrences = np.bincount(here[here >= 0], minlength=len(of_order))
        if order == highest:
            counts.append(occurrences)
            continue
        # Each longer n-gram counts once, for the shorter one in which it ends.
        longer = numbers[order + 1]
        positions = np.flatnonzero(longer >= 0)
        _, first = np.unique(longer[positions], return_index=True)
        continuations = np.bincount(here[positions[first]], minlength=len(of_order))
        # Nothing stands before <s>.
        begins = np.zeros(len(of_order), bool)
        begins[here[_sentence_prefixes(tokens, order)]] = True
        counts.append(np.where(begins, occurrences, continuations))
    counts[0][BEGIN] = 0  # it is a context only, and never predicted
    return counts


def _sentence_prefixes(tokens: np.ndarray, n: int) -> np.ndarray:
    """Return the positions that are n words behind a <s> in the same sentence."""
    places = np.flatnonzero(tokens == BEGIN) + n
    lengths = np.diff(np.append(np.flatnonzero(tokens == BEGIN), len(tokens)))
    return places[lengths > n]


def _smooth(keys: np.ndarray, counts: np.ndarray, size: int, contexts: int) -> Order:
    """Discount the counts of one order, whose contexts are ``contexts`` n-grams."""
    discount = np.array([0.0, *_discounts(counts)])[np.minimum(counts, 3)]
    context = keys // size
    total = np.bincount(context, weights=counts, minlength=contexts)
    removed = np.bincount(context, weights=discount, minlength=contexts)
    followed = total > 0
    backoff = np.where(followed, removed / np.where(followed, total, 1), 1.0)
    return Order(keys, (counts - discount) / np.where(followed, total, 1)[context], backoff)


def _discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """Return D(1), D(2) and D(3 and more), fixed ones where the text is too small to tell."""
    t = [int(np.count_nonzero(counts == i)) for i in range(1, 5)]
    if not all(t[:3]):
        return _USUAL_DISCOUNTS
    Y = t[0] / (t[0] + 2 * t[1])
    D = tuple(i - (i + 1) * Y * t[i] / t[i - 1] for i in (1, 2, 3))
    return D if all(0 < d < i for i, d in enumerate(D, start=1)) else _USUAL_DISCOUNTS
