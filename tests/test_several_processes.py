"""torchrun with the plain training command, on processors without GPUs."""

import re
import shutil
import signal

import pytest
from commands import (
    LAST_ONLY,
    MODEL,
    PAPER,
    QUIET,
    SCRIPTS,
    TASK,
    Watch,
    assert_equal_folders,
    run_installed,
    together,
    train,
)
from launchpad import Strike, unused_port
from slow_cases import cases

pytest_plugins = ["trained"]


# 103 pairs: six batches of twenty, the last of three; of seven ones of sixteen one process has four
# and the other three
OPTIONS = f"{MODEL} {PAPER} --heatmap-samples 2 --no-epoch-checkpoints --seed 2"


def torchrun(data, save_dir, *more, machines="--standalone --nproc_per_node 2", **environment):
    """The real thing: each process that torchrun starts imports everything for itself."""
    return run_installed(
        "torchrun",
        machines,
        SCRIPTS / "fairseq-train",
        data,
        f"{TASK} {QUIET} {OPTIONS} --save-dir={save_dir}",
        *more,
        **environment,
    )


@pytest.fixture(scope="module")
def two_and_one(small_corpus, tmp_path_factory):
    """Two epochs of two processes, and of one that takes two batches for an update."""
    folder = tmp_path_factory.mktemp("processes")
    watches = Watch(folder / "watch2"), Watch(folder / "watch1")
    two, one = together(
        lambda: torchrun(
            small_corpus.data,
            folder / "two",
            "--max-epoch 2 --batch-size 16",
            watches[0].options,
            **watches[0].environment,
        ),
        lambda: train(
            small_corpus.data,
            folder / "one",
            f"{OPTIONS} --update-freq 2 --max-epoch 2 --batch-size 16",
            watches[1].options,
            **watches[1].environment,
        ),
    )
    return folder, two.ok(), one.ok(), watches


def test_they_train_one_model_together(two_and_one):
    folder, two, one, _ = two_and_one
    assert two.out.count("done training in") == 1
    assert "training on 2 devices" in two.out
    assert re.findall(r"valid \| epoch (\d+) .* num_updates (\d+)", two.out) == [
        ("001", "4"),
        ("002", "8"),
    ]
    assert_equal_folders(folder / "two", folder / "one", relative=1e-6)
    nats = [re.findall(r"nats_per_sentence ([\d.]+)", finished.out) for finished in (two, one)]
    assert len(nats[0]) >= 2 and nats[0] == nats[1]
    pictures = (folder / "two" / "heatmaps" / "epoch002").glob("*.png")
    assert sorted(picture.name for picture in pictures) == [
        "valid0000-update0000008.png",
        "valid0001-update0000008.png",
    ]


