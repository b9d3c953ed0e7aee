"""Pictures that cannot be written or read: a warning, and the training goes on."""

import re
import shutil
from types import SimpleNamespace

import pytest
from commands import MODEL, PAPER, assert_equal_folders
from slow_cases import cases

from fairseq_rnnsearch import errors

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


def test_a_place_that_cannot_be_written_does_not_end_a_training(launchpad, begun, tmp_path):
    options = f"--heatmap-dir=/proc/nosuch --max-update 4 --save-dir={tmp_path}"
    done = launchpad.train(*begun.command, options).ok()
    assert re.search(r"heatmaps: .*/proc/nosuch", done.out)
    assert done.out.count("training goes on") == 1
    assert_equal_folders(tmp_path, begun.whole)


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_what_asks_to_end_is_heeded(signal):
    with pytest.raises(signal), errors.warn_and_continue("heatmaps"):
        raise signal
