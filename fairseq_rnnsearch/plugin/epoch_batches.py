"""Resume an interrupted epoch, provided that its pairs come in the same order."""

import copy
import hashlib

import numpy as np
from fairseq.data import iterators

from fairseq_rnnsearch.errors import pluralize
from fairseq_rnnsearch.runs.checkpoint import OwnFields
from fairseq_rnnsearch.runs.resuming import refuse_place


class ResumedIterator(iterators.EpochBatchIterator):
    """fairseq's iterator, which also saves which pairs of the epoch have been used.

    If resumed with other batches, fairseq silently repeats some pairs of the epoch and drops
    others, or crashes.
    """

    _known: tuple[tuple[int, bool], tuple[str, list[int]]] | None = None

    def state_dict(self) -> dict:
        """Return fairseq's state and, within an epoch, the order of its pairs and the place."""
        state = super().state_dict()
        if taken := state["iterations_in_epoch"]:  # batches of each process
            order, ends = self._order_and_ends(state["epoch"], state["shuffle"])
            state |= OwnFields(order=order, pairs=ends[taken - 1]).written()
        return state

    def load_state_dict(self, state_dict: dict) -> None:
        """Continue behind the pairs that have been used, with any number of processes.

        Raises:
            UserError: if the order differs, or no batches of all processes end in that place.
        """
        self.epoch = state_dict["epoch"]
        if state_dict["iterations_in_epoch"]:
            state_dict = {**state_dict, "iterations_in_epoch": self._place_in(state_dict)}
        super().load_state_dict(state_dict)

    def _place_in(self, state: dict) -> int:
        """Return how many batches of each process have been used."""
        own = OwnFields.of(state)
        if own.order is None or own.pairs is None:  # which older checkpoints lack
            if max(own.processes or 1, self.num_shards) > 1:
                refuse_place(self, "the checkpoint is older, and of several processes or for them")
            return state["iterations_in_epoch"]
        order, ends = self._order_and_ends(self.epoch, state["shuffle"])
        if own.order != order:
            refuse_place(self, "its pairs come in another order now")
        if own.pairs not in ends:
            processes = pluralize(self.num_shards, "process", "processes")
            refuse_place(
                self, f"no batches of {processes} begin behind its first {own.pairs} pairs"
            )
        return ends.index(own.pairs) + 1

    def _order_and_ends(self, epoch: int, shuffle: bool) -> tuple[str, list[int]]:
        """Return a digest of the pairs in order, and how many have been used after each batch.

        Batches are those of all processes together.
        """
        key = epoch, shuffle
        if self._known is None or self._known[0] != key:
            batches = self._of_all_processes(epoch, shuffle)
            ends = np.cumsum(list(map(len, batches))).tolist()
            pairs = np.concatenate(batches)
            sizes = np.asarray(self.dataset.sizes, dtype=np.int64)[pairs]
            digest = hashlib.sha256(pairs.tobytes() + sizes.tobytes()).hexdigest()
            self._known = key, (digest, ends)
        return self._known[1]

    def _of_all_processes(self, epoch: int, shuffle: bool) -> list[np.ndarray]:
        """Return the pairs of each batch of all processes together."""
        shares = []
        for process in range(self.num_shards):
            share = copy.copy(self)
            share.shard_id, share._supports_prefetch = process, False  # nothing is read
            shares.append(share.ordered_batches(epoch, False, shuffle))
        # fairseq fills shares up with empty batches
        return [
            np.concatenate([np.asarray(batch, dtype=np.int64) for batch in together])
            for together in zip(*shares, strict=True)
        ]


class InOrderIterator(ResumedIterator):
    """Batches in the same order in every epoch, also when resumed within one."""

    def ordered_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> list:
        """Return them in the given order, whether or not fairseq asks for shuffled ones."""
        return super().ordered_batches(epoch, fix_batches_to_gpus, False)
