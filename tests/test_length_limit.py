"""How long a translation may become: measured on training pairs, and kept with the model."""

import numpy as np
import pytest

from fairseq_rnnsearch.decoding.length_limit import (
    FAIRSEQ_LIMIT,
    LengthLimit,
    largest,
    measured,
)


def test_words_keep_three_times_the_source_and_ten():
    rng = np.random.default_rng(1)
    source = rng.integers(2, 30, 5000)
    target = (source * rng.uniform(0.8, 1.4, 5000)).astype(int)
    assert measured(source, target) == LengthLimit(3.0, 10)


def test_characters_of_words_have_room():
    """No pair of the training would be cut, but for one in a thousand."""
    rng = np.random.default_rng(1)
    source = rng.integers(2, 30, 5000)
    target = (source * rng.uniform(4, 12, 5000)).astype(int)
    limit = measured(source, target)
    cut = sum(t > limit.of(s) for s, t in zip(source, target, strict=True))
    assert cut <= 5 and limit.ratio == pytest.approx(12, abs=0.3)
    outlier = measured(np.append(source, 2), np.append(target, 5000))
    assert outlier.margin < 100


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        # 1.5 x 24,160 / 10,010; the second of 1,001 pairs has 60 - 36.2038 tokens more
        ({(10, 24): 999, (10, 60): 1, (10, 124): 1}, (3.62, 24)),
        # 1.5 x 50,080 / 11,020: long sentences count for more
        ({(2, 20): 500, (20, 80): 501}, (6.817, 10)),
    ],
)
def test_limits_computed_by_hand(pairs, expected):
    assert measured(*np.repeat(list(pairs), list(pairs.values()), axis=0).T) == expected


def test_the_largest_limit_holds_for_an_ensemble():
    assert largest(LengthLimit(3.0, 40), FAIRSEQ_LIMIT, LengthLimit(5.0, 10)) == (5.0, 40)
    assert largest(FAIRSEQ_LIMIT) == FAIRSEQ_LIMIT
