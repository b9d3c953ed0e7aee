"""An epoch is gone on with only where its pairs come in the order that it was begun with."""

import numpy as np
import pytest
import torch
from commands import (
    SIZES,
    Watch,
    assert_equal_folders,
    assert_equal_tensors,
    sides,
)
from models import task_with_data
from slow_cases import cases

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.paper.batch_order import paper_batches
from fairseq_rnnsearch.plugin.epoch_batches import InOrderIterator, ResumedIterator
from fairseq_rnnsearch.runs.resuming import go_on_at

pytest_plugins = ["trained"]

# 103 pairs: six batches of 20, seven of 16, eleven of 10; 20 batches of 5 or more have all of them
REST = (
    f"--arch rnnsearch_tiny {SIZES} --criterion cross_entropy --optimizer adam --lr 0.01"
    " --clip-norm 1 --seed 5 --no-epoch-checkpoints"
)
OPTIONS = f"{REST} --heatmap-samples 0"
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


def test_the_other_order_is_refused():
    for order, other in (ORDERS, ORDERS[::-1]):
        with pytest.raises(UserError, match="its pairs come in another order now"):
            iterator(other, epoch=2).load_state_dict(used_and_state(order, 3)[1])


@pytest.mark.parametrize("order", ORDERS)
def test_at_its_end_an_epoch_is_forgotten(order):
    whole = iterator(order, epoch=2)
    list(whole.next_epoch_itr())
    state = whole.state_dict()
    assert "order" not in state
    again = iterator(order, batch_size=9, epoch=3)
    again.load_state_dict(state)
    assert again.next_epoch_idx == 3


@pytest.mark.parametrize("order", ORDERS)
def test_an_epoch_s_own_data_is_not_kept_when_it_is_over(order, small_corpus, tmp_path):
    """As with several data folders, of which each epoch loads the next."""
    task = task_with_data(small_corpus, tmp_path, batch_order=order)
    for epoch in (1, 2, 3):
        task.load_dataset("train", epoch=epoch, combine=True)
        task.get_batch_iterator(
            task.dataset("train"),
            max_sentences=8,
            max_positions=task.max_positions(),
            epoch=epoch,
            disable_iterator_cache=True,
        )
    assert not task.dataset_to_epoch_iter


def test_more_batches_than_there_are_is_no_bug_to_report():
    """Saved before there were fingerprints."""
    state = {"version": 2, "epoch": 2, "iterations_in_epoch": 9, "shuffle": True}
    with pytest.raises(UserError, match="9 of its batches have been used, and it has 6 now"):
        go_on_at(iterator("paper", epoch=2, batch_size=20), state)


# --- through the training command -----------------------------------------------------------------


@pytest.mark.parametrize("order", cases(ORDERS))
def test_resumed_with_other_options(train, tmp_path, order):
    """In the middle of the second epoch, and at its end."""
    options = f"--batch-order {order}"
    train(tmp_path, options, "--batch-size 20 --max-update 9").ok()
    before = (tmp_path / LAST).read_bytes()
    for change in ("--batch-size 3", "--batch-size 20 --max-train-words 4"):
        message = train(tmp_path, options, "--max-update 12", change).error()
        assert (
            "cannot go on in the middle of epoch 2: its pairs come in another order now" in message
        )
    assert (tmp_path / LAST).read_bytes() == before
    watch = Watch(tmp_path / "watch")
    anew = train(
        tmp_path,
        options,
        f"--batch-size 10 --max-epoch 2 --reset-dataloader {watch.options}",
        **watch.environment,
    ).ok()
    assert "epoch 2 begins anew (--reset-dataloader)" in anew.out
    assert "begin training epoch 1" not in anew.out
    assert sorted(pair for batch in watch.batches() for pair in batch) == list(range(103))
    again = train(tmp_path, options, "--batch-size 16 --max-epoch 3").ok()
    assert "(epoch 3 @ 20 updates)" in again.out and "num_updates 27" in again.out


def test_fairseqs_own_task_is_no_bug_to_report_either(launchpad, small_corpus, tmp_path):
    command = small_corpus.data, f"{REST} --task translation --save-dir={tmp_path}"
    launchpad.train(*command, "--batch-size 16 --max-update 5").ok()
    message = launchpad.train(*command, "--batch-size 40 --max-update 6").error()
    assert "cannot go on in the middle of epoch 1: 5 of its batches have been used" in message


@pytest.mark.slow
def test_two_processes_then_one_then_four(launchpad, train, small_corpus, tmp_path):
    options = "--optimizer rnnsearch_adadelta"  # Adam makes much of a rounding
    train(tmp_path / "one", options, "--batch-size 8 --max-epoch 1").ok()
    folder = tmp_path / "changing"

    def together(processes, *more):
        for finished in launchpad.train_together(
            processes, small_corpus.data, OPTIONS, options, f"--save-dir={folder}", *more
        ):
            finished.ok()

    together(2, "--batch-size 4 --max-update 3")
    train(folder, options, "--batch-size 4 --update-freq 2 --max-update 7").ok()
    together(4, "--batch-size 2 --max-epoch 1")
    assert_equal_folders(folder, tmp_path / "one", relative=1e-6, floor=1e-12)


# --- averages of parameters -----------------------------------------------------------------------

EMA = "--batch-size 20 --store-ema --ema-decay 0.9"


@pytest.mark.parametrize("kind", cases(["--ema-fp32 --ema-update-freq 2", "--ema-fp32"]))
def test_averages_are_resumed(train, tmp_path, kind):
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    train(whole, EMA, kind, "--max-update 6").ok()
    for end in (3, 6):
        train(broken, EMA, kind, f"--max-update {end}").ok()
    averages = [
        torch.load(folder / LAST, weights_only=True)["extra_state"]["ema"]
        for folder in (broken, whole)
    ]
    assert_equal_tensors(*averages)


def test_averages_may_begin_late(train, tmp_path):
    train(tmp_path, "--batch-size 20 --max-update 2").ok()
    before = torch.load(tmp_path / LAST, weights_only=True)["model"]
    late = train(tmp_path, EMA, "--max-update 3").ok()
    assert "the averages begin with the parameters of" in late.out
    saved = torch.load(tmp_path / LAST, weights_only=True)
    for name, average in saved["extra_state"]["ema"].items():
        expected = 0.9 * before[name] + 0.1 * saved["model"][name]
        assert torch.allclose(average, expected, rtol=1e-6, atol=1e-8), name
