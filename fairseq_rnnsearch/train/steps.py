"""Steps that run once: their output appears whole, and an interrupted run resumes."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from fairseq_rnnsearch.errors import UserError, as_text
from fairseq_rnnsearch.files import locked, remove_unfinished, replacing, write_text

_SHOWN = 15  # lines of the log of a program that failed
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_C_LIBRARY = ctypes.CDLL(None)  # loaded before a child needs it
_PR_SET_PDEATHSIG = 1


def log(message: str) -> None:
    """Tell the user, with the time."""
    print(time.strftime("%H:%M:%S"), message, file=sys.stderr)


class Step(NamedTuple):
    """A step that runs once.

    Attributes:
        name: its name for the user.
        make: makes the output at the path that it is given, which becomes the output's when all of
            it is on the disk; without an output, it resumes by itself.
        output: the file or folder; None if the command manages its own output.
    """

    name: str
    make: Callable[..., None]
    output: Path | None = None


class Work:
    """The folder for all output; `locked` creates it.

    Attributes:
        folder: its path with links resolved, because they may change before the last step is done.

    Raises:
        UserError: it holds other things.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._done = self.folder / ".done"
        self._settings = self.folder / "training-settings"
        others = sorted(os.listdir(folder)) if folder.exists() else []
        if others and not self._done.is_dir():
            raise UserError(
                f"{folder} has other things in it ({others[0]}) and is no work folder; name a new"
                " one"
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands out of the folder.

        Raises:
            UserError: another one is in it.
        """
        for part in (self._done, self.folder / "logs"):
            part.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(locked(self._done))
            except BlockingIOError:
                raise UserError(f"{self.folder} is in use by another training") from None
            remove_unfinished(self.folder)
            yield

    @property
    def has_begun(self) -> bool:
        return self._settings.exists()

    def remembered(self) -> dict[str, str]:
        """Return the settings that a begun folder remembers, by their variables."""
        lines = self._settings.read_text(encoding="utf-8") if self.has_begun else ""
        return dict(line.partition("=")[::2] for line in lines.splitlines())

    def check(self, settings: Mapping[str, str], shown: Mapping[str, str] | None = None) -> None:
        """Check that no other settings are remembered; an older version remembered fewer.

        Args:
            shown: the options, by the names of their settings, for the message.

        Raises:
            UserError: the folder was made with others.
        """
        known = self.remembered()
        for name, value in settings.items():
            if known.get(name, value) != value:
                now = f"{shown.get(name, name)} {value}" if shown else f"{name}={value}"
                raise UserError(
                    f"{self.folder} was made with other settings, now {now} instead of"
                    f" {known[name] or 'nothing'}: name another folder, or remove that one"
                )

    def remember(self, settings: Mapping[str, str]) -> None:
        """Write settings that cannot be changed in this folder, once."""
        if not self.has_begun:
            lines = (f"{name}={value}\n" for name, value in settings.items())
            write_text(self._settings, "".join(lines))

    def is_done(self, step: Step) -> bool:
        has_output = step.output is None or step.output.exists()
        return has_output and (self._done / step.name).exists()

    def do(self, step: Step) -> None:
        """Do a step, unless it was done before."""
        if self.is_done(step):
            log(f"{step.name}: done before")
            return
        log(step.name)
        start = time.monotonic()
        try:
            if step.output is None:
                step.make()
            else:
                with replacing(step.output, may_be_folder=True, durable=True) as unfinished:
                    step.make(unfinished)
            (self._done / step.name).touch()
        except KeyboardInterrupt as interrupted:
            log(f'step "{step.name}" is unfinished; run again to go on')
            sys.exit(128 + (*interrupted.args, signal.SIGINT)[0])
        log(f"{step.name}: done in {time.monotonic() - start:.0f} s")

    def link(self, name: str, target: Path) -> None:
        """Point a link in the folder to the newest output."""
        link = self.folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(target.relative_to(self.folder))

    def run(
        self,
        name: str,
        command: Sequence[object],
        show: Callable[[str], None] | None = None,
    ) -> None:
        """Run a program whose output goes to ``logs/NAME.log``.

        It gets SIGTERM if this process is killed, or it would go on writing to the folder.

        Args:
            command: the arguments of Python.
            show: is called with each line of the output, which then extends the log of earlier
                runs.

        Raises:
            KeyboardInterrupt: a signal ended the program; it has the signal's number.
            UserError: the program failed; the end of its log has been shown.
        """
        path = self.folder / "logs" / f"{name}.log"
        with path.open("ab" if show else "wb") as file, _passing_signals_on() as children:
            child = subprocess.Popen(
                [sys.executable, "-P", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if show else file,
                stderr=subprocess.STDOUT,
                preexec_fn=_end_with_this_process,
                # logs have all that fairseq says; the screen has what is picked
                env={**os.environ, "RNNSEARCH_WHOLE_LOG": "1"},
            )
            children.append(child)
            if show and child.stdout:
                for line in child.stdout:
                    file.write(line)
                    file.flush()
                    show(line.decode(errors="replace").rstrip("\n"))
            status = child.wait()
        if status - 128 in _SIGNALS:
            raise KeyboardInterrupt(status - 128)  # sent to the program alone
        if not status and b"Stopped by SIGUSR1" in path.read_bytes()[-500:]:
            raise KeyboardInterrupt(signal.SIGUSR1)  # neither a failed training nor a finished one
        if status:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            print(*map(as_text, lines[-_SHOWN:]), sep="\n", file=sys.stderr)
            raise UserError(f"{name} failed with status {status}; the end of {path} is above")


def end_at_once() -> None:
    """Let signals, and the end of the parent, end this process of a pool without a word."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    _end_with_this_process()


def _end_with_this_process() -> None:
    if prctl := getattr(_C_LIBRARY, "prctl", None):  # of Linux
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def _passing_signals_on() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Pass signals on to the programs in the list: a training saves before it ends.

    A signal that is ignored, such as SIGHUP below nohup, stays so.

    Raises:
        KeyboardInterrupt: at the end of the block, if there was a signal.
    """
    children: list[subprocess.Popen[bytes]] = []
    received: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        received.append(number)
        for child in children:
            child.send_signal(number)

    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in heard}
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise KeyboardInterrupt(received[0])
