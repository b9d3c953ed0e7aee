"""Pictures and logs that cannot be written or read: a warning, and the training goes on."""

import logging
import shutil
from types import SimpleNamespace

import pytest
from commands import MODEL, PAPER, assert_equal_folders
from fairseq.logging import progress_bar
from slow_cases import cases

from fairseq_rnnsearch import errors
from fairseq_rnnsearch.runs.messages import make_surviving_bar

pytest_plugins = ["trained"]

OPTIONS = (
    f"{MODEL} {PAPER} --heatmap-samples 2 --no-epoch-checkpoints --seed 3"
    " --validate-interval-updates 1"
)
FOLDERS_OF_SETS = ("heatmaps", "heatmaps/test")
OLD, NEW = (f"heatmaps/epoch001/valid0000-update000000{i}.png" for i in (2, 3))


@pytest.fixture(scope="module")
def begun(launchpad, small_corpus, tmp_path_factory):
    """Two updates and their pictures, and the whole of four."""
    folder = tmp_path_factory.mktemp("begun")
    command = small_corpus.data, OPTIONS
    launchpad.train(*command, f"--max-update 2 --save-dir={folder / 'begun'}").ok()
    launchpad.train(*command, f"--max-update 4 --save-dir={folder / 'whole'}").ok()
    return SimpleNamespace(folder=folder / "begun", whole=folder / "whole", command=command)


def test_each_validation_set_has_its_own_pictures(launchpad, begun, tmp_path):
    options = f"--valid-subset valid,test --max-update 1 --save-dir={tmp_path}"
    launchpad.train(*begun.command, options).ok()
    first, second = (
        sorted((tmp_path / folder).glob("epoch001/valid*.png")) for folder in FOLDERS_OF_SETS
    )
    assert [path.name for path in first] == [path.name for path in second] and len(first) == 2
    assert all(a.read_bytes() != b.read_bytes() for a, b in zip(first, second, strict=True))


def test_two_validation_sets_are_one_if_that_is_asked_for(launchpad, small_corpus, tmp_path):
    data = shutil.copytree(small_corpus.data, tmp_path / "data")
    for path in data.glob("test.*"):
        path.rename(path.with_name(path.name.replace("test.", "valid1.")))
    (data / "SHA256SUMS").unlink(missing_ok=True)
    both = f"--combine-valid-subsets --max-update 1 --save-dir={tmp_path / 'model'}"
    assert "valid |" in launchpad.train(data, OPTIONS, both).ok().out


def truncate(path):
    path.write_bytes(path.read_bytes()[:-300])


def become_a_folder(path):
    path.unlink(missing_ok=True)
    (path / "mine").mkdir(parents=True)


def become_a_file(path):
    shutil.rmtree(path, ignore_errors=True)
    path.touch()


# Each is done to copies of the same pictures; what becomes of which.
DAMAGES = {
    "an older picture": {OLD: truncate},
    "a folder instead of a picture": {NEW: become_a_folder},
    "a folder instead of the animation": {"heatmaps/emerging.gif": become_a_folder},
    "a file instead of the folder": {"heatmaps": become_a_file},
}


@pytest.mark.parametrize("name", cases(DAMAGES, "an older picture"))
def test_a_damaged_picture_does_not_end_a_training(launchpad, begun, tmp_path, name):
    folder = shutil.copytree(begun.folder, tmp_path / "model")
    for place, damage in DAMAGES[name].items():
        damage(folder / place)
    done = launchpad.train(*begun.command, f"--max-update 4 --save-dir={folder}").ok()
    assert done.out.count("training goes on") == done.out.count("WARNING") == 1
    assert_equal_folders(folder, begun.whole)
    if (folder / "heatmaps").is_dir():
        drawn = "heatmaps/epoch001/valid0001-update0000004.png"
        assert (folder / drawn).read_bytes() == (begun.whole / drawn).read_bytes()


PLACES = {
    "heatmaps": (
        "--heatmap-dir=/proc/nosuch",
        "heatmaps: /proc/nosuch/epoch001 cannot be ",
    ),
    "TensorBoard": ("--tensorboard-logdir=/proc/nosuch", "TensorBoard: "),
    "a log file": ("--log-file=/dev/full", "log /dev/full: No space left"),
    "Weights & Biases": ("--wandb-project nosuch", "wandb not found"),
}


@pytest.mark.parametrize("name", cases(PLACES, "heatmaps"))
def test_a_place_that_cannot_be_written_does_not_end_a_training(launchpad, begun, tmp_path, name):
    if name == "TensorBoard":
        pytest.importorskip("tensorboardX")
    option, message = PLACES[name]
    done = launchpad.train(*begun.command, option, f"--max-update 4 --save-dir={tmp_path}").ok()
    assert message in done.out and "Traceback" not in done.err
    assert done.out.count("training goes on") == (name != "Weights & Biases")
    assert_equal_folders(tmp_path, begun.whole)


def test_what_can_be_mended_before_it_begins_is_refused(launchpad, begun, tmp_path):
    refused = launchpad.train(
        *begun.command, f"--max-update 4 --log-file={tmp_path}/no/log --save-dir={tmp_path}"
    )
    assert refused.rc == 1 and "Traceback" not in refused.out
    assert f"--log-file {tmp_path}/no/log cannot be written: No such file" in refused.out


@pytest.fixture
def warned(caplog):
    """The warnings, counted as at the beginning of a training."""
    errors._times_asked.cache_clear()
    caplog.set_level(logging.WARNING, errors.__name__)
    return caplog


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_what_asks_to_end_is_heeded(signal):
    with pytest.raises(signal), errors.training_goes_on("heatmaps"):
        raise signal


def logged(**logs):
    """A bar that shows nothing, with logs, as a training has it."""
    return make_surviving_bar(progress_bar.progress_bar, [], log_format="none", **logs)


def test_a_full_disk_does_not_stop_the_thread_of_tensorboard(tmp_path, monkeypatch, warned):
    """Eleven events would then wait for ever."""
    record_writer = pytest.importorskip("tensorboardX.record_writer")

    def fail(*_):
        raise OSError(28, "No space left on device")

    bar = logged(tensorboard_logdir=str(tmp_path))
    bar.log({"loss": 1.0, "num_updates": 1}, "full")
    monkeypatch.setattr(record_writer.RecordWriter, "write", fail)
    for update in range(2, 40):
        bar.log({"loss": 1.0, "num_updates": update}, "full")
    progress_bar._tensorboard_writers.pop("full").close()
    (message,) = warned.messages
    assert message.startswith("TensorBoard: ") and "No space left" in message


def test_a_service_that_fails_is_one_warning(monkeypatch, warned):
    monkeypatch.setattr(progress_bar, "wandb", SimpleNamespace())  # without init, log and config
    bar = logged(wandb_project="project")
    bar.update_config({})
    bar.log({"loss": 1.0, "num_updates": 1})
    (message,) = warned.messages
    assert message.startswith("Weights & Biases: 'types.SimpleNamespace' object has no attribute")
