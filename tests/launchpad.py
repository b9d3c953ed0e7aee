"""Commands again and again, without the seconds in which Python imports torch and fairseq.

A process imports them once and forks a child for each command, which goes on as the installed
script does, from reading its command line. A training is killed like any other process, at a moment
that the test chooses, or gets its signal in the middle of what `Strike` names.
"""

import atexit
import faulthandler
import functools
import gc
import importlib
import itertools
import json
import logging
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(sys.executable).parent
ERROR = "fairseq_rnnsearch: error: "
TASK = "--user-dir fairseq_rnnsearch --task alignment_heatmap"
QUIET = "--cpu --no-progress-bar --num-workers 0"
# Seconds after which a command hangs.
LIMIT = float(os.environ.get("LAUNCHPAD_LIMIT", 120))


# How often tests have begun a fork, a training (of one or several processes) or another program.
BEGUN = Counter(forks=0, trainings=0, programs=0)

# What the process imports of the package.
LOADED = (
    *("fairseq_rnnsearch.commands.translate", "fairseq_rnnsearch.commands.align"),
    *("fairseq_rnnsearch.commands.export", "fairseq_rnnsearch.figures.page"),
    *("fairseq_rnnsearch.commands.loading", "fairseq_rnnsearch.runs.programs"),
    *("fairseq_rnnsearch.runs.preprocessing", "fairseq_rnnsearch.models.trained_models"),
)


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    command: str
    rc: int
    out: str
    err: str

    def ok(self) -> "Finished":
        """Itself, after a check that it went well."""
        assert self.rc == 0 and "Traceback" not in self.err, f"{self.command}\n{self.tail()}"
        return self

    def error(self) -> str:
        """The message of a command that has to fail with one clear line and nothing after it."""
        assert self.rc not in (0, None), f"{self.command}\nended with 0\n{self.tail()}"
        assert "Traceback" not in self.out + self.err, f"{self.command}\n{self.tail()}"
        lines = self.err.splitlines()
        ours = [line for line in lines if line.startswith(ERROR)]
        assert len(ours) == 1, f"{self.command}\n{self.tail()}"
        assert lines[-1] == ours[0], f"{self.command}\n{self.tail()}"
        return ours[0].removeprefix(ERROR)

    def lines(self, kind: str) -> dict[int, list[str]]:
        """What fairseq-generate or -interactive has printed after "H-0<tab>" and the like.

        Returns:
            For each sentence number its lines, each without that beginning.
        """
        found: dict[int, list[str]] = {}
        for line in self.out.splitlines():
            if line.startswith(f"{kind}-") and line[len(kind) + 1 :].split("\t")[0].isdigit():
                number, _, rest = line[len(kind) + 1 :].partition("\t")
                found.setdefault(int(number), []).append(rest)
        return found

    def hypotheses(self) -> dict[int, list[str]]:
        """The translations, without their scores, best first."""
        return {n: [h.split("\t")[1] for h in lines] for n, lines in self.lines("H").items()}

    def tail(self) -> str:
        return f"out: ...{self.out[-2000:]}\nerr: ...{self.err[-4000:]}"


@dataclass(frozen=True)
class Strike:
    """A signal that a training sends itself when something is done for the so-many-th time.

    Attributes:
        where: "write" and "copy" (half of the file is there), "flush" (of a file), "rename",
            "update" and "validation" (about to begin).
        call: the how-manieth, from 1.
        number: of the signal.
        again: seconds after which it is sent again, and again, ...
        to_all: also to the data-loading processes.
    """

    where: str
    call: int
    number: int = signal.SIGKILL
    again: tuple[float, ...] = ()
    to_all: bool = False


class Run:
    """A command that was begun."""

    def __init__(self, pad: "Launchpad", words: list[str], log: Path, err: Path, pid: int) -> None:
        self._pad, self._words, self.log, self._err, self.pid = pad, words, log, err, pid

    def send(self, number: int, to_all: bool = False) -> None:
        """Send a signal, to its data-loading processes too where that is asked for."""
        (os.killpg if to_all else os.kill)(self.pid, number)

    def finish(self) -> Finished:
        """Wait for its end; what a training has said is in both `out` and `err`."""
        ended = os.pidfd_open(self.pid)
        if not select.select([ended], [], [], LIMIT)[0]:
            self.send(signal.SIGKILL, to_all=True)
            select.select([ended], [], [])
        os.close(ended)
        rc = self._pad.ask(do="wait", pid=self.pid)["rc"]
        out, err = (path.read_text(errors="backslashreplace") for path in (self.log, self._err))
        return Finished(shlex.join(self._words), rc, out, err)