def test_each_pair_belongs_to_one_process_once_an_epoch(two_and_one):
    *_, (of_two, of_one) = two_and_one
    shares = [of_two.batches(process=process) for process in (0, 1)]
    assert [len(share) for share in shares] == [8, 6]
    in_order = of_one.batches()
    for epoch in (0, 1):
        dealt = [share[len(share) // 2 * epoch :][: len(share) // 2] for share in shares]
        assert (
            dealt[0] == in_order[7 * epoch :: 2][:4] and dealt[1] == in_order[7 * epoch + 1 :][:6:2]
        )
        pairs = [pair for share in dealt for batch in share for pair in batch]
        assert sorted(pairs) == list(range(103))


def test_they_resume_in_the_middle_of_an_epoch(launchpad, two_and_one, small_corpus, tmp_path):
    folder, *_ = two_and_one
    command = small_corpus.data, f"{OPTIONS} --batch-size 16 --max-epoch 2 --save-dir={tmp_path}"
    for finished in launchpad.train_together(2, *command, "--max-update 6"):
        finished.ok()
    again = [finished.ok() for finished in launchpad.train_together(2, *command)]
    assert "(epoch 2 @ 6 updates)" in again[0].out
    assert_equal_folders(tmp_path, folder / "two")


@pytest.mark.slow
def test_two_machines(two_and_one, small_corpus, tmp_path):
    """A torchrun for each, as the manual starts them; here both on this machine."""
    folder, *_ = two_and_one
    machines = (
        f"--nnodes 2 --nproc_per_node 1 --master-addr 127.0.0.1 --master-port {unused_port()}"
    )
    for finished in together(
        *(
            lambda rank=rank: torchrun(
                small_corpus.data,
                tmp_path,
                "--batch-size 16 --max-epoch 2",
                machines=f"{machines} --node-rank {rank}",
            )
            for rank in (0, 1)
        )
    ):
        # torchrun may show that the other one, which had its store, has ended first
        assert finished.rc == 0, finished.tail()
    assert_equal_folders(tmp_path, folder / "two")


@pytest.mark.slow
def test_a_refused_checkpoint_ends_all_of_them(small_corpus, tmp_path):
    (tmp_path / "checkpoint_last.pt").write_bytes(b"PK\3\4" + bytes(100))
    finished = torchrun(small_corpus.data, tmp_path, "--max-update 1")
    assert finished.rc != 0
    assert f"checkpoint {tmp_path / 'checkpoint_last.pt'} cannot be read" in finished.err


def test_more_processes_than_gpus_is_refused_in_one_line(small_corpus, tmp_path):
    message = train(
        small_corpus.data,
        tmp_path / "model",
        f"{MODEL} {PAPER} {LAST_ONLY} --distributed-world-size 2 --max-update 1",
    ).error()
    assert "--distributed-world-size 2" in message and "torchrun --nproc_per_node 2" in message
    assert not list(tmp_path.rglob("*.pt"))


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


def test_when_one_is_killed_the_others_end_and_the_run_resumes(
    launchpad, two_unbroken, small_corpus, tmp_path
):
    command = launchpad, 2, small_corpus.data, tmp_path, "--batch-size 16 --save-interval-updates 2"
    ended = begin(*command, strikes={1: Strike("update", 4)})
    assert ended[1].rc == -signal.SIGKILL
    assert ended[0].rc == 1 and "Traceback" not in ended[0].out
    assert len(re.findall(r"fairseq_rnnsearch: error: .*", ended[0].out)) == 1
    again = [process.ok() for process in begin(*command)]
    assert "@ 2 updates)" in again[0].out
    assert_equal_folders(tmp_path, two_unbroken)


SAVES = {
    "the first": Strike("flush", 1),
    "the last": Strike("copy", 4),
}


@pytest.mark.parametrize("which", cases(SAVES))
def test_one_is_killed_while_it_saves(launchpad, two_unbroken, small_corpus, tmp_path, which):
    command = launchpad, 2, small_corpus.data, tmp_path, "--batch-size 16 --save-interval-updates 2"
    ended = begin(*command, strikes={0: SAVES[which]})
    assert ended[0].rc == -signal.SIGKILL
    assert ended[1].rc == 1 and "Traceback" not in ended[1].out
    for finished in begin(*command):
        finished.ok()
    assert_equal_folders(tmp_path, two_unbroken)


def test_all_end_when_no_checkpoint_is_usable(launchpad, two_unbroken, small_corpus, tmp_path):
    for path in two_unbroken.glob("*.pt"):
        (tmp_path / path.name).write_bytes(path.read_bytes()[:1000])
    first, second = begin(launchpad, 2, small_corpus.data, tmp_path, "--batch-size 16")
    assert first.rc == second.rc == 1
    assert "no other checkpoint to go on from" in first.out
    assert "error:" not in second.out and "Traceback" not in first.out + second.out


DIFFERENCES = {
    "an option": "--label-smoothing 0.2",
    "when to save": "--save-interval-updates 1",
    "a batch size": "--batch-size 20",
    "a dictionary": "@other",
}


@pytest.mark.parametrize("what", cases(DIFFERENCES, "a dictionary"))
def test_processes_that_train_other_things_are_refused(launchpad, small_corpus, tmp_path, what):
    """The line names the difference, before an update is made."""
    more, data = DIFFERENCES[what], small_corpus.data
    if more == "@other":
        shutil.copytree(data, tmp_path / "data")
        words = (tmp_path / "data/dict.fr.txt").read_text().splitlines(keepends=True)
        (tmp_path / "data/dict.fr.txt").write_text("".join([words[1], words[0], *words[2:]]))
        (tmp_path / "data/SHA256SUMS").unlink()
        # The second of two machines has other data in the folder of the same name.
        folders = data, tmp_path / "data"
        first, second = (
            launchpad.begin(
                *(folder, f"{OPTIONS} --batch-size 16 --max-update 2 --save-dir={tmp_path}/model"),
                **dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE="2"),
                **dict(RANK=str(rank), LOCAL_RANK=str(rank)),
            )
            for port in [str(unused_port())]
            for rank, folder in enumerate(folders)
        )
        first, second = first.finish(), second.finish()
    else:
        first, second = launchpad.train_together(
            *(2, data, f"{OPTIONS} --batch-size 16 --max-update 2 --save-dir={tmp_path}/model"),
            more={1: more},
        )
    assert first.rc == second.rc == 1
    named = {"a dictionary": "the target dictionary"}.get(what, more.split(" ")[0])
    assert f"the processes do not train the same: {named} is " in first.out
    assert "Traceback" not in first.out + second.out
    assert not list((tmp_path / "model").glob("*.pt"))
