"""A save folder belongs to one training at a time, and no training begins anew in it by mistake."""

import math
import shutil
import signal

import pytest
import torch
from commands import MODEL, ROOT, assert_equal_tensors, parameters_and_optimizer
from fairseq.dataclass.configs import FairseqConfig
from launchpad import Strike
from omegaconf import OmegaConf
from slow_cases import cases

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.models.conversion import to_checkpoint, to_folder
from fairseq_rnnsearch.runs.resuming import LOCK, lock_and_verify

pytest_plugins = ["trained"]

OPTIONS = (
    f"{MODEL} --criterion alignment_heatmap --optimizer adam --lr 0.01 --clip-norm 1"
    " --batch-size 20 --heatmap-samples 0 --seed 5 --save-interval-updates 2"
)
LAST = "checkpoint_last.pt"


def updates(checkpoint):
    history = torch.load(checkpoint, weights_only=True)["optimizer_history"]
    return history[-1]["num_updates"]


@pytest.fixture(scope="module")
def other(train, tmp_path_factory):
    """A training of another folder, to begin from."""
    folder = tmp_path_factory.mktemp("other")
    train(folder, "--max-update 4").ok()
    return folder / LAST


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def refused(train):
    def refused(folder, *more, **options):
        before = contents(folder)
        message = train(folder, "--max-update 9", *more, **options).error()
        assert contents(folder) == before
        return message

    return refused


def test_a_model_without_a_training_is_named_so(train, other, small_corpus, tmp_path):
    to_folder(str(other), str(small_corpus.data), tmp_path / "folder")
    to_checkpoint(str(tmp_path / "folder"), tmp_path / "model.pt")
    begin = f"--max-update 2 --restore-file={tmp_path / 'model.pt'}"
    refused = train(tmp_path / "new", begin).error()
    assert "a model and no training to go on with: give it as --finetune-from-model" in refused


def test_a_training_without_its_optimizer_s_state_does_not_go_on(train, refused, tmp_path):
    """fairseq would count updates from 0 again, in a finished training too."""
    train(tmp_path, "--max-update 4 --no-save-optimizer-state").ok()
    for options in ("", f"--restore-file={tmp_path / LAST}"):
        message = refused(tmp_path, "--no-save-optimizer-state", *options.split())
        assert f"{LAST} holds a model and no training to go on with" in message
    anew = train(tmp_path, "--max-update 2 --reset-optimizer").ok()
    assert "(epoch 1 @ 0 updates)" in anew.out


def test_another_measure_of_validations_begins_anew(train, other, tmp_path):
    """A perplexity is no better than a loss of more bits: the old best would stay for ever."""
    shutil.copy(other, tmp_path / LAST)
    begun = torch.load(tmp_path / LAST, weights_only=True)["extra_state"]["best"]
    went_on = train(tmp_path, "--max-update 6", "--best-checkpoint-metric ppl").ok()
    assert "--best-checkpoint-metric was loss and is ppl: the best validation" in went_on.out
    assert torch.load(tmp_path / LAST, weights_only=True)["extra_state"]["best"] != begun
    assert (tmp_path / "checkpoint_best.pt").exists()
    again = train(tmp_path, "--max-update 8", "--best-checkpoint-metric ppl").ok()
    assert "was loss" not in again.out


def test_a_plateau_is_of_one_measure(train, tmp_path):
    plateau = "--lr-scheduler reduce_lr_on_plateau", "--max-epoch"
    train(tmp_path, *plateau, "2", "--best-checkpoint-metric nll_loss").ok()
    train(tmp_path, *plateau, "4").ok()
    saved = torch.load(tmp_path / LAST, weights_only=True)
    schedule = saved["optimizer_history"][-1]["lr_scheduler_state"]
    assert saved["extra_state"]["best"] <= schedule["best"] < math.inf  # a loss, not fewer bits


# --- where a training begins --------------------------------------------------------------------

BEGINNINGS = ["--finetune-from-model", "--continue-once"]


@pytest.mark.parametrize(
    "beginning",
    cases([(BEGINNINGS[0], True), (BEGINNINGS[0], False), (BEGINNINGS[1], False)]),
)
def test_what_began_from_another_model_goes_on_from_its_own(train, other, tmp_path, beginning):
    option, keeps_last = beginning
    folder, whole = tmp_path / "broken", tmp_path / "whole"
    options = [f"{option}={other}", *["--no-last-checkpoints"] * (not keeps_last)]
    end = "--max-update 8" if option == BEGINNINGS[0] else "--max-update 12"
    train(whole, *options, end).ok()
    train(folder, *options, "--max-update 6").ok()
    if keeps_last:
        (folder / LAST).unlink()
    again = train(folder, *options, end).ok()
    assert "@ 6 updates)" in again.out
    assert ("WARNING" in again.out) == keeps_last
    found, expected = (
        parameters_and_optimizer(max(path.glob("checkpoint_*_*.pt"), key=updates))
        for path in (folder, whole)
    )
    assert_equal_tensors(found, expected)


