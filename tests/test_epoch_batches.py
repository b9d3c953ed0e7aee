"""An epoch is gone on with only where its pairs come in the order that it was begun with."""

import numpy as np
import pytest
import torch
from commands import MODEL, PAPER, assert_equal_folders, sides
from models import task_with_data
from slow_cases import cases

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.paper.batch_order import paper_batches
from fairseq_rnnsearch.plugin.epoch_batches import InOrderIterator, ResumedIterator
from fairseq_rnnsearch.plugin.task import AlignmentHeatmapTask
from fairseq_rnnsearch.runs.resuming import go_on_at

# 103 pairs: six batches of 20, seven of 16, eleven of 10; 20 batches of 5 or more have all of them
LAST = "checkpoint_last.pt"


# --- what they are made of ------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "processes"), [(3, 1), (4, 1), (3, 2)])
def test_the_seed_and_the_lengths_of_both_sides_make_the_batches(
    seed, processes, small_corpus, tmp_path
):
    task = task_with_data(small_corpus, tmp_path, max_train_words=4)
    data = task.dataset("train")
    words = np.array([list(map(len, pair)) for pair in sides(small_corpus.text, "train")])
    first = np.flatnonzero(words.max(axis=1) <= 4)[0]
    words[first, 1] = 5  # of one pair the target alone is too long
    data.tgt_sizes = words[:, 1] + 1
    limits = task.max_positions()
    found = task.get_batch_iterator(
        data, max_sentences=2, max_positions=limits, seed=seed, num_shards=processes
    )
    short = np.flatnonzero(words.max(axis=1) <= 4)
    assert len(short) > 40  # which are sorted together by one process
    expected = paper_batches(*words.T, 2, seed, candidates=short, group=20 * processes)
    assert [list(batch) for batch in found.batch_sampler] == [list(batch) for batch in expected]


def test_a_run_resumed_in_a_later_epoch_has_that_epochs_batches(small_corpus, tmp_path):
    def second_epoch(first):
        task = task_with_data(small_corpus, tmp_path, batch_order="fairseq")
        data = task.dataset("train")
        found = task.get_batch_iterator(data, max_sentences=8, seed=3, epoch=first)
        for _ in range(first, 3):
            batches = [batch["id"].tolist() for batch in found.next_epoch_itr()]
        return batches

    assert second_epoch(1) == second_epoch(2)


# --- what is known again --------------------------------------------------------------------------


class Pairs(torch.utils.data.Dataset):
    """Sentence pairs that are their own numbers, with the lengths of both sides."""

    def __init__(self, sizes):
        self.sizes = sizes

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, pair):
        return pair

    @staticmethod
    def collater(batch):
        return [int(pair) for pair in batch]


def sizes(pairs=103, seed=3):
    return np.random.default_rng(seed).integers(1, 9, size=(pairs, 2))


def iterator(order, processes=1, process=0, *, batch_size=8, seed=4, lengths=None, **options):
    lengths = sizes() if lengths is None else lengths
    sharing = dict(num_shards=processes, shard_id=process, seed=seed, **options)
    data = Pairs(lengths)
    if order == "paper":
        batches = paper_batches(*lengths.T, batch_size, seed, group=20 * processes)
        return InOrderIterator(data, data.collater, batches, **sharing)

    def make(data, epoch):
        order = np.argsort(lengths[:, 1], kind="stable")
        return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]

    return ResumedIterator(data, data.collater, make, **sharing)


def used_and_state(order, updates, processes=1):
    """What all processes have used of the second epoch, and what the first one saves."""
    used, states = [], []
    for process in range(processes):
        begun = iterator(order, processes, process, epoch=2)
        batches = begun.next_epoch_itr()
        used.append([next(batches) for _ in range(updates)])
        states.append(begun.state_dict())
    assert all(state == states[0] for state in states)
    return [batch for update in zip(*used, strict=True) for batch in update], states[0]


def rest(order, state, processes=1, **options):
    shares = []
    for process in range(processes):
        again = iterator(order, processes, process, epoch=2, **options)
        again.load_state_dict(state)
        shares.append(list(again.next_epoch_itr()))
    return [batch for update in zip(*shares, strict=True) for batch in update if batch]


ORDERS = ["paper", "fairseq"]


@pytest.mark.parametrize("order", ORDERS)
def test_other_processes_go_on_with_the_same_batches(order):
    begun = {"version": 2, "epoch": 2, "iterations_in_epoch": 0}
    whole = rest(order, begun)
    assert sorted(pair for batch in whole for pair in batch) == list(range(103))
    assert all(rest(order, begun, processes) == whole for processes in (2, 7, 16))
    for before, updates, after in (
        (1, 6, 2),
        (1, 6, 3),
        (2, 3, 1),
        (2, 4, 4),
        (4, 2, 1),
        (3, 2, 6),
    ):
        used, state = used_and_state(order, updates, before)
        assert used + rest(order, state, after) == whole


@pytest.mark.parametrize("order", ORDERS)
def test_what_they_cannot_share_is_refused(order):
    _, state = used_and_state(order, 5)
    with pytest.raises(
        UserError, match=r"no batches of 2 processes begin behind its first [34]\d pairs"
    ):
        rest(order, state, 2)


