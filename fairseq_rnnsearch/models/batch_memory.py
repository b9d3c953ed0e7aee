"""How much memory a batch takes beside the parameters, estimated from a model's sizes.

The factors are numbers of float32 values, fitted to peaks that were measured on a CPU
(``tests/test_batch_memory.py`` measures again); narrower types take less.
"""

from typing import NamedTuple

FLOAT = 4  # bytes
FIXED = 120_000_000  # logits and their gradients, a part at a time


class BatchMemory(NamedTuple):
    """Bytes of a batch.

    Attributes:
        source, target: for each position of a sentence, padding included.
        pair: for each pair of a source and a target position.
    """

    source: int
    target: int
    pair: int

    def __call__(self, sentences: int, source: int, target: int) -> int:
        """Of so many sentences padded to these lengths; of arrays an array."""
        of_one = source * self.source + target * self.target + source * target * self.pair
        return FIXED + sentences * of_one


class NetworkSizes(NamedTuple):
    """n of encoder and decoder, n' (0 without attention), l, and the target words."""

    encoder: int
    decoder: int
    attention: int
    maxout: int
    words: int


def of_training(sizes: NetworkSizes, fast: bool, all_logits: bool) -> BatchMemory:
    """Forward and backward pass.

    Args:
        fast: by the fast kernels; the others keep what attention computes for every pair.
        all_logits: the criterion asks for logits and not for their cost.
    """
    encoder, decoder, attention, maxout, words = sizes
    logits = 4 * words if all_logits or not fast else 0
    if fast:
        source = 18 * encoder + 3 * attention
        target = 18 * decoder + 3 * attention + 11 * maxout + logits
        pair = 4
    else:
        source = 26 * encoder + 8 * attention
        target = 19 * decoder + 5 * attention + 6 * maxout + logits
        pair = 2 * attention + 4
    return BatchMemory(FLOAT * source, FLOAT * target, FLOAT * pair)


def of_search(sizes: NetworkSizes, fast: bool, beam: int) -> BatchMemory:
    """Beam search: the encoder, and the alignment weights of all hypotheses."""
    kept = 1.25 if fast else 2.5  # fairseq's search keeps them twice
    source = 17 * sizes.encoder + 2 * sizes.attention
    pair = int(FLOAT * kept * beam) if sizes.attention else 0
    return BatchMemory(FLOAT * source, 0, pair)
