"""The order in which the paper's program reads the training pairs (appendix B.2).

"Before every 20-th update, we retrieved 1600 sentence pairs, sorted them according to the lengths
and split them into 20 minibatches. The training data was shuffled once before training and was
traversed sequentially in this manner." The authors' program adds the rest: a pair's length is
max(source words, target words), and the batches of a group are used in ascending order.

Word counts in this file exclude the end symbol.
"""

import numpy as np


def paper_batches(
    source_words: np.ndarray,
    target_words: np.ndarray,
    batch_size: int,
    seed: int,
    *,
    candidates: np.ndarray | None = None,
    group: int = 20,
) -> list[np.ndarray]:
    """Return an epoch's batches in training order, which is the same in every epoch.

    The whole corpus is shuffled before pairs are dropped, so that the relative order of two
    pairs depends only on the seed and the corpus size, never on which others survive.
    The shuffle is `numpy.random.default_rng(seed).permutation(pairs)`: numpy's global state is
    neither read nor changed. It takes O(pairs log pairs).

    Args:
        source_words, target_words: (pairs,) integers, word counts for the whole corpus.
        batch_size: sentence pairs per batch (80 in the paper).
        seed: the seed of the shuffle, 0 or more.
        candidates: (survivors,) distinct indices of the pairs to use, in any order; None uses all.
        group: the number of batches to read and sort together (20 in the paper).

    Returns:
        An int64 array of pair indices per batch. Every candidate occurs exactly once; the last
        group and its last batch hold the remainder and may be short.
    """
    longer_side = np.maximum(source_words, target_words)
    order = np.random.default_rng(seed).permutation(len(longer_side))
    if candidates is not None:
        order = order[np.isin(order, candidates)]

    # Sort by group, then length; lexsort is stable: pairs of equal length stay as shuffled.
    group_of = np.arange(len(order)) // (group * batch_size)
    order = order[np.lexsort((longer_side[order], group_of))]
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
