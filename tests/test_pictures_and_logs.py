"""Pictures that cannot be written or read: a warning, and the training goes on."""

import shutil

import pytest
from commands import assert_equal_folders, forget_what_was_said
from trainings import train_here

from fairseq_rnnsearch import errors

OPTIONS = {"heatmap_samples": 2, "validate_interval_updates": 1, "save_interval_updates": 0}
OLD, NEW = (f"heatmaps/epoch001/sentence0001-update000000{i}.png" for i in (2, 3))
DRAWN = "heatmaps/epoch001/sentence0002-update0000004.png"


@pytest.fixture(scope="module")
def begun(small_corpus, tmp_path_factory):
    """Two updates and their pictures, and the whole of four."""
    folder = tmp_path_factory.mktemp("begun")
    train_here(small_corpus.data, folder / "begun", **OPTIONS, max_update=2)
    train_here(small_corpus.data, folder / "whole", **OPTIONS, max_update=4)
    return folder


def test_each_validation_set_has_its_own_pictures(train, tmp_path):
    train(tmp_path, **OPTIONS, valid_subset="valid,test", max_update=1)
    first, second = (
        sorted((tmp_path / folder).glob("epoch001/*.png"))
        for folder in ("heatmaps", "heatmaps/test")
    )
    assert [path.name for path in first] == [path.name for path in second] and len(first) == 2
    assert all(a.read_bytes() != b.read_bytes() for a, b in zip(first, second, strict=True))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-300])


def become_a_folder(path):
    path.unlink(missing_ok=True)
    (path / "mine").mkdir(parents=True)


def become_a_file(path):
    shutil.rmtree(path, ignore_errors=True)
    path.touch()


DAMAGES = {  # each is done to copies of the same pictures
    "an older picture": (OLD, truncate),
    "a folder instead of a picture": (NEW, become_a_folder),
    "a folder instead of the animation": ("heatmaps/emerging.gif", become_a_folder),
    "a file instead of the folder": ("heatmaps", become_a_file),
    "a place that cannot be written": ("", lambda _: None),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_pictures_do_not_end_a_training(train, begun, tmp_path, name):
    forget_what_was_said()  # a process warns once
    place, damage = DAMAGES[name]
    folder = shutil.copytree(begun / "begun", tmp_path / "model")
    damage(folder / place)
    elsewhere = {} if place else {"heatmap_dir": "/proc/nosuch"}
    said = train(folder, **OPTIONS, **elsewhere, max_update=4)
    assert said.count("training goes on") == said.count("WARNING") == 1
    assert_equal_folders(folder, begun / "whole")
    if place.startswith("heatmaps/"):
        assert (folder / DRAWN).read_bytes() == (begun / "whole" / DRAWN).read_bytes()


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_what_asks_to_end_is_heeded(signal):
    with pytest.raises(signal), errors.warn_and_continue("heatmaps"):
        raise signal
