"""A machine loses its power while something is saved: what is found on its disk afterwards."""

import io
import itertools
import json
import os
import pickle
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from commands import MODEL, PAPER, ROOT
from fairseq.dataclass.configs import CheckpointConfig
from omegaconf import OmegaConf
from PIL import Image
from power_loss import Content, Flush, Names, Recorder, lay_out, states

from fairseq_rnnsearch.compat import resuming
from fairseq_rnnsearch.compat.checkpoints import progress, verify
from fairseq_rnnsearch.data.checksums import write_checksums
from fairseq_rnnsearch.errors import UserError

pytest_plugins = ["trained"]

# nine updates, an epoch ends with the sixth
OPTIONS = (
    f"{MODEL} {PAPER} --max-update 9 --save-interval-updates 2 --keep-interval-updates 1"
    " --keep-last-epochs 1 --keep-best-checkpoints 1 --heatmap-samples 1 --heatmap-keep 2 --seed 3"
)
# of all checkpoints, the last one alone
FEWEST = ("--no-last-checkpoints --disable-validation",)


@pytest.fixture(scope="module")
def record(launchpad, small_corpus, tmp_path_factory):
    """What a training does to its files."""

    def run(*more, **options):
        folder = tmp_path_factory.mktemp("recorded")
        (folder / "disk").mkdir()
        told = {"folder": str(folder / "disk"), "record": str(folder / "record"), **options}
        launchpad.train(
            small_corpus.data,
            OPTIONS,
            f"--save-dir={folder}/disk/model",
            *more,
            POWER_LOSS=json.dumps(told),
        ).ok()
        return pickle.loads((folder / "record").read_bytes())

    return cache(run)


class Oracle:
    """What is wrong with a state of the disk, if anything.

    Attributes:
        states: how many have been looked at.
    """

    def __init__(self, folder, progress):
        self._progress = progress
        self._folders = (folder / str(i) for i in itertools.count())
        self._known = {}  # the update that a training goes on from, by the checkpoints there are
        self._pictures = {}
        self.states = 0

    def problems(self, events):
        """Of all states that a record may leave: what the training would say or have lost."""
        for saved, state in states(events):
            self.states += 1
            checkpoints = {k: v for k, v in state.items() if k.endswith(".pt") or v is None}
            key = frozenset(checkpoints.items())
            if key not in self._known:
                self._known[key] = self._goes_on_from(checkpoints)
            update = self._known[key]
            if isinstance(update, str):
                yield update
            elif update < (saved or [0])[-1]:
                yield f"begins again at {update} after {saved[-1]}"
            for name, content in state.items():
                if name.endswith((".png", ".gif")) and not self._is_picture(content):
                    yield f"torn: {name}"

    def _goes_on_from(self, state):
        """The update, 0 without any checkpoint, or what is said where none can be used."""
        folder = next(self._folders)
        lay_out(state, folder)
        cfg = OmegaConf.structured(CheckpointConfig)
        cfg.save_dir = str(folder / "model")
        try:
            chosen = resuming.choose_beginning(cfg).get("restore_file")
            if chosen is None:
                return 0
            verify(chosen)
            return self._progress(chosen)[1]
        except UserError as problem:
            return str(problem).replace(str(folder), "")
        finally:
            shutil.rmtree(folder)

    def _is_picture(self, content):
        if content not in self._pictures:
            try:
                with Image.open(io.BytesIO(content)) as picture:
                    for frame in range(getattr(picture, "n_frames", 1)):
                        picture.seek(frame)
                        picture.load()
                self._pictures[content] = True
            except Exception:
                self._pictures[content] = False
        return self._pictures[content]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    """The same few checkpoints are in many states, and reading one takes long."""
    known = {}

    def progress_of(path):
        content = Path(path).read_bytes()
        if content not in known:
            try:
                known[content] = progress(path)
            except UserError as problem:
                known[content] = problem
        if isinstance(known[content], UserError):
            raise known[content]
        return known[content]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resuming, "progress", progress_of)
        patch.setattr(resuming.logger, "disabled", True)  # a warning for most states
        yield Oracle(tmp_path_factory.mktemp("states"), progress_of)


