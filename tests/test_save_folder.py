"""A save folder belongs to one training at a time, and no training begins anew in it by mistake."""

import math
import os
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from commands import assert_equal_tensors, parameters_and_optimizer
from fairseq.dataclass.configs import CheckpointConfig, FairseqConfig
from models import checkpoint_state
from omegaconf import OmegaConf
from trainings import train_here

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import lock
from fairseq_rnnsearch.runs import resuming
from fairseq_rnnsearch.runs.resuming import LOCK, choose_beginning, lock_and_verify

LAST, BEST = "checkpoint_last.pt", "checkpoint_best.pt"
TEN, EIGHT = "checkpoint_2_10.pt", "checkpoint_2_8.pt"


def read(checkpoint):
    return torch.load(checkpoint, weights_only=True)


def updates(checkpoint):
    return read(checkpoint)["optimizer_history"][-1]["num_updates"]


# --- where a training begins: on files made by hand -----------------------------------------------


def write(path, made, restore_file=LAST, **changes):
    """Write a checkpoint of so many updates."""
    history = {"criterion_name": "", "lr_scheduler_state": {}, "num_updates": made}
    state = checkpoint_state(
        model={"weight": torch.arange(5000.0)},
        cfg={"checkpoint": {"restore_file": str(restore_file)}},
        optimizer_history=[history],
        extra_state={"train_iterator": {"epoch": 2}},
        last_optimizer_state={"state": {}},
    )
    torch.save(state | changes, path)
    return path


@pytest.fixture
def begun(tmp_path):
    """A save folder in which a training has come to update 10."""
    folder = tmp_path / "begun"
    folder.mkdir()
    for name, made in {LAST: 10, BEST: 10, TEN: 10, EIGHT: 8}.items():
        write(folder / name, made)
    return folder


@pytest.fixture
def other(tmp_path):
    """A checkpoint of another training."""
    return write(tmp_path / "other.pt", 4)


def choose(folder, **options):
    return choose_beginning(CheckpointConfig(save_dir=str(folder), **options)).get("restore_file")


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def zero(path):  # what some file systems make of a file that was not flushed
    path.write_bytes(bytes(path.stat().st_size))