def unused_port() -> int:
    """One of this machine's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Launchpad:
    """The process that forks."""

    def __init__(self, folder: Path) -> None:
        self._logs = (folder / f"log{i}" for i in itertools.count())
        self._speaking = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, __file__, folder / "bytecode"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        )

    def ask(self, **request: object) -> dict:
        """Send a request to the process and return its answer; threads take turns."""
        with self._speaking:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())

    def begin(
        self,
        *arguments: object,
        strike: Strike | None = None,
        cwd: Path = ROOT,
        **environment: str,
    ) -> Run:
        """Begin fairseq-train; options are cut into words as in a shell."""
        log = next(self._logs)
        arguments = f"{TASK} --user-dir={ROOT}/fairseq_rnnsearch {QUIET}", *arguments
        return self._begin("fairseq-train", arguments, log, log, "", strike, environment, cwd)

    def run(
        self,
        command: str,
        *arguments: object,
        stdin: str | bytes = "",
        cwd: Path = ROOT,
        **environment: str,
    ) -> Finished:
        """Run one of fairseq's commands, a module, or Python with ``-c``, and wait for its end.

        Args:
            command: such as "fairseq-generate", "fairseq_rnnsearch.commands.align" or "python".
            arguments: strings that begin with "-" are cut into words as in a shell.
            stdin: what is typed.
            cwd: the folder in which it begins, instead of the checkout's root.
            environment: variables to set.
        """
        log = next(self._logs)
        err = log.with_suffix(".err")
        return self._begin(command, arguments, log, err, stdin, None, environment, cwd).finish()

    def _begin(
        self,
        command: str,
        arguments: tuple[object, ...],
        log: Path,
        err: Path,
        stdin: str | bytes,
        strike: Strike | None,
        environment: dict[str, str],
        cwd: Path = ROOT,
    ) -> Run:
        for path in (log, err):
            path.touch()
        typed = log.with_suffix(".in")
        typed.write_bytes(stdin if isinstance(stdin, bytes) else stdin.encode())
        is_script = command.startswith("fairseq-")
        command_line = [str(SCRIPTS / command) if is_script else command, *words(*arguments)]
        is_training = command in ("fairseq-train", "fairseq-hydra-train")
        BEGUN["forks"] += 1
        BEGUN["trainings"] += is_training and environment.get("RANK", "0") == "0"
        pid = self.ask(
            do="begin",
            words=command_line,
            files=[str(typed), str(log), str(err)],
            strike=strike and asdict(strike),
            environment=environment,
            cwd=str(cwd),
        )["pid"]
        return Run(self, command_line, log, err, pid)

    def train(self, *arguments: object, **options: object) -> Finished:
        return self.begin(*arguments, **options).finish()

    def train_together(
        self,
        processes: int,
        *arguments: object,
        strikes: dict[int, Strike] | None = None,
        **environment: str,
    ) -> list[Finished]:
        """Begin several processes, as torchrun begins them, and wait for them.

        Args:
            strikes: by which some of them are struck.
        """
        address = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(unused_port()))
        runs = [
            self.begin(
                *arguments,
                strike=(strikes or {}).get(rank),
                **dict(WORLD_SIZE=str(processes), RANK=str(rank), LOCAL_RANK=str(rank)),
                **address,
                **environment,
            )
            for rank in range(processes)
        ]
        return [run.finish() for run in runs]

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def words(*arguments: object) -> list[str]:
    """Return the words of a command line; what begins with "-" is cut as by a shell."""
    found = []
    for argument in arguments:
        text = str(argument)
        found += shlex.split(text) if text.startswith("-") else [text]
    return found


def exit_status(main: Callable[[], object]) -> int:
    """Call a program's main function, and return the status with which Python would end."""
    try:
        main()
    except SystemExit as end:
        if not isinstance(end.code, str):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


@functools.cache
def warm() -> Launchpad:
    """Return the launchpad of this worker; it is begun by the first command that needs one."""
    folder = tempfile.mkdtemp(prefix="launchpad")
    pad = Launchpad(Path(folder))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(pad.close)
    return pad


