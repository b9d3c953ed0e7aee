"""Resume an interrupted epoch, provided that its batches are the same."""

import copy
import hashlib
from collections.abc import Sequence

import numpy as np
from fairseq.data import iterators

from fairseq_rnnsearch.runs.resuming import refuse_place


class ResumedIterator(iterators.EpochBatchIterator):
    """fairseq's iterator, which also saves a fingerprint of the epoch's batches.

    If resumed with other batches, fairseq silently repeats some pairs of the epoch and drops
    others, or crashes.
    """

    _fingerprint: tuple[tuple[int, bool], str] | None = None  # of which epoch, shuffled or not

    def state_dict(self) -> dict:
        """Return fairseq's state and, within an epoch, its batches' fingerprint."""
        state = super().state_dict()
        if state["iterations_in_epoch"]:
            state["processes"] = self.num_shards
            state["batches"] = self._identify(state["epoch"], state["shuffle"])
        return state

    def load_state_dict(self, state_dict: dict) -> None:
        """Continue with the same batches, even with another number of processes.

        Older checkpoints have no fingerprint.

        Raises:
            UserError: if the batches differ, or the processes cannot share the rest.
        """
        self.epoch = state_dict["epoch"]
        if state_dict["iterations_in_epoch"] and "batches" in state_dict:
            if state_dict["batches"] != self._identify(self.epoch, state_dict["shuffle"]):
                refuse_place(self, "its batches are others now")
            used = state_dict["iterations_in_epoch"] * state_dict["processes"]
            begun, rest = divmod(used, self.num_shards)
            if rest:
                refuse_place(
                    self,
                    f"{used} of its batches have been used, and {self.num_shards} processes use "
                    f"as many each: take a number of processes that divides {used}",
                )
            state_dict = {**state_dict, "iterations_in_epoch": begun}
        super().load_state_dict(state_dict)

    def _identify(self, epoch: int, shuffle: bool) -> str:
        """Return a digest of the batches: their pairs, in order, and the pairs' lengths."""
        key = epoch, shuffle
        if self._fingerprint is None or self._fingerprint[0] != key:
            self._fingerprint = key, self._digest(self._of_all_processes(epoch, shuffle))
        return self._fingerprint[1]

    def _of_all_processes(self, epoch: int, shuffle: bool) -> list[Sequence[int]]:
        shares = []
        for process in range(self.num_shards):
            share = copy.copy(self)
            share.shard_id, share._supports_prefetch = process, False  # nothing is read
            shares.append(share.ordered_batches(epoch, False, shuffle))
        # fairseq fills shares up with empty batches
        return [batch for update in zip(*shares, strict=True) for batch in update if len(batch)]

    def _digest(self, batches: list[Sequence[int]]) -> str:
        pairs = np.concatenate([np.asarray(batch, dtype=np.int64) for batch in batches])
        sizes = np.asarray([len(batch) for batch in batches], dtype=np.int64)
        digest = hashlib.sha256(sizes.tobytes() + pairs.tobytes())
        digest.update(np.asarray(self.dataset.sizes, dtype=np.int64)[pairs].tobytes())
        return digest.hexdigest()


class InOrderIterator(ResumedIterator):
    """Batches in the same order in every epoch, also when resumed within one."""

    def ordered_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> list:
        """Return them in the given order, whether or not fairseq asks for shuffled ones."""
        return super().ordered_batches(epoch, fix_batches_to_gpus, False)