@pytest.mark.parametrize("more", [(), FEWEST])
def test_a_whole_checkpoint_remains(record, oracle, more):
    events = record(*more)
    entries = [entry for event in events if isinstance(event, Names) for entry in event.entries]
    given = {name for _, name, number in entries if number is not None}
    removed = {name for _, name, number in entries if number is None}
    assert {"model", "checkpoint1.pt", "checkpoint_1_4.pt"} <= given
    assert "checkpoint_1_2.pt" in removed
    for name in ("checkpoint_last.pt", "checkpoint_best.pt", "emerging.gif"):
        assert (name in given) == (not more)
    assert ("valid0000-update0000004.png" in removed) == (not more)
    before = oracle.states
    assert list(oracle.problems(events)) == []
    print(f"{oracle.states - before:,} states of {len(events)} steps")


def without_flushed_contents(events):
    return [e for e in events if not isinstance(e, Flush) or e.is_folder]


def without_flushed_names(events):
    return [e for e in events if not isinstance(e, Flush) or not e.is_folder]


def without_the_way(events):
    """The save folder's own name is not flushed."""
    return [e for e in events if e != Flush(0, is_folder=True)]


def renamed_before_it_is_written(events):
    """As if the file were written under its name: the name comes with the first bytes."""
    changed = list(events)
    for place, event in enumerate(events):
        if isinstance(event, Names) and len(event.entries) == 2:
            number = event.entries[1][2]
            changed.remove(event)
            first = next(i for i, e in enumerate(changed) if getattr(e, "number", None) == number)
            changed.insert(first + 1, event)
            assert first + 1 < place
    return changed


def removed_before_the_new_one_is_there(events):
    """Old checkpoints go before the new one gets its name."""
    changed = []
    for event in events:
        is_removal = isinstance(event, Names) and event.entries[0][1].startswith("checkpoint")
        if is_removal and len(event.entries) == 1 and event.entries[0][2] is None:
            places = [i for i, e in enumerate(changed) if isinstance(e, Names)]
            renaming = max(i for i in places if len(changed[i].entries) == 2)
            changed.insert(renaming, event)
        else:
            changed.append(event)
    return changed


@pytest.mark.parametrize(
    ("more", "without", "finding"),
    [
        (FEWEST, without_flushed_contents, "There is no other checkpoint to go on from"),
        ((), without_flushed_contents, "torn: model/heatmaps/epoch001/valid0000"),
        ((), without_flushed_contents, "torn: model/heatmaps/emerging.gif"),
        (FEWEST, without_flushed_names, "begins again at 0 after 2"),
        (FEWEST, without_the_way, "begins again at 0 after 2"),
        (FEWEST, renamed_before_it_is_written, "There is no other checkpoint to go on from"),
        (FEWEST, removed_before_the_new_one_is_there, "begins again at 0 after 2"),
    ],
)
def test_each_of_the_precautions_is_needed(record, oracle, more, without, finding):
    events = record(*more)
    assert without(events) != events
    assert any(finding in found for found in oracle.problems(without(events)))


def test_fairseqs_own_saving_loses_checkpoints(record, oracle):
    for finding in ("There is no other checkpoint to go on from", "begins again at 0 after"):
        found = oracle.problems(record(*FEWEST, as_fairseq=True))
        assert any(finding in problem for problem in found)


# --- the data folder --------------------------------------------------------------------------


def test_check_sums_are_whole_or_absent(small_corpus, tmp_path):
    (tmp_path / "disk").mkdir()
    pid = os.fork()
    if pid == 0:
        recorder = Recorder(tmp_path / "disk")
        recorder.listen()
        for path in [*small_corpus.data.glob("*.bin"), *small_corpus.data.glob("dict*")]:
            shutil.copy(path, tmp_path / "disk")
        write_checksums(tmp_path / "disk")
        (tmp_path / "record").write_bytes(pickle.dumps(recorder.events))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    events = pickle.loads((tmp_path / "record").read_bytes())
    whole = (tmp_path / "disk/SHA256SUMS").read_bytes()

    def found(events):
        return {state.get("SHA256SUMS") for _, state in states(events)}

    assert found(events) == {None, whole}
    assert len(found(without_flushed_contents(events))) > 2