def parse_overrides_once() -> None:
    """Let hydra parse each setting once: each command of fairseq has some 200, mostly the same."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parse, known = OverridesParser.parse_rule, {}

    def parse_rule(self: OverridesParser, text: str, rule: str) -> object:
        if (text, rule) not in known:
            known[text, rule] = parse(self, text, rule)
        return known[text, rule]

    OverridesParser.parse_rule = parse_rule


# --- the process itself -----------------------------------------------------------------------


def _serve() -> None:
    """Import all that commands need, and fork a child for each request."""
    import fairseq.sequence_scorer  # noqa: F401
    import matplotlib.backends.backend_agg  # noqa: F401
    import sacrebleu  # noqa: F401
    import torch._dynamo  # noqa: F401  (the first optimizer imports it)
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    for name in LOADED:
        importlib.import_module(name)
    parse_overrides_once()
    convert_namespace_to_omegaconf(Namespace())  # parses the defaults
    gc.freeze()
    logging.root.handlers.clear()  # a module of fairseq's made one; programs make their own
    logging.root.setLevel(logging.WARNING)
    sys.dont_write_bytecode, sys.pycache_prefix = False, sys.argv[1]  # for the next child
    for line in sys.stdin:
        request = json.loads(line)
        if request.pop("do") == "wait":
            _, status = os.waitpid(request["pid"], 0)
            print(json.dumps({"rc": os.waitstatus_to_exitcode(status)}), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _run(**request)
        print(json.dumps({"pid": pid}), flush=True)


def _run(
    words: list[str], files: list[str], strike: dict | None, environment: dict, cwd: str
) -> None:
    """In the child: what the installed script does; never returns."""
    os.setpgid(0, 0)
    os.chdir(cwd)
    for descriptor, path in enumerate(files):
        mode = os.O_WRONLY | os.O_APPEND if descriptor else os.O_RDONLY
        os.dup2(os.open(path, mode), descriptor)
    sys.stdin = open(0)  # noqa: SIM115
    # also under shells that ignore Ctrl-C, and under nohup
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.update(environment)
    faulthandler.dump_traceback_later(0.9 * LIMIT)  # says where it hangs, before it is killed
    sys.argv = list(words)
    if strike:
        _arrange(**strike)
    status = exit_status(_main_of(words))
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _main_of(command: list[str]) -> Callable[[], object]:
    """Return what a command line runs."""
    name, *more = command
    script = Path(name).name
    if script.startswith("fairseq-"):
        name = script.removeprefix("fairseq-").replace("-", "_")
        if any(Path(word).name.endswith("fairseq_rnnsearch") for word in more):
            # fairseq does so when it scans the folder, which it omits for what is loaded
            importlib.import_module("fairseq_rnnsearch.runs.patches").patch_fairseq()
        return importlib.import_module(f"fairseq_cli.{name}").cli_main
    if script.startswith("python") and more[0] == "-c":
        sys.argv[:2] = []
        return functools.partial(exec, more[1], {"__name__": "__main__"})
    if script.startswith("python"):  # -m
        name = more[1]
        sys.argv[:2] = []
    sys.modules.pop(name, None)  # or runpy warns that it is loaded
    return functools.partial(runpy.run_module, name, run_name="__main__", alter_sys=True)


def _arrange(where: str, call: int, number: int, again: list[float], to_all: bool) -> None:
    """In the child: prepare a `Strike`."""
    import fairseq_cli.train
    import torch
    from fairseq.trainer import Trainer

    module, name = {
        "write": (torch, "save"),
        "copy": (shutil, "copyfile"),
        "flush": (os, "fsync"),
        "rename": (os, "replace"),
        "update": (Trainer, "train_step"),
        "validation": (fairseq_cli.train, "validate"),
    }[where]
    real, calls = getattr(module, name), itertools.count(1)

    def struck(*args, **options) -> object:
        if where == "flush" and stat.S_ISDIR(os.fstat(*args).st_mode):
            return real(*args)
        if next(calls) == call:
            if where in ("write", "copy"):
                real(*args, **options)
                path = args[1]
                if where == "write":
                    path.flush()
                    path = path.name
                os.truncate(path, os.path.getsize(path) // 2)
            for pause in (0, *again):
                time.sleep(pause)
                (os.killpg if to_all else os.kill)(os.getpid(), number)
        return real(*args, **options)

    setattr(module, name, struck)


if __name__ == "__main__":
    _serve()
