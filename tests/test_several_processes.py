"""torchrun with the plain training command, on processors without GPUs."""

import re
import signal
from types import SimpleNamespace

import pytest
import torch
from commands import (
    MODEL,
    PAPER,
    QUIET,
    SCRIPTS,
    TASK,
    Watch,
    assert_equal_folders,
    run_installed,
    together,
)
from launchpad import Strike, unused_port
from models import task_with_data
from slow_cases import cases
from trainings import configuration

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.runs import processes

# 103 pairs: six batches of twenty, the last of three; of seven ones of sixteen one process has four
# and the other three
OPTIONS = f"{MODEL} {PAPER} --heatmap-samples 2 --no-epoch-checkpoints --seed 2"


def torchrun(data, save_dir, *more, machines="--standalone --nproc_per_node 2"):
    """The real thing: each process that torchrun starts imports everything for itself."""
    return run_installed(
        *("torchrun", machines, SCRIPTS / "fairseq-train", data),
        *(f"{TASK} {QUIET} {OPTIONS} --batch-size 16 --save-dir={save_dir}", *more),
    )


@pytest.mark.slow
def test_torchrun_trains_one_model(launchpad, small_corpus, tmp_path):
    """Two epochs of two processes, of one that takes two batches for an update, of two machines."""
    both = torchrun(small_corpus.data, tmp_path / "two", "--max-epoch 2").ok()
    one = launchpad.train(
        small_corpus.data,
        f"{OPTIONS} --update-freq 2 --max-epoch 2 --batch-size 16 --save-dir={tmp_path / 'one'}",
    ).ok()
    assert both.out.count("done training in") == 1
    assert "training on 2 devices" in both.out
    assert re.findall(r"valid \| epoch (\d+) .* num_updates (\d+)", both.out) == [
        ("001", "4"),
        ("002", "8"),
    ]
    assert_equal_folders(tmp_path / "two", tmp_path / "one", relative=1e-6)
    nats = [re.findall(r"nats_per_sentence ([\d.]+)", finished.out) for finished in (both, one)]
    assert len(nats[0]) >= 2 and nats[0] == nats[1]
    pictures = (tmp_path / "two" / "heatmaps" / "epoch002").glob("*.png")
    names = [f"sentence000{i}-update0000008.png" for i in (1, 2)]
    assert sorted(picture.name for picture in pictures) == names
    # a torchrun for each machine, as the manual starts them; here both on this one
    machines = (
        f"--nnodes 2 --nproc_per_node 1 --master-addr 127.0.0.1 --master-port {unused_port()}"
    )
    data, folder = small_corpus.data, tmp_path / "machines"
    ended = together(
        lambda: torchrun(data, folder, "--max-epoch 2", machines=f"{machines} --node-rank 0"),
        lambda: torchrun(data, folder, "--max-epoch 2", machines=f"{machines} --node-rank 1"),
    )
    # torchrun may show that the other one, which had its store, has ended first
    assert [finished.rc for finished in ended] == [0, 0], ended[0].tail()
    assert_equal_folders(folder, tmp_path / "two")


@pytest.mark.slow
def test_a_refused_checkpoint_ends_all_of_them(small_corpus, tmp_path):
    (tmp_path / "checkpoint_last.pt").write_bytes(b"PK\3\4" + bytes(100))
    finished = torchrun(small_corpus.data, tmp_path, "--max-update 1")
    assert finished.rc != 0
    assert f"checkpoint {tmp_path / 'checkpoint_last.pt'} cannot be read" in finished.err


# --- without torchrun: processes begun as it begins them ----------------------------------------

QUICK = f"{OPTIONS} --max-update 6"


def begin(pad, processes, data, save_dir, *more, **options):
    """Each process's end."""
    return pad.train_together(processes, data, QUICK, f"--save-dir={save_dir}", *more, **options)


