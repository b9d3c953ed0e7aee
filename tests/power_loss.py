"""What a machine that loses its power may leave on its disk.

`Recorder` writes down what a process does below a folder: names that come, go and change, contents,
and what is flushed. It is called before each of these steps, by Python's audit hook, and looks what
the step before has changed, so that it sees all that has reached the files, whoever has written it
(torch, a copy inside the kernel, PIL's C code). `states` gives what may be there after a power loss
at each moment of such a record:

- a file's content is what was flushed last, or is what it was at that moment, or is torn: a half of
  it, zeros, a half of it and then zeros;
- a name that has come, gone or changed since its folder was flushed has done so or not, each for
  itself. A renaming changes both of its names or none.

File systems in use allow less: many keep the order of names, and some flush with a name what it is
renamed to.
"""

import atexit
import itertools
import os
import pickle
import random
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = 0  # the number of the folder itself; every other file or folder has one of its own
FOLDER = None  # a folder's "content"

_STEPS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Names:
    """Entries ``(folder, name, what)`` that change together; what is None where one goes."""

    entries: tuple[tuple[int, str, int | None], ...]


@dataclass(frozen=True)
class Content:
    """What a file holds from now on."""

    number: int
    content: bytes


@dataclass(frozen=True)
class Flush:
    """A file's content, or a folder's names, are on the disk; everything where that is None."""

    number: int | None
    is_folder: bool = False


@dataclass(frozen=True)
class Mark:
    """Something that the program has done by now."""

    what: object


Event = Names | Content | Flush | Mark