def test_other_processes_share_the_updates_of_the_paper_s_order():
    """Eight pairs of each of two processes, 16 of one and four of each of four are one update."""
    used, state = used_and_state("paper", 3, 2)
    for processes, batch_size in ((1, 16), (4, 4)):
        left = rest("paper", state, processes, batch_size=batch_size)
        pairs = [pair for batch in used + left for pair in batch]
        assert pairs == [pair for batch in iterator("paper").batch_sampler for pair in batch]


CHANGES = {
    "batch size": {"batch_size": 9},
    "seed": {"seed": 5},
    "lengths": {"lengths": sizes(seed=4)},
    "one length": {"lengths": np.where(np.arange(103)[:, None] == 7, 9, sizes())},
    "a pair less": {"lengths": sizes()[:-1]},
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("change", CHANGES)
def test_other_batches_are_refused_within_an_epoch(order, change):
    _, state = used_and_state(order, 3)
    again = iterator(order, epoch=2, **CHANGES[change])
    why = "its pairs come in another order now"
    if order == "paper" and change == "batch size":  # all 103 pairs are sorted together
        why = "no batches of 1 process begin behind its first 24 pairs"
    with pytest.raises(UserError, match=rf"middle of epoch 2: {why}.*--seed"):
        again.load_state_dict(state)
    if change != "one length":  # checkpoints from before this have no order
        again.load_state_dict({name: state[name] for name in ("epoch", "iterations_in_epoch")})


@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 1), (1, 2)])
def test_an_older_checkpoint_of_several_processes_is_refused_within_an_epoch(before, after):
    state = {"epoch": 2, "iterations_in_epoch": 3, "shuffle": True, "processes": before}
    again = iterator("paper", after, epoch=2)
    with pytest.raises(UserError, match="the checkpoint is older, and of several processes or"):
        again.load_state_dict(state)
    again.load_state_dict(state | {"iterations_in_epoch": 0})


@pytest.mark.parametrize("order", ORDERS)
def test_at_its_end_an_epoch_is_forgotten(order):
    whole = iterator(order, epoch=2)
    list(whole.next_epoch_itr())
    state = whole.state_dict()
    assert "order" not in state
    again = iterator(order, batch_size=9, epoch=3)
    again.load_state_dict(state)
    assert again.next_epoch_idx == 3


def test_more_batches_than_there_are_is_no_bug_to_report():
    """Saved before there were fingerprints."""
    state = {"version": 2, "epoch": 2, "iterations_in_epoch": 9, "shuffle": True}
    with pytest.raises(UserError, match="9 of its batches have been used, and it has 6 now"):
        go_on_at(iterator("paper", epoch=2, batch_size=20), state)


# --- through a training ---------------------------------------------------------------------------


@pytest.mark.parametrize("order", cases(ORDERS))
def test_resumed_with_other_options(train, tmp_path, monkeypatch, order):
    """In the middle of the second epoch, and at its end."""
    train(tmp_path, batch_order=order, max_update=9)
    before = (tmp_path / LAST).read_bytes()
    for change in ({"batch_size": 3}, {"max_train_words": 4}):
        with pytest.raises(UserError, match=r"middle of epoch 2: .*in another order now"):
            train(tmp_path, batch_order=order, max_update=12, **change)
    assert (tmp_path / LAST).read_bytes() == before
    seen, step = [], AlignmentHeatmapTask.train_step

    def watched(self, sample, *more, **options):
        seen.extend(sample["id"].tolist())
        return step(self, sample, *more, **options)

    with monkeypatch.context() as patch:
        patch.setattr(AlignmentHeatmapTask, "train_step", watched)
        changes = {"batch_order": order, "batch_size": 10, "reset_dataloader": True}
        anew = train(tmp_path, **changes, max_epoch=2)
    assert "epoch 2 begins anew (--reset-dataloader)" in anew
    assert "begin training epoch 1" not in anew
    assert sorted(seen) == list(range(103))
    again = train(tmp_path, batch_order=order, batch_size=16, max_epoch=3)
    assert "(epoch 3 @ 20 updates)" in again and "num_updates 27" in again


@pytest.mark.slow
def test_two_processes_then_one_then_four(launchpad, small_corpus, tmp_path):
    options = f"{MODEL} {PAPER} --heatmap-samples 0 --no-epoch-checkpoints --seed 5"

    def together(processes, folder, *more):
        command = small_corpus.data, options, f"--save-dir={folder}", *more
        for finished in launchpad.train_together(processes, *command):
            finished.ok()

    one, folder = tmp_path / "one", tmp_path / "changing"
    together(1, one, "--batch-size 8 --max-epoch 1")
    together(2, folder, "--batch-size 4 --max-update 3")
    together(1, folder, "--batch-size 4 --update-freq 2 --max-update 7")
    together(4, folder, "--batch-size 2 --max-epoch 1")
    assert_equal_folders(folder, one, relative=1e-6, floor=1e-12)