def flip(path):
    """Flip one bit of the largest part; between parts is padding, which nobody reads."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        part = archive.read(max(archive.infolist(), key=lambda part: part.file_size))
    content[content.index(part) + len(part) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = {  # what is done to which files, and which one takes the place of the last
    "truncated": ({LAST: truncate}, BEST),
    "empty": ({LAST: empty}, BEST),
    "zeros": ({LAST: zero}, BEST),
    "one bit": ({LAST: flip}, BEST),
    "missing": ({LAST: Path.unlink}, BEST),
    "two, the last the best": ({LAST: flip, BEST: truncate}, TEN),
    "three": ({LAST: truncate, BEST: flip, TEN: empty}, EIGHT),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_older_one_takes_the_place_of_a_damaged(begun, caplog, damage):
    changes, other = DAMAGES[damage]
    for spelling in (str(begun), f"{begun}/", f"{begun.parent}/./{begun.name}"):
        assert Path(choose(spelling)) == begun / LAST and not caplog.messages
    for name, change in changes.items():
        change(begun / name)
    assert choose(begun) == str(begun / other)
    (warning,) = caplog.messages
    assert all(str(begun / name) in warning for name in (*changes, other))


def test_the_newest_is_the_last_whatever_its_name(begun, caplog):
    """A signal under --no-last-checkpoints has left a last one, and the training has gone on."""
    shutil.copy(begun / EIGHT, begun / LAST)
    assert choose(begun) == str(begun / BEST)  # as new as TEN
    assert len(caplog.messages) == 1
    assert choose(begun, no_last_checkpoints=True) == str(begun / BEST)
    assert len(caplog.messages) == 1


def test_the_last_is_never_copied_onto_itself(begun):
    written = (begun / LAST).stat().st_ino
    resuming._beginning(CheckpointConfig(save_dir=f"{begun}/"))
    assert (begun / LAST).stat().st_ino == written
    (begun / LAST).unlink()
    resuming._beginning(CheckpointConfig(save_dir=f"{begun}/"))
    assert (begun / LAST).read_bytes() == (begun / BEST).read_bytes()


def test_what_holds_no_training_takes_no_place(begun, tmp_path):
    """A model without its optimizer, say, under the name of a checkpoint."""
    write(tmp_path / "checkpoint9.pt", 12, last_optimizer_state=None)
    with pytest.raises(UserError, match=r"checkpoint9.pt cannot"):
        choose(tmp_path)
    shutil.copy(begun / EIGHT, tmp_path)
    assert choose(tmp_path) == str(tmp_path / EIGHT)


@pytest.mark.parametrize("option", ["restore_file", "finetune_from_model", "continue_once"])
def test_a_new_training_begins_at_what_is_named(option, other, tmp_path):
    new = tmp_path / "new"
    assert choose(new) is None
    # where --restore-file says so already, nothing is changed
    assert choose(new, **{option: str(other)}) in (None, str(other))
    with pytest.raises(UserError, match=r"nowhere\.pt does not exist"):
        choose(new, **{option: "nowhere.pt"})


RESETS = {"reset_optimizer": True, "reset_dataloader": True, "reset_meters": True}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"restore_file": "{other}"}, "--restore-file .* is not in --save-dir"),
        ({"restore_file": "{other}", **RESETS}, "--restore-file .* is not in --save-dir"),
        ({"restore_file": "{other}", "no_last_checkpoints": True}, "is not in --save-dir"),
        ({"restore_file": "{other}", "finetune_from_model": "{other}"}, "exclude each other"),
        ({"finetune_from_model": "{other}", "reset_meters": True}, "exclude each other"),
        ({"finetune_from_model": f"{{begun}}/{LAST}"}, "--finetune-from-model .* is in --save-dir"),
    ],
)
def test_beginnings_that_would_overwrite_or_make_no_sense(begun, other, options, named):
    (link := begun.with_name("link")).symlink_to(begun)
    given = {
        name: value.format(begun=begun, other=other) if isinstance(value, str) else value
        for name, value in options.items()
    }
    for folder in (begun, link):
        with pytest.raises(UserError, match=named):
            choose(folder, **given)


def test_a_damaged_one_is_not_begun_from(begun, other):
    flip(other)
    with pytest.raises(UserError, match=r"other\.pt is damaged"):
        choose(begun.with_name("new"), restore_file=str(other))
    for path in begun.iterdir():
        truncate(path)
    for options in ({}, {"finetune_from_model": str(other)}):
        with pytest.raises(UserError, match=r"no other checkpoint to go on from") as refused:
            choose(begun, **options)
        assert all(path.name in str(refused.value) for path in begun.iterdir())


def test_what_saves_nothing_may_begin_anywhere(begun, other):
    assert choose(begun, restore_file=str(other), no_save=True) is None


@pytest.mark.parametrize("through_a_link", [True, False])
def test_going_back_on_purpose(begun, through_a_link):
    """To a checkpoint of the save folder; the same command again would do it again."""
    (link := begun.with_name("link")).symlink_to(begun)
    earlier = str((link if through_a_link else begun) / EIGHT)
    assert choose(begun, restore_file=earlier) is None
    write(begun / LAST, 11, restore_file=earlier)
    with pytest.raises(UserError, match=r"has begun the training of .* already"):
        choose(begun, restore_file=earlier)
    assert choose(begun, restore_file=str(begun / LAST)) is None
    write(begun / LAST, 12)  # the training has gone on
    assert choose(begun, restore_file=earlier) is None


def test_what_resets_says_that_it_would_again(begun, caplog):
    assert choose(begun, reset_optimizer=True) == str(begun / LAST)
    assert "--reset-optimizer with" in caplog.text
    # the newest is that of two updates after the reset, not that of ten before
    history = [{"num_updates": 10}, {"num_updates": 2}]
    write(begun / EIGHT, 2, optimizer_history=history)
    assert choose(begun, no_last_checkpoints=True) == str(begun / EIGHT)


# --- how it goes on -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(small_corpus, tmp_path_factory):
    """The folder of a training of four updates."""
    folder = tmp_path_factory.mktemp("trained")
    train_here(small_corpus.data, folder, max_update=4)
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "folder")


def test_a_training_without_its_optimizer_s_state_does_not_go_on(train, folder):
    """fairseq would count updates from 0 again, in a finished training too."""
    torch.save(read(folder / LAST) | {"last_optimizer_state": None}, folder / LAST)
    for path in folder.glob("checkpoint_*_*.pt"):
        path.unlink()
    (folder / BEST).unlink()
    with pytest.raises(UserError, match=f"{LAST} has weights"):
        train(folder, max_update=9)
    assert "(epoch 1 @ 0 updates)" in train(folder, max_update=1, reset_optimizer=True)


def test_another_measure_of_validations_begins_anew(train, folder):
    """A perplexity is no better than a loss of more bits: the old best would stay for ever."""
    begun = read(folder / LAST)["extra_state"]["best"]
    said = train(folder, max_update=6, best_checkpoint_metric="ppl")
    assert "--best-checkpoint-metric was loss and is ppl" in said
    assert read(folder / LAST)["extra_state"]["best"] != begun
    assert "was loss" not in train(folder, max_update=8, best_checkpoint_metric="ppl")


def test_a_plateau_is_of_one_measure(train, tmp_path):
    plateau = {"lr_scheduler": "reduce_lr_on_plateau", "save_interval_updates": 0}
    train(tmp_path, **plateau, max_epoch=1, best_checkpoint_metric="nll_loss")
    train(tmp_path, **plateau, max_epoch=3)
    saved = read(tmp_path / LAST)
    schedule = saved["optimizer_history"][-1]["lr_scheduler_state"]
    assert saved["extra_state"]["best"] <= schedule["best"] < math.inf  # a loss, not fewer bits


def test_another_schedule_is_refused_or_begun(train, folder):
    for name in ("inverse_sqrt", "fixed"):
        with pytest.raises(UserError, match=f"--lr-scheduler {name}: .*--reset-lr-scheduler"):
            train(folder, lr_scheduler=name)
        end = updates(folder / LAST) + 1
        train(folder, lr_scheduler=name, max_update=end, reset_lr_scheduler=True)
        assert updates(folder / LAST) == end


def test_the_best_validation_is_remembered(train, folder):
    saved = read(folder / LAST)
    saved["extra_state"]["best"] = 0.0  # nothing later is better
    torch.save(saved, folder / LAST)
    best = (folder / BEST).read_bytes()
    train(folder, max_update=6)
    assert read(folder / LAST)["extra_state"]["best"] == 0.0
    assert (folder / BEST).read_bytes() == best


def test_the_hours_of_a_training_are_its_own(train, folder, tmp_path):
    """A finished training makes no update, and a fine-tuning has all of its time."""
    saved = read(folder / LAST)
    saved["extra_state"]["previous_training_time"] = 3601.0
    torch.save(saved, folder / LAST)
    said = train(folder, stop_time_hours=1, max_update=6)
    assert "Stopping training due to cumulative_training_time: 1.0" in said
    assert updates(folder / LAST) == 4
    tuned = tmp_path / "tuned"
    train(tuned, stop_time_hours=1, max_update=2, finetune_from_model=str(folder / LAST))
    assert updates(tuned / LAST) == 2


@pytest.mark.parametrize(
    ("option", "keeps_last"),
    [("finetune_from_model", True), ("finetune_from_model", False), ("continue_once", False)],
)
def test_what_began_from_another_model_goes_on_from_its_own(
    train, trained, tmp_path, option, keeps_last
):
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    options = {option: str(trained / LAST), "no_last_checkpoints": not keeps_last}
    began = {"finetune_from_model": 0, "continue_once": 4}[option]
    said = train(whole, **options, patience=9, max_update=began + 4)
    assert f"@ {began} updates)" in said
    first = read(min(whole.glob("checkpoint_*_*.pt"), key=updates))
    assert first["extra_state"]["patience"]["num_runs"] == 0
    assert first["cfg"]["checkpoint"][option] == str(trained / LAST)
    train(broken, **options, patience=9, max_update=began + 2)
    if keeps_last:
        (broken / LAST).unlink()
    again = train(broken, **options, patience=9, max_update=began + 4)
    assert f"@ {began + 2} updates)" in again and ("WARNING" in again) == keeps_last
    found, expected = (
        parameters_and_optimizer(max(path.glob("checkpoint_*_*.pt"), key=updates))
        for path in (broken, whole)
    )
    assert_equal_tensors(found, expected)


# --- one training at a time -----------------------------------------------------------------------


def test_a_folder_in_use_is_refused(train, folder):
    descriptor = lock(folder / LOCK)
    with pytest.raises(UserError, match=f"--save-dir {folder} is in use by another training"):
        train(folder, max_update=9)
    os.close(descriptor)
    for _ in range(2):  # of one program, as fairseq-hydra-train -m makes them
        lock_and_verify(lambda _: None, str(folder))
    with pytest.raises(BlockingIOError):
        lock(folder / LOCK)


# --- processes on a machine with GPUs -------------------------------------------------------------


def started(monkeypatch, cpu, gpus, launched=(), **options):
    """How fairseq starts a training on a machine with so many GPUs."""
    from fairseq.distributed import utils

    from fairseq_rnnsearch.runs.processes import share_and_call

    for name, value in dict(launched).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    begun = []
    monkeypatch.setattr(utils, "distributed_main", lambda *given: begun.append("torchrun"))
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *given, **options: None)
    monkeypatch.setattr(torch.multiprocessing, "spawn", lambda **given: begun.append("spawned"))
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.common.cpu = cpu
    cfg.distributed_training.update({"distributed_world_size": max(1, gpus)} | options)
    share_and_call(utils.call_main, cfg, lambda cfg: begun.append("alone"))
    found = cfg.distributed_training
    # torch's wants to know the GPUs
    assert found.ddp_backend == ("legacy_ddp" if cpu or not gpus else "pytorch_ddp")
    return *begun, found.distributed_world_size, found.distributed_backend


TORCHRUN = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "RANK": "0", "WORLD_SIZE": "2"}


@pytest.mark.parametrize("gpus", [0, 1, 2])
def test_processes_without_gpus(monkeypatch, gpus):
    assert started(monkeypatch, True, gpus) == ("alone", 1, "nccl")
    for options in ({"distributed_world_size": 3}, {"distributed_init_method": "tcp://localhost"}):
        with pytest.raises(UserError, match="needs as many GPUs, and none is used"):
            started(monkeypatch, True, gpus, **options)
    assert started(monkeypatch, True, gpus, TORCHRUN) == ("torchrun", 2, "gloo")


@pytest.mark.parametrize(("gpus", "how"), [(1, "alone"), (2, "spawned")])
def test_processes_with_gpus(monkeypatch, gpus, how):
    """Two machines of one GPU each are one training too."""
    assert started(monkeypatch, False, gpus) == (how, gpus, "nccl")
    assert started(monkeypatch, False, gpus, TORCHRUN) == ("torchrun", 2, "nccl")
