"""What a word adds to a step, cached because words come again.

Both products with e(y), W e(y) of the unit and V_o e(y) of the readout, depend on the word alone.
The hypotheses of a beam, and successive sentences, keep ending in the same words.
"""

import threading

import torch
from torch import Tensor

from fairseq_rnnsearch.kernels.cpu.packed_weights import product

# the most memory for cached rows; when it is full, all are dropped
BYTES = 64_000_000


class WordInputs:
    """A row ``(3n + 2l,)`` for each word: [W e(y) + b, V_o e(y) + b] with the biases of all.

    Args:
        embedding, embedding_bias: E^T and its bias.
        unit, unit_bias: W, W_z, W_r and the bias of the proposed state.
        readout, readout_bias: V_o and its bias.
    """

    def __init__(
        self,
        embedding: Tensor,
        embedding_bias: Tensor,
        unit: Tensor,
        unit_bias: Tensor,
        readout: Tensor,
        readout_bias: Tensor,
    ) -> None:
        self._embedding, self._embedding_bias = embedding, embedding_bias
        self._products = product(unit), product(readout)
        self.bias = torch.cat((unit_bias, unit_bias.new_zeros(2 * len(unit_bias)), readout_bias))
        capacity = max(1, BYTES // (len(self.bias) * self.bias.element_size()))
        self._rows = self.bias.new_empty(min(capacity, len(embedding)), len(self.bias))
        self._place = torch.full((len(embedding),), -1)
        self._count = 0
        self._lock = threading.Lock()

    def __call__(self, words: Tensor) -> Tensor:
        """Return the rows of words: ``(rows,)`` to ``(rows, 3n + 2l)``."""
        with self._lock:
            places = self._place[words]
            if places.amin() < 0:
                self._add(words[places < 0].unique(), words)
                places = self._place[words]
            return self._rows.index_select(0, places)

    def _add(self, new: Tensor, words: Tensor) -> None:
        if self._count + len(new) > len(self._rows):
            self._place.fill_(-1)
            self._count = 0
            new = words.unique()
            if len(new) > len(self._rows):
                with torch.inference_mode(False):  # or only inference mode could write to it
                    self._rows = self._rows.new_empty(len(new), self._rows.size(1))
        rows = self._rows[self._count : self._count + len(new)]
        embedded = self._embedding[new] + self._embedding_bias
        torch.cat([multiply(embedded) for multiply in self._products], dim=1, out=rows)
        rows += self.bias
        self._place[new] = torch.arange(self._count, self._count + len(new))
        self._count += len(new)
