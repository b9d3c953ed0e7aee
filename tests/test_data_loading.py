"""The processes of --num-workers end with their last batch, and with the program."""

import sys

import pytest
from commands import ROOT, run_process

HANGS = 60  # seconds

BEGIN = """
import gc, multiprocessing
import torch
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq_rnnsearch.runs import patches
patches.patch_fairseq()
class Numbers(FairseqDataset):
    def __getitem__(self, index):
        return index

    def collater(self, numbers):
        return torch.tensor(numbers)

BATCHES = [[0], [1, 2], [3], [4, 5]]

def epochs(**options):
    options = {"num_workers": 2, "persistent_workers": False, **options}  # as our trainer has it
    return EpochBatchIterator(Numbers(), torch.tensor, BATCHES, **options)
"""
FINISHED = """
for options in ({}, {"buffer_size": 3}, {"buffer_size": 3, "reuse_dataloader": True}):
    iterator = epochs(**options)
    for epoch in range(2):
        batches = [batch.tolist() for batch in iterator.next_epoch_itr(shuffle=False)]
        assert batches == BATCHES, batches
        for process in multiprocessing.active_children():
            process.join()
"""
UNFINISHED = """
loading = iter(epochs().next_epoch_itr(shuffle=False))
next(loading)
"""
COLLECTED = """
itself = [loading]
itself.append(itself)
del loading, itself
gc.collect()  # closes the queues to the processes before they are told to end
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [FINISHED + UNFINISHED, UNFINISHED + COLLECTED],
    ids=["all, then one", "one, collected"],
)
def test_processes_end_with_the_last_batch_and_with_the_program(program):
    """In a process of its own: what is asked is how the interpreter ends."""
    one_core = "ignore:This DataLoader will create"  # as many processes as cores, torch suggests
    newer = "ignore:`torch.jit.script` is deprecated"  # and fairseq uses it
    command = [sys.executable, "-W", one_core, "-W", newer, "-c", BEGIN + program]
    ended = run_process(command, cwd=ROOT, timeout=HANGS)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