# --- work folders of recipes ------------------------------------------------------------------

# Each command that changes a name says so before and after, and waits until the test has looked.
WATCHED = """
tell() { echo "$1"; read -r; }
mv() { tell begin; command mv "$@"; tell end; }
rm() { tell begin; command rm "$@"; tell end; }
touch() { tell begin; command touch "$@"; tell end; }
sync() { tell sync; }
"""

RECIPE = """
make() { command mkdir "$PARTIAL"; echo "$1" >"$PARTIAL/en"; echo "$1" >"$PARTIAL/fr"; }
go_on() { echo all >"$WORK/archive"; }
use_work_folder nowhere
SEED=1
remember_settings SEED
run_step "make it" "$WORK/data" make first
rm -f -- "$WORK/.done/make it"
tell again
run_step "make it" "$WORK/data" make again
resume_step "go on" go_on
"""


def record_recipe(work):
    recorder = Recorder(work)
    running = subprocess.Popen(
        ["bash", "-c", f"source recipes/steps.sh\n{WATCHED}\n{RECIPE}"],
        cwd=ROOT,
        env={**os.environ, "WORK": str(work)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in running.stdout:
        recorder.look()
        if line in ("sync\n", "again\n"):
            recorder.events.append(Flush(None))
        if line == "again\n":
            recorder.mark("again")
        print(file=running.stdin, flush=True)
    _, said = running.communicate()
    assert running.returncode == 0, said
    recorder.look()
    return recorder.events


def recipe_problems(events):
    """Names of what is not whole, or is taken for what was made anew."""
    found = set()
    for marks, state in states(events):
        data = {name: state[name] for name in state if name.startswith("data/")}
        whole = [{"data/en": made, "data/fr": made} for made in (b"again\n", b"first\n")]
        if "data" in state and data not in whole:
            found.add("data")
        if marks and ".done/make it" in state and "data" in state and data != whole[0]:
            found.add("data that was made before")
        if state.get("settings", b"SEED=1\n") != b"SEED=1\n":
            found.add("settings")
        if ".done/go on" in state and state.get("archive") != b"all\n":
            found.add("archive")
    return found


def test_work_folders_are_whole_or_done_again(tmp_path):
    events = record_recipe(tmp_path)
    flushes = [place for place, event in enumerate(events) if isinstance(event, Flush)]
    assert recipe_problems(events) == set()
    needed = [recipe_problems([*events[:i], *events[i + 1 :]]) for i in flushes]
    # the settings; before and after the first renaming; the removed stamp; the second renaming;
    # the archive
    assert needed[:2] == [{"settings"}, {"data"}]
    assert needed[4:] == [{"data"}, {"data", "data that was made before"}, {"archive"}]


# --- the recorder -----------------------------------------------------------------------------


def test_every_step_is_seen(tmp_path):
    """Also what is written by a copy inside the kernel, and what is in Python's memory is not."""
    recorder = Recorder(tmp_path)
    (tmp_path / "folder").mkdir()
    recorder.look()
    with open(tmp_path / "folder" / "a", "wb") as file:
        file.write(b"abcd")
        recorder.look()
        file.flush()
        recorder.look()
    shutil.copyfile(tmp_path / "folder" / "a", tmp_path / "b")
    recorder.look()
    os.replace(tmp_path / "b", tmp_path / "folder" / "a")
    recorder.look()
    Path(tmp_path / "folder" / "a").unlink()
    recorder.look()
    assert recorder.events == [
        Names(((0, "folder", 1),)),
        Content(2, b""),
        Names(((1, "a", 2),)),
        Content(2, b"abcd"),
        Content(3, b"abcd"),
        Names(((0, "b", 3),)),
        Names(((0, "b", None), (1, "a", 3))),
        Names(((1, "a", None),)),
    ]
    assert {frozenset(state.items()) for _, state in states(recorder.events[:4])} == {
        frozenset(state.items())
        for state in (
            {},
            {"folder": None},
            *({"folder": None, "folder/a": content} for content in (
                b"", b"abcd", b"ab", bytes(4), b"ab\0\0", b"\0\0cd"
            )),
        )
    }  # fmt: skip