@pytest.mark.parametrize("change", [("fixed", "inverse_sqrt"), ("inverse_sqrt", "fixed")])
def test_another_schedule_is_refused_or_begun(train, refused, tmp_path, change):
    before, after = (f"--optimizer adam --lr-scheduler {name}" for name in change)
    train(tmp_path, before, "--max-update 2").ok()
    message = refused(tmp_path, after)
    assert f"--lr-scheduler {change[1]}: it was trained with " in message
    assert message.endswith("; --reset-lr-scheduler begins the new one")
    train(tmp_path, after, "--max-update 3 --reset-lr-scheduler").ok()


def test_a_fine_tuning_counts_for_itself(train, other, tmp_path):
    """Updates, epochs, and for --patience the best validation."""
    anew = train(tmp_path, f"--finetune-from-model={other}", "--patience 1 --max-update 2").ok()
    assert f"Loaded checkpoint {other} (epoch 1 @ 0 updates)" in anew.out
    saved = torch.load(tmp_path / LAST, weights_only=True)
    assert saved["extra_state"]["train_iterator"]["epoch"] == 1
    assert saved["extra_state"]["patience"]["num_runs"] == 0
    assert saved["cfg"]["checkpoint"]["finetune_from_model"] == str(other)


def test_the_hours_of_a_training_are_its_own(train, tmp_path):
    """A finished training makes no update, and a fine-tuning has all of its time."""
    train(tmp_path, "--max-update 2").ok()
    saved = torch.load(tmp_path / LAST, weights_only=True)
    saved["extra_state"]["previous_training_time"] = 3601.0
    torch.save(saved, tmp_path / LAST)
    limits = "--stop-time-hours 1 --max-update 4"
    again = train(tmp_path, limits).ok()
    assert "Stopping training due to cumulative_training_time: 1.0" in again.out
    assert updates(tmp_path / LAST) == 2
    train(tmp_path / "tuned", f"--finetune-from-model={tmp_path / LAST}", limits).ok()
    assert updates(tmp_path / "tuned" / LAST) == 4


def test_a_fine_tuning_whose_checkpoints_are_all_damaged(refused, other, tmp_path):
    for name in ("checkpoint1.pt", "checkpoint_1_2.pt"):
        (tmp_path / name).write_bytes(other.read_bytes()[:1000])
    message = refused(tmp_path, f"--finetune-from-model={other}")
    assert "checkpoint1.pt" in message and "no other checkpoint to go on from" in message


@pytest.fixture
def begun(other, tmp_path):
    """A save folder in which another training has come to update 4."""
    return shutil.copytree(other.parent, tmp_path / "begun")


def test_another_checkpoint_does_not_begin_anew_where_there_are_some(
    train, refused, begun, other, tmp_path
):
    resets = "--reset-optimizer --reset-dataloader --reset-meters"
    (tmp_path / "link").symlink_to(begun)
    named = f"--restore-file={other}"
    for folder, options in (
        (begun, [named]),
        (begun, [named, resets]),
        (tmp_path / "link", [named, resets]),
        (begun, [named, "--no-last-checkpoints"]),
    ):
        message = refused(folder, *options)
        assert f"--restore-file {other} is not in --save-dir {folder}" in message
        assert "name another --save-dir or remove what is there" in message
    assert "(epoch 1 @ 0 updates)" in train(begun, named, resets, "--max-update 1 --no-save").out
    new = tmp_path / "new"
    assert "@ 0 updates)" in train(new, named, resets, "--max-update 2").ok().out
    assert "leave out --restore-file" in refused(new, named, resets)  # the same command again
    train(new, "--max-update 4").ok()
    assert updates(new / LAST) == 4


@pytest.mark.parametrize("through_a_link", cases([True, False]))
def test_going_back_on_purpose(train, refused, begun, tmp_path, through_a_link):
    """To a checkpoint of the save folder; the same command again would do it again."""
    (tmp_path / "link").symlink_to(begun)
    earlier = begun / "checkpoint_1_2.pt"
    named = f"--restore-file={tmp_path / 'link' / earlier.name if through_a_link else earlier}"
    assert "@ 2 updates)" in train(begun, named, "--max-update 3").ok().out
    message = refused(begun, named)
    assert f"has begun the training of {begun / LAST} already" in message
    moved = begun.rename(tmp_path / "moved")
    assert "has begun the training of " in refused(moved, f"--restore-file={moved / earlier.name}")
    moved.rename(begun)
    assert "@ 3 updates)" in train(begun, "--max-update 5").ok().out
    assert "@ 2 updates)" in train(begun, named, "--max-update 3").ok().out


def test_the_last_one_may_be_named(train, begun):
    for end in (5, 6):
        again = train(begun, f"--restore-file={begun / LAST}", f"--max-update {end}").ok()
        assert f"@ {end - 1} updates)" in again.out


