"""A training that was interrupted and continued ends with the numbers of one that was not."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from commands import (
    LAST_ONLY,
    MODEL,
    PAPER,
    assert_equal_tensors,
    parameters_and_optimizer,
    together,
    train,
)
from fairseq.trainer import Trainer
from slow_cases import cases

from fairseq_rnnsearch.runs import resuming
from fairseq_rnnsearch.runs.trainer import ResumableTrainer

pytest_plugins = ["trained"]

# six updates an epoch; 9 is in the middle of the second
UPDATES = 9
KINDS = {
    "the paper's order and optimizer": PAPER,
    "fairseq's order and Adam, in bfloat16": (
        "--criterion alignment_heatmap --cost-scale word --optimizer adam --lr 0.01"
        " --lr-scheduler inverse_sqrt --warmup-updates 4 --batch-order fairseq --batch-size 20"
        " --compute-dtype bfloat16"
    ),
}
OPTIONS = f"{MODEL} --dropout 0.2 --heatmap-samples 1 --save-interval-updates 1 --seed 5"


@pytest.fixture(scope="module", params=cases(KINDS))
def unbroken(request, small_corpus, tmp_path_factory):
    """The options of a training, and the folder of one that ran through."""
    folder = tmp_path_factory.mktemp("unbroken")
    options = f"{OPTIONS} {KINDS[request.param]}"
    train(small_corpus.data, folder, options, f"--max-update {UPDATES}").ok()
    return options, folder


def sentences_read(folder):
    saved = torch.load(folder / "checkpoint_last.pt", weights_only=True)
    groups = saved["extra_state"]["metrics"]
    meters = {name: {row[1]: row[3] for row in rows} for name, rows in groups.items()}
    return {name: rows["bsz"]["sum"] for name, rows in meters.items() if "bsz" in rows}


def test_continued_after_any_update_it_ends_the_same(unbroken, small_corpus, tmp_path):
    options, whole = unbroken
    expected = parameters_and_optimizer(whole / "checkpoint_last.pt")

    def stop_and_go_on(update):
        folder = tmp_path / str(update)
        train(small_corpus.data, folder, options, f"--max-update {update}").ok()
        again = train(small_corpus.data, folder, options, f"--max-update {UPDATES}").ok()
        assert f"@ {update} updates" in again.out  # "Loaded checkpoint ... (epoch 1 @ 3 updates)"
        assert sentences_read(folder) == sentences_read(whole)
        return parameters_and_optimizer(folder / "checkpoint_last.pt")

    def go_on_from(name):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(whole / name, folder / "checkpoint_last.pt")
        train(small_corpus.data, folder, options, f"--max-update {UPDATES}").ok()
        return parameters_and_optimizer(folder / "checkpoint_last.pt")

    for found in together(
        lambda: stop_and_go_on(3),
        lambda: go_on_from("checkpoint_1_5.pt"),
        lambda: go_on_from("checkpoint1.pt"),
        lambda: go_on_from("checkpoint_2_8.pt"),
    ):
        assert_equal_tensors(found, expected)


def test_the_comparison_would_notice(unbroken):
    _, whole = unbroken
    expected = parameters_and_optimizer(whole / "checkpoint_last.pt")
    with pytest.raises(AssertionError):
        assert_equal_tensors(parameters_and_optimizer(whole / "checkpoint_2_8.pt"), expected)


def test_patience_counts_on_after_a_resume(small_corpus, tmp_path):
    # nothing is learned, so that the first validation remains the best
    options = f"{MODEL} {LAST_ONLY} --criterion cross_entropy --optimizer sgd --lr 0 --patience 3"
    options += " --batch-size 60"
    train(small_corpus.data, tmp_path, options, "--max-epoch 2").ok()
    again = train(small_corpus.data, tmp_path, options, "--max-epoch 9").ok()
    assert "hasn't improved for last 3 runs" in again.out
    assert "end of epoch 4 " in again.out and "begin training epoch 5" not in again.out
    anew = train(small_corpus.data, tmp_path, options, "--max-epoch 9 --reset-meters").ok()
    assert "end of epoch 5 " in anew.out  # as fairseq forgets the best loss with the meters


def test_each_update_draws_other_numbers_as_in_fairseq():
    cfg = SimpleNamespace(common=SimpleNamespace(seed=5))

    def drawn(kind, updates):
        trainer = SimpleNamespace(cfg=cfg, cuda=False, tpu=False, get_num_updates=lambda: updates)
        kind._set_seed(trainer)
        return torch.rand(4).tolist()

    ours, theirs = ([drawn(kind, n) for n in (0, 7)] for kind in (ResumableTrainer, Trainer))
    assert ours == theirs and ours[0] != ours[1]


RESETS = ("reset_dataloader", "reset_lr_scheduler", "reset_optimizer")


@pytest.mark.parametrize(
    ("extra_state", "reset", "epoch", "batches", "steps"),
    [
        ({"val_loss": 2.5}, None, 3, 0, (2, 2.5)),  # the loss of the epoch that it ends
        ({"best": 1.0}, None, 3, 0, (2, None)),  # without a validation
        ({"val_loss": 2.5}, None, 3, 4, (3,)),
        ({"val_loss": 2.5}, None, 1, 0, (1,)),
        (None, None, 3, 0, (3,)),
        *(({"val_loss": 2.5}, name, 3, 0, (3,)) for name in RESETS),
    ],
)
def test_a_schedule_steps_as_in_a_whole_run(extra_state, reset, epoch, batches, steps):
    cfg = SimpleNamespace(**{name: name == reset for name in RESETS})
    iterator = SimpleNamespace(epoch=epoch, iterations_in_epoch=batches)
    taken = []
    trainer = SimpleNamespace(lr_step=lambda *given: taken.append(given))
    resuming._step_schedule(cfg, trainer, extra_state, iterator)
    assert taken == [steps]


@pytest.mark.parametrize(
    ("updates", "hours", "runs", "limits", "reason"),
    [
        (9, 2.5, 2, (10, 3, 3), None),
        (9, 3.0, 2, (10, 3, 3), None),
        (10, 2.5, 2, (10, 3, 3), "num_updates: 10 >= max_update: 10"),
        (9, 3.5, 2, (10, 3, 3), "cumulative_training_time: 3.5 > stop_time_hours: 3"),
        (9, 2.5, 3, (10, 3, 3), "valid performance hasn't improved for last 3 runs"),
        (99, 99.0, 99, (0, 0, -1), None),  # without limits
    ],
)
def test_a_run_that_is_over_is_named(monkeypatch, updates, hours, runs, limits, reason):
    most, most_hours, longest = limits
    trainer = SimpleNamespace(
        get_num_updates=lambda: updates,
        _previous_training_time=3600 * hours,
        cfg=SimpleNamespace(
            optimization=SimpleNamespace(max_update=most, stop_time_hours=most_hours),
            checkpoint=SimpleNamespace(patience=longest),
        ),
    )
    monkeypatch.setattr(resuming, "patience_count", lambda: {"best": 2.5, "num_runs": runs})
    found = resuming._reason_to_stop(trainer)
    assert found == reason or (reason and found.startswith(reason))


@pytest.mark.parametrize(
    ("reset", "has_checkpoint", "begun"),
    [
        ((), True, (3, 4)),
        ((), False, (1, None)),
        (("reset_dataloader",), True, (3, 0)),
        (("reset_optimizer",), True, (3, 4)),
        (("reset_dataloader", "reset_optimizer"), True, (1, None)),
    ],
)
def test_where_in_the_data_it_begins(reset, has_checkpoint, begun):
    """The epoch, and how many of its batches have been used; None if nothing is said of that."""
    cfg = SimpleNamespace(**{name: name in reset for name in RESETS})
    saved = {"train_iterator": {"epoch": 3, "iterations_in_epoch": 4}}
    placed = []
    iterator = SimpleNamespace(load_state_dict=placed.append)

    def get_train_iterator(epoch, load_dataset, **_):
        placed.append(epoch)
        return iterator

    trainer = SimpleNamespace(get_train_iterator=get_train_iterator, task=None)
    state = saved if has_checkpoint else None
    assert resuming._place_in_the_data(cfg, trainer, state, {}) is iterator
    epoch, *places = placed
    used = places[0]["iterations_in_epoch"] if places else None
    assert (epoch, used) == begun
