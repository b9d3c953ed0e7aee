"""The batches of an epoch, gone on with where a training was interrupted, if they are the same."""

import copy
import hashlib
import inspect
from collections.abc import Sequence

import numpy as np
from fairseq.data import iterators

from fairseq_rnnsearch.runs.resuming import refuse_place


class ResumedIterator(iterators.EpochBatchIterator):
    """fairseq's iterator, and a fingerprint of the epoch's batches in the checkpoint.

    Resumed with other batches, fairseq repeats pairs of the epoch and drops others in silence, or
    ends with a traceback.
    """

    _fingerprint: tuple[tuple[int, bool], str] | None = None  # of which epoch, shuffled or not

    def state_dict(self) -> dict:
        """Return fairseq's state, and within an epoch what its batches are known by."""
        state = super().state_dict()
        if state["iterations_in_epoch"]:
            state["processes"] = self.num_shards
            state["batches"] = self._identify(state["epoch"], state["shuffle"])
        return state

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on with the same batches, shared by as many processes or by others.

        Checkpoints from before this have no fingerprint.

        Raises:
            UserError: when the batches are others, or the processes cannot share what is left.
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
        """Return a digest of which pairs are in which batches, in order, and of their lengths."""
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
        # what is missing to an even share is filled up with batches of no pairs
        return [batch for update in zip(*shares, strict=True) for batch in update if len(batch)]

    def _digest(self, batches: list[Sequence[int]]) -> str:
        pairs = np.concatenate([np.asarray(batch, dtype=np.int64) for batch in batches])
        sizes = np.asarray([len(batch) for batch in batches], dtype=np.int64)
        digest = hashlib.sha256(sizes.tobytes() + pairs.tobytes())
        digest.update(np.asarray(self.dataset.sizes, dtype=np.int64)[pairs].tobytes())
        return digest.hexdigest()


def resumed(iterator: iterators.EpochBatchIterator) -> ResumedIterator:
    """Return one that keeps a fingerprint, in the place of one that fairseq has just made."""
    if isinstance(iterator, ResumedIterator):
        return iterator
    # fairseq's keeps each argument under its name
    names = inspect.signature(iterators.EpochBatchIterator).parameters
    return ResumedIterator(**{name: getattr(iterator, name) for name in names})


class InOrderIterator(ResumedIterator):
    """Batches in the same order in every epoch, also when resumed within one."""

    def ordered_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> list:
        """Return them as they are, whether fairseq asks for shuffled ones or not."""
        return super().ordered_batches(epoch, fix_batches_to_gpus, False)