def test_what_resets_says_that_it_would_again(train, begun):
    again = train(begun, "--reset-optimizer --max-update 2 --no-last-checkpoints").ok()
    assert "--reset-optimizer with" in again.out and "(epoch 1 @ 0 updates)" in again.out
    # the newest is that of two updates, not that of four before
    again = train(begun, "--max-update 3 --no-last-checkpoints").ok()
    assert "@ 2 updates)" in again.out


EXCLUSIVE = {
    "--finetune-from-model={} --restore-file={}": "exclude each other",
    "--finetune-from-model={} --reset-meters": "exclude each other",
    "--finetune-from-model=nowhere.pt": "--finetune-from-model nowhere.pt does not exist",
    "--continue-once=nowhere.pt": "--continue-once nowhere.pt does not exist",
}


def test_beginnings_that_make_no_sense(refused, begun, other, tmp_path):
    for options, message in EXCLUSIVE.items():
        assert message in refused(tmp_path / "new", options.format(other, other))
    own = begun / LAST
    assert f"{own} is in --save-dir {begun}" in refused(begun, f"--finetune-from-model={own}")


@pytest.mark.slow
def test_all_processes_begin_where_the_first_does(launchpad, small_corpus, begun, other):
    def begin(*more):
        return launchpad.train_together(
            2, small_corpus.data, OPTIONS, f"--save-dir={begun}", "--max-update 6", *more
        )

    first, second = begin(f"--restore-file={other}")
    assert first.rc == second.rc == 1
    assert "is not in --save-dir" in first.out and "error:" not in second.out
    (begun / LAST).unlink()
    first, second = begin(f"--finetune-from-model={other}", "--reset-dataloader")
    assert "exclude each other" in first.out and "Traceback" not in first.out + second.out
    for finished in begin(f"--finetune-from-model={other}"):
        finished.ok()
    assert updates(begun / LAST) == 6


def test_the_best_validation_is_remembered(train, begun):
    saved = torch.load(begun / LAST, weights_only=True)
    saved["extra_state"]["best"] = 0.0  # nothing later is better
    torch.save(saved, begun / LAST)
    best = (begun / "checkpoint_best.pt").read_bytes()
    train(begun, "--max-update 6").ok()
    assert torch.load(begun / LAST, weights_only=True)["extra_state"]["best"] == 0.0
    assert (begun / "checkpoint_best.pt").read_bytes() == best


# --- one training at a time -----------------------------------------------------------------------


def test_a_folder_in_use_is_refused(launchpad, small_corpus, refused, begun):
    for _ in range(2):  # of one program, as fairseq-hydra-train -m makes them
        lock_and_verify(lambda _: None, str(begun))
    message = refused(begun)
    assert f"--save-dir {begun} is in use by another training" in message
    together = launchpad.train_together(2, small_corpus.data, OPTIONS, f"--save-dir={begun}")
    assert [finished.rc for finished in together] == [1, 1]
    assert "is in use by another training" in together[0].out
    assert all("Traceback" not in finished.out for finished in together), together[1].out


def test_a_killed_training_frees_its_folder(train, tmp_path):
    killed = train(tmp_path, "--num-workers 2", strike=Strike("update", 4))
    assert killed.rc == -signal.SIGKILL
    assert (tmp_path / LOCK).exists()
    assert "@ 2 updates)" in train(tmp_path, "--max-update 3").ok().out
    assert not (tmp_path / LOCK).exists()


# --- processes on a machine with GPUs -------------------------------------------------------------

_ONE_GPU = """
import sys

import torch

import fairseq_rnnsearch

ASKING = "fairseq.distributed.utils", "fairseq_rnnsearch.runs.programs"
torch.cuda.is_available = lambda: sys._getframe(1).f_globals["__name__"] in ASKING
torch.cuda.device_count = lambda: 1
"""


def test_two_processes_without_the_gpu_are_one_training(launchpad, small_corpus, tmp_path):
    plugin = tmp_path / "one_gpu"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(_ONE_GPU)
    first, second = launchpad.train_together(
        2,
        small_corpus.data,
        f"{OPTIONS} --user-dir={plugin} --save-dir={tmp_path / 'model'} --max-update 2",
        PYTHONPATH=str(ROOT),
    )
    assert "training on 2 devices" in first.ok().out and "done training" in first.out
    assert "done training" not in second.ok().out  # only the first process reports


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


@pytest.mark.parametrize("gpus", [1, 2])
def test_processes_with_gpus(monkeypatch, gpus):
    """Two machines of one GPU each are one training too."""
    expected = ("alone", 1, "nccl") if gpus == 1 else ("spawned", 2, "nccl")
    assert started(monkeypatch, False, gpus) == expected
    assert started(monkeypatch, False, gpus, TORCHRUN) == ("torchrun", 2, "nccl")