@pytest.fixture(scope="module")
def two_unbroken(launchpad, small_corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    for finished in begin(launchpad, 2, small_corpus.data, folder, "--batch-size 16"):
        finished.ok()
    return folder


@pytest.mark.slow
def test_four_processes_are_one_that_takes_four_batches(launchpad, small_corpus, tmp_path):
    """Eleven batches: the third update has two processes without a batch, one with a short one."""
    watches = Watch(tmp_path / "watch4"), Watch(tmp_path / "watch1")
    of_four = begin(
        launchpad,
        4,
        small_corpus.data,
        tmp_path / "four",
        f"--batch-size 10 {watches[0].options}",
        **watches[0].environment,
    )
    for finished in of_four:
        finished.ok()
    launchpad.train(
        small_corpus.data,
        f"{QUICK} --batch-size 10 --update-freq 4 --save-dir={tmp_path / 'one'}",
        watches[1].options,
        **watches[1].environment,
    ).ok()
    assert_equal_folders(tmp_path / "four", tmp_path / "one", relative=1e-6, floor=1e-12)
    shares = [watches[0].batches(process=process) for process in range(4)]
    assert [len(share) for share in shares] == [6, 6, 6, 4]
    in_order = watches[1].batches()
    for epoch in (0, 1):
        dealt = [share[len(share) // 2 * epoch :][: len(share) // 2] for share in shares]
        assert dealt == [in_order[11 * epoch :][:11][process::4] for process in range(4)]
        assert sorted(pair for share in dealt for batch in share for pair in batch) == list(
            range(103)
        )


SIGNALS = {"SIGTERM": 143, "SIGUSR1": 0}


@pytest.mark.parametrize("name", cases(SIGNALS, "SIGUSR1"))
def test_a_signal_to_one_stops_all_at_the_same_update(
    launchpad, two_unbroken, small_corpus, tmp_path, name
):
    strike = Strike("update", 3, signal.Signals[name])
    command = launchpad, 2, small_corpus.data, tmp_path, "--batch-size 16"
    stopped = begin(*command, strikes={1: strike})
    assert [process.rc for process in stopped] == [SIGNALS[name]] * 2, stopped[0].tail()
    assert f"Stopped by {name} @ 3 updates" in stopped[0].out
    assert all("Traceback" not in process.out for process in stopped)
    again = [process.ok() for process in begin(*command)]
    assert "@ 3 updates)" in again[0].out
    assert_equal_folders(tmp_path, two_unbroken)


KILLS = {
    "the second in an update": {1: Strike("update", 4)},
    "the first in its first save": {0: Strike("flush", 1)},
    "the first in its last save": {0: Strike("copy", 4)},
}


@pytest.mark.slow
@pytest.mark.parametrize("which", KILLS)
def test_when_one_is_killed_the_others_end_and_the_run_resumes(
    launchpad, two_unbroken, small_corpus, tmp_path, which
):
    command = launchpad, 2, small_corpus.data, tmp_path, "--batch-size 16 --save-interval-updates 2"
    ended = begin(*command, strikes=KILLS[which])
    (killed,) = KILLS[which]
    other = ended[1 - killed]
    assert ended[killed].rc == -signal.SIGKILL
    assert other.rc == 1 and "Traceback" not in other.out
    assert killed == 0 or len(re.findall(r"fairseq_rnnsearch: error: .*", other.out)) == 1
    for finished in begin(*command):
        finished.ok()
    assert_equal_folders(tmp_path, two_unbroken)


# --- what they agree on ---------------------------------------------------------------------------


@pytest.mark.parametrize("process", [0, 1])
def test_all_end_when_the_first_refuses(monkeypatch, process):
    trainer = SimpleNamespace(
        data_parallel_rank=process, data_parallel_world_size=2, data_parallel_process_group=None,
        device=None,
    )  # fmt: skip
    decided = []
    sent = processes.distributed_utils
    monkeypatch.setattr(sent, "broadcast_object", lambda mine, **_: [*mine, *decided])
    monkeypatch.setattr(processes.time, "sleep", lambda _: None)

    def refuse():
        raise UserError("no other checkpoint")

    with pytest.raises(SystemExit if process else UserError):
        processes.decided_by_first(trainer, refuse)
    decided += ["here"] * process
    assert processes.decided_by_first(trainer, lambda: "here") == "here"


DIFFERENCES = {
    "--label-smoothing": {"label_smoothing": 0.2},
    "--save-interval-updates": {"save_interval_updates": 1},
    "--batch-size": {"batch_size": 16},
    "the number of batches of an epoch": {"batches": 7},
    "the target dictionary": {"swapped": True},
}


@pytest.mark.parametrize("named", DIFFERENCES)
def test_processes_that_train_other_things_are_refused(monkeypatch, small_corpus, tmp_path, named):
    """The line names the difference, before an update is made."""

    def training(folder, batches=6, swapped=False, **options):
        task = task_with_data(small_corpus, folder)
        words = task.target_dictionary.symbols
        words[5:7] = reversed(words[5:7]) if swapped else words[5:7]
        cfg = configuration(small_corpus.data, folder, **options)
        return SimpleNamespace(cfg=cfg, task=task, data_parallel_world_size=2), range(batches)

    def gather(everywhere, mine):
        everywhere[:] = processes._facts(*training(tmp_path / "first")), mine

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    processes.check_equal(*training(tmp_path / "second"))  # in another folder
    with pytest.raises(UserError, match=f"the processes do not train the same: {named} is "):
        processes.check_equal(*training(tmp_path, **DIFFERENCES[named]))
