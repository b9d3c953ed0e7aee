"""Files that appear whole or not at all: who removes what is left unfinished."""

import contextlib
import os
import signal
import sys
import uuid
from pathlib import Path

import pytest
from commands import ROOT, run_process

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import remove_unfinished, replacing
from fairseq_rnnsearch.runs.checkpoint_file import copy_whole


def leftover(folder):
    """What a process that is no more was writing there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".{uuid.uuid4().hex}.unfinished"
    path.write_text("half")
    return path


def test_only_what_nobody_writes_any_more_is_removed(tmp_path):
    abandoned, below = leftover(tmp_path), leftover(tmp_path / "below")
    with replacing(tmp_path / "mine") as unfinished:
        unfinished.write_text("opened and closed once more")
        remove_unfinished(tmp_path)
        assert unfinished.exists() and not abandoned.exists()
    assert below.exists()
    assert (tmp_path / "mine").read_text() == "opened and closed once more"


def test_a_killed_writer_does_not_keep_its_file(tmp_path):
    ready, begun = os.pipe()
    pid = os.fork()
    if pid == 0:
        with replacing(tmp_path / "mine"):
            os.write(begun, b".")
            signal.pause()
    os.read(ready, 1)
    remove_unfinished(tmp_path)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert list(tmp_path.iterdir())
    remove_unfinished(tmp_path)
    assert not list(tmp_path.iterdir())


def test_standard_output_is_written_to_as_it_is():
    program = "from fairseq_rnnsearch.files import write_text; write_text('/dev/stdout', 'text')"
    before = os.readlink("/dev/stdout")
    assert run_process([sys.executable, "-c", program], cwd=ROOT, check=True).stdout == "text"
    assert os.readlink("/dev/stdout") == before


def test_a_place_that_cannot_be_written_is_known_before_the_work(tmp_path):
    with (
        pytest.raises(UserError, match="cannot be written: No such file or directory"),
        replacing(tmp_path / "nosuch" / "file"),
    ):
        pytest.fail("the work was begun")


def test_problems_with_other_files_are_not_the_written_one_s(tmp_path):
    gone = tmp_path / "gone.pt"
    with pytest.raises(OSError) as caught:
        copy_whole(gone, tmp_path / "copy.pt")
    assert caught.value.filename == str(gone)
    assert not any(tmp_path.iterdir())


def test_a_training_leaves_what_others_are_writing(train, tmp_path):
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    own = [folder, folder / "heatmaps", folder / "heatmaps" / "epoch001"]
    abandoned = [leftover(place) for place in own]
    places = [folder / "aligned", own[2] / "below", elsewhere]
    foreign = [leftover(place) for place in places]
    (folder / "linked").symlink_to(elsewhere)
    with contextlib.ExitStack() as writers:
        for place in own + places:
            unfinished = writers.enter_context(replacing(place / "alignments.jsonl"))
            unfinished.write_text("the work of days")
        train(folder, max_update=1, heatmap_samples=1)
    assert not [path for path in abandoned if path.exists()]
    assert all(path.exists() for path in foreign)
    for place in own + places:
        assert Path(place, "alignments.jsonl").read_text() == "the work of days"