class Recorder:
    """Writes down what happens below a folder that is there.

    Attributes:
        events: what has happened.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.events = Path(folder).resolve(), []
        self._numbers, self._next = {self.folder.stat().st_ino: ROOT}, itertools.count(1)
        self._names: dict[tuple[int, str], int] = {}
        self._seen: dict[int, tuple[int, int]] = {}  # when and how large
        self._is_looking = False

    def look(self) -> None:
        """Write down what has changed since the last time."""
        self._is_looking = True
        try:
            found, inodes, files = {}, {self.folder.stat().st_ino: ROOT}, []
            self._list(self.folder, ROOT, found, inodes, files)
            for number, path, state in files:
                if self._seen.get(number) != state:
                    self._seen[number] = state
                    self.events.append(Content(number, path.read_bytes()))
            gone = [key for key, number in self._names.items() if found.get(key) != number]
            come = [key for key, number in found.items() if self._names.get(key) != number]
            self._numbers, before, self._names = inodes, self._names, found
            for key in come:
                # the name that it had before, if it was renamed
                old = [other for other in gone if before[other] == found[key]]
                gone = [other for other in gone if other not in (*old, key)]
                entries = [(*other, None) for other in old if other not in come]
                self.events.append(Names((*entries, (*key, found[key]))))
            self.events += [Names(((*key, None),)) for key in gone]
        finally:
            self._is_looking = False

    def _list(self, folder: Path, number: int, found: dict, inodes: dict, files: list) -> None:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            state = entry.stat(follow_symlinks=False)
            if state.st_ino not in inodes:
                known = self._numbers.get(state.st_ino)
                inodes[state.st_ino] = next(self._next) if known is None else known
            inner = found[number, entry.name] = inodes[state.st_ino]
            if entry.is_dir(follow_symlinks=False):
                self._list(Path(entry), inner, found, inodes, files)
            else:
                files.append((inner, Path(entry), (state.st_mtime_ns, state.st_size)))

    def flushed(self, inode: int, is_folder: bool) -> None:
        """Write down that something was brought to the disk."""
        self._seen.pop(self._numbers.get(inode), None)
        self.look()
        if inode in self._numbers:
            self.events.append(Flush(self._numbers[inode], is_folder))

    def mark(self, what: object) -> None:
        """Write down what the program has done."""
        self.look()
        self.events.append(Mark(what))

    def listen(self) -> None:
        """Look before each step of this process from now on."""
        flush = os.fsync

        def flush_and_note(descriptor: int) -> None:
            flush(descriptor)
            state = os.fstat(descriptor)
            self.flushed(state.st_ino, stat.S_ISDIR(state.st_mode))

        def hear(event: str, arguments: tuple) -> None:
            begins = event in _STEPS or (event == "open" and (arguments[2] or 0) & _WRITES)
            if begins and not self._is_looking:
                self.look()

        os.fsync = flush_and_note
        sys.addaudithook(hear)


# --- afterwards -------------------------------------------------------------------------------


@dataclass
class _Disk:
    """What is on the disk, and what is only in memory."""

    names: dict[tuple[int, str], int] = field(default_factory=dict)
    waiting: list[tuple[Names, set[int]]] = field(default_factory=list)  # and folders to flush
    folders: set[int] = field(default_factory=lambda: {ROOT})
    flushed: dict[int, bytes] = field(default_factory=dict)
    now: dict[int, bytes] = field(default_factory=dict)

    def follow(self, event: Event) -> None:
        if isinstance(event, Names):
            self.waiting.append((event, {folder for folder, _, _ in event.entries}))
        elif isinstance(event, Content):
            self.now[event.number] = event.content
        elif isinstance(event, Flush) and event.number is None:
            self.flushed = dict(self.now)
            for names, _ in self.waiting:
                apply(self.names, names)
            self.waiting = []
        elif isinstance(event, Flush) and event.is_folder:
            for names, folders in self.waiting:
                folders.discard(event.number)
                if not folders:
                    apply(self.names, names)
            self.waiting = [(names, folders) for names, folders in self.waiting if folders]
        elif isinstance(event, Flush):
            self.flushed[event.number] = self.now[event.number]


def apply(names: dict[tuple[int, str], int], change: Names) -> None:
    """Change names."""
    for folder, name, number in change.entries:
        if number is None:
            names.pop((folder, name), None)
        else:
            names[folder, name] = number


def _contents(disk: _Disk, number: int) -> list[bytes]:
    """What a file may hold: what was flushed, what it holds in memory, and what lies between."""
    now, before = disk.now.get(number, b""), disk.flushed.get(number, b"")
    if now == before:
        return [now]
    half = len(now) // 2
    zeros = bytes(len(now))
    return [before, now, now[:half], zeros, now[:half] + zeros[half:], zeros[:half] + now[half:]]


def _chosen(disk: _Disk, is_applied: Callable, choose: Callable) -> dict[str, bytes | None]:
    """One of the states: paths and contents."""
    names = dict(disk.names)
    for place, (change, _) in enumerate(disk.waiting):
        if is_applied(place):
            apply(names, change)
    state: dict[str, bytes | None] = {}

    def fill(folder: int, path: str) -> None:
        for (where, name), number in names.items():
            if where == folder:
                inner = f"{path}{name}"
                if number in disk.now or number in disk.flushed:
                    state[inner] = choose(_contents(disk, number))
                else:
                    state[inner] = FOLDER
                    fill(number, f"{inner}/")

    fill(ROOT, "")
    return state


def states(
    events: list[Event], seed: int = 0, draws: int = 6
) -> Iterator[tuple[list[object], dict[str, bytes | None]]]:
    """What may be on the disk after a power loss at any moment, each state once.

    Args:
        draws: combinations that are drawn at random at each moment, besides all names changed or
            none, one alone or all but one, with each kind of contents.

    Yields:
        what the program had marked as done by then, and contents by path; None is a folder.
    """
    disk, marks, seen, draw = _Disk(), [], set(), random.Random(seed)
    for event in [None, *events]:
        if isinstance(event, Mark):
            marks.append(event.what)
        elif event is not None:
            disk.follow(event)
        many = range(len(disk.waiting))
        applied = [lambda i: True, lambda i: False]
        applied += [lambda i, j=j: i == j for j in many] + [lambda i, j=j: i != j for j in many]
        kinds = [lambda x, k=k: x[k % len(x)] for k in range(6)]
        choices = [(a, k) for a in applied[:2] for k in kinds]
        choices += [(a, k) for a in applied[2:] for k in kinds[:2]]
        choices += [(lambda i: draw.random() < 0.5, draw.choice)] * draws
        for is_applied, choose in choices:
            state = _chosen(disk, is_applied, choose)
            key = len(marks), hash(frozenset(state.items()))
            if key not in seen:
                seen.add(key)
                yield list(marks), state


def lay_out(state: dict[str, bytes | None], folder: Path) -> None:
    """Write a state to a folder."""
    folder.mkdir()
    for name, content in sorted(state.items()):
        if content is FOLDER:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)


# --- in the process that the launchpad forks --------------------------------------------------


def record_this_process(folder: str, record: str, as_fairseq: bool = False) -> None:
    """Record what this process does below a folder, and each checkpoint that it has saved.

    Args:
        as_fairseq: take back how the package writes checkpoints.
    """
    import fairseq_cli.train  # noqa: F401  (what is mended must be loaded)
    from fairseq import checkpoint_utils
    from fairseq.file_io import PathManager

    from fairseq_rnnsearch.compat import mends, trainer

    if as_fairseq:
        mends.start()
        trainer.write_whole = checkpoint_utils.torch_persistent_save
        PathManager.copy = staticmethod(PathManager.copy.__wrapped__)
    recorder = Recorder(Path(folder))
    save = checkpoint_utils.save_checkpoint

    def save_and_mark(cfg, trainer, *arguments) -> object:
        saved = save(cfg, trainer, *arguments)
        if saved:
            recorder.mark(trainer.get_num_updates())
        return saved

    def write() -> None:
        recorder.look()
        Path(record).write_bytes(pickle.dumps(recorder.events))

    checkpoint_utils.save_checkpoint = save_and_mark
    atexit.register(write)
    recorder.listen()
