"""A training that was interrupted and continued ends with the numbers of one that was not."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from commands import assert_equal_tensors, parameters_and_optimizer
from fairseq.trainer import Trainer

from fairseq_rnnsearch.runs import resuming
from fairseq_rnnsearch.runs.trainer import ResumableTrainer

# six updates an epoch; 9 is in the middle of the second
UPDATES = 9
LAST = "checkpoint_last.pt"
EMA = {"store_ema": True, "ema_decay": 0.9, "ema_fp32": True}
KINDS = {
    "the paper's order and optimizer": {"optimizer": "rnnsearch_adadelta"},
    "fairseq's order, Adam and averages, in bfloat16": {
        **EMA, "ema_update_freq": 2, "cost_scale": "word", "lr_scheduler": "inverse_sqrt",
        "warmup_updates": 4, "batch_order": "fairseq", "compute_dtype": "bfloat16",
    },
}  # fmt: skip


def read(folder):
    return torch.load(folder / LAST, weights_only=True)


def sentences_read(folder):
    groups = read(folder)["extra_state"]["metrics"]
    meters = {name: {row[1]: row[3] for row in rows} for name, rows in groups.items()}
    return {name: rows["bsz"]["sum"] for name, rows in meters.items() if "bsz" in rows}


@pytest.mark.parametrize("kind", KINDS)
def test_continued_after_any_update_it_ends_the_same(train, tmp_path, kind):
    options = {**KINDS[kind], "dropout": 0.2, "save_interval_updates": 1}
    whole = tmp_path / "whole"
    train(whole, **options, max_update=UPDATES)
    expected = parameters_and_optimizer(whole / LAST)
    for name in ("checkpoint_1_3.pt", "checkpoint1.pt", "checkpoint_2_8.pt"):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(whole / name, folder / LAST)
        with pytest.raises(AssertionError):  # the comparison would notice
            assert_equal_tensors(parameters_and_optimizer(folder / LAST), expected)
        assert "Loaded checkpoint" in train(folder, **options, max_update=UPDATES)
        assert_equal_tensors(parameters_and_optimizer(folder / LAST), expected)
        if name != "checkpoint1.pt":  # where fairseq counts anew
            assert sentences_read(folder) == sentences_read(whole)
        averages = [read(one)["extra_state"].get("ema", {}) for one in (folder, whole)]
        assert_equal_tensors(*averages)


def test_averages_may_begin_late(train, tmp_path):
    train(tmp_path, max_update=2)
    before = read(tmp_path)["model"]
    said = train(tmp_path, **EMA, max_update=3)
    assert "the averages begin with the parameters of" in said
    saved = read(tmp_path)
    for name, average in saved["extra_state"]["ema"].items():
        expected = 0.9 * before[name] + 0.1 * saved["model"][name]
        assert torch.allclose(average, expected, rtol=1e-6, atol=1e-8), name


def test_patience_counts_on_after_a_resume(train, tmp_path):
    # nothing is learned, so that the first validation remains the best
    options = dict(lr=[0.0], patience=3, batch_size=60, save_interval_updates=0)
    train(tmp_path, **options, max_epoch=2)
    again = train(tmp_path, **options, max_epoch=9)
    assert "hasn't improved for last 3 runs" in again
    assert "end of epoch 4 " in again and "begin training epoch 5" not in again
    anew = train(tmp_path, **options, max_epoch=9, reset_meters=True)
    assert "end of epoch 5 " in anew  # as fairseq forgets the best loss with the meters


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
