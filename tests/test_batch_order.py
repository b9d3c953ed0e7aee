"""The paper's order of batches against the description, followed by hand in slow loops."""

import numpy as np
import pytest

from fairseq_rnnsearch.paper.batch_order import paper_batches


def lengths(pairs, seed=3):
    draw = np.random.default_rng(seed)
    return draw.integers(0, 60, pairs), draw.integers(1, 60, pairs)


def order_by_hand(source, target, batch_size, seed, candidates, group):
    """Shuffle, walk along reading only candidates, sort each group, cut it: lists of lists."""
    wanted = set(range(len(source)) if candidates is None else candidates.tolist())
    groups, current = [], []
    for pair in np.random.default_rng(seed).permutation(len(source)).tolist():
        if pair in wanted:
            current.append(pair)
            if len(current) == group * batch_size:
                groups.append(current)
                current = []
    groups.append(current)
    batches = []
    for members in groups:
        members = sorted(members, key=lambda pair: max(source[pair], target[pair]))
        while members:
            batches.append(members[:batch_size])
            members = members[batch_size:]
    return batches


def as_lists(batches):
    return [batch.tolist() for batch in batches]


@pytest.mark.parametrize("max_words", [None, 30])
@pytest.mark.parametrize(
    ("pairs", "batch_size", "group"),
    # also a batch bigger than the corpus; a group of one: nothing to sort into, shuffled order
    [(0, 80, 20), (1, 80, 20), (7, 80, 20), (7, 3, 2), (100, 8, 20), (100, 10, 1), (1014, 80, 20)]
    + [(3003, 80, 20), (3003, 1, 7), (29000, 80, 20)],
)
def test_equals_the_description(pairs, batch_size, group, max_words):
    source, target = lengths(pairs)
    candidates = max_words and np.flatnonzero(np.maximum(source, target) <= max_words)
    batches = paper_batches(source, target, batch_size, 5, candidates=candidates, group=group)
    assert as_lists(batches) == order_by_hand(source, target, batch_size, 5, candidates, group)
    expected = np.arange(pairs) if candidates is None else candidates
    seen = np.concatenate(batches) if batches else np.empty(0)
    assert np.array_equal(np.sort(seen), expected)  # each exactly once
    assert all(len(batch) for batch in batches)


def test_default_group_is_twenty():
    source, target = lengths(3003)
    expected = order_by_hand(source, target, 80, 1, None, 20)
    assert as_lists(paper_batches(source, target, 80, 1)) == expected


def test_pinned_order():
    """A numpy whose generator shuffles differently would change resumed runs: notice it."""
    words = np.zeros(8, dtype=int)
    assert as_lists(paper_batches(words, words, 3, seed=1)) == [[5, 0, 1], [4, 2, 6], [3, 7]]
