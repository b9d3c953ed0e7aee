"""fairseq's commands run as a user runs them, and a language that is learned in seconds.

The language has nouns, some of them after an adjective, which its translation puts
behind the noun: "red house bird" is "maison rouge oiseau".
"""

import contextlib
import importlib
import json
import logging
import os
import random
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import BinaryIO
from unittest import mock

from launchpad import (
    BEGUN,
    QUIET,
    ROOT,
    SCRIPTS,
    TASK,
    Finished,
    exit_status,
    warm,
    words,
)

from fairseq_rnnsearch import errors

PACKAGE = ROOT / "fairseq_rnnsearch"

NOUNS = "house:maison bird:oiseau tree:arbre table:table key:clé lamp:lampe boat:bateau".split()
ADJECTIVES = "red:rouge yellow:jaune calm:calme vast:vaste rare:rare weird:étrange".split()
SHORTLIST = 10  # of these 13 words

SIZES = (
    "--encoder-embed-dim 16 --encoder-hidden-size 24 --decoder-embed-dim 16"
    " --decoder-hidden-size 24 --attention-size 24 --maxout-size 16"
)
MODEL = f"--arch rnnsearch_tiny {SIZES}"
# the same as settings of a recipe, without what only a real corpus needs
TINY_MODEL = {
    "EMBEDDING": "16",
    "HIDDEN": "24",
    "ATTENTION": "24",
    "MAXOUT": "16",
    "DROPOUT": "0",
    "LABEL_SMOOTHING": "0",
}
PAPER = "--criterion alignment_heatmap --optimizer rnnsearch_adadelta --clip-norm 1 --batch-size 20"
LAST_ONLY = "--no-epoch-checkpoints --heatmap-samples 0"


# --- running ----------------------------------------------------------------------------------


def run(command: str, *arguments: object, **options) -> Finished:
    """Run one of fairseq's commands in the warm process of this worker: see `Launchpad.run`."""
    return warm().run(command, *arguments, **options)


def call(
    program: str | Path,
    *arguments: object,
    stdin: str | bytes = "",
    cwd: Path = ROOT,
    **environment: str,
) -> Finished:
    """Run a command of the package or a program of recipes in the test's own process.

    It finds itself in a process of its own, but for what has been imported, and all that it leaves
    there is undone. Not for fairseq's commands, which patch fairseq, nor for several threads.

    Args:
        program: a module that has a ``main``, such as "fairseq_rnnsearch.commands.align", or the
            path of a program.
        arguments, stdin, cwd, environment: as of `Launchpad.run`.
    """
    argv = [str(program), *words(*arguments)]
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(stdin if isinstance(stdin, bytes) else stdin.encode())
        files[0].seek(0)
        with (
            _fresh_process(*files),
            mock.patch.multiple(sys, argv=argv, path=[str(Path(program).parent), *sys.path]),
            mock.patch.dict(os.environ, environment),
            contextlib.chdir(cwd),
        ):
            status = exit_status(lambda: _call_main(program))
        for file in files[1:]:
            file.seek(0)
        said = [file.read().decode(errors="backslashreplace") for file in files[1:]]
        return Finished(shlex.join(argv), status, *said)


def _call_main(program: str | Path) -> None:
    if isinstance(program, Path):
        runpy.run_path(str(program), run_name="__main__")
        return
    module = importlib.import_module(program)
    if hasattr(module, "__path__"):  # a package
        module = importlib.import_module(f"{program}.__main__")
    module.main()


@contextlib.contextmanager
def _fresh_process(*files: BinaryIO) -> Iterator[None]:
    """Let standard streams use files, and begin with a fresh process's logging and hook."""
    kept = [os.dup(descriptor) for descriptor in range(3)]
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    level, modules = logging.root.level, _without_modules_of_recipes()
    logging.root.setLevel(logging.WARNING)
    forget_what_was_said()
    for descriptor, file in enumerate(files):
        os.dup2(file.fileno(), descriptor)
    with (
        open(0, encoding="utf-8", closefd=False) as stdin,
        open(1, "w", encoding="utf-8", closefd=False) as out,
        open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as err,
        mock.patch.multiple(
            sys, stdin=stdin, stdout=out, stderr=err, excepthook=sys.__excepthook__
        ),
        mock.patch.object(logging.root, "handlers", []),
        warnings.catch_warnings(),
    ):
        yield
    for descriptor, old in enumerate(kept):
        os.dup2(old, descriptor)
        os.close(old)
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    logging.root.setLevel(level)
    forget_what_was_said()
    _without_modules_of_recipes()
    sys.modules.update(modules)


def forget_what_was_said() -> None:
    """Let what a process does and says once happen again."""
    for function in vars(errors).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def _without_modules_of_recipes() -> dict[str, ModuleType]:
    """Remove modules that a program has imported from beside it; several have the same names."""
    files = {n: getattr(module, "__file__", None) or "" for n, module in sys.modules.items()}
    recipes = str(ROOT / "recipes")
    return {n: sys.modules.pop(n) for n, file in files.items() if file.startswith(recipes)}


def run_process(words: Iterable[object], **options) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, and keep what it says."""
    BEGUN["programs"] += 1
    return subprocess.run([*map(str, words)], capture_output=True, text=True, **options)


def run_installed(
    command: str, *arguments: object, stdin: str | bytes = "", cwd: Path = ROOT, **environment: str
) -> Finished:
    """Run an installed command from the checkout's root as a user does, and wait for its end.

    It takes seconds to import torch and fairseq: each command is started once in this way, by
    `test_end_to_end`, and `run` is for all that needs no process of its own.

    Args:
        command: its name in the folder of this Python.
        arguments: strings that begin with "-" are cut into words as in a shell.
        environment: variables to set besides OMP_NUM_THREADS.
    """
    BEGUN["programs"] += 1
    command_line = [str(SCRIPTS / command), *words(*arguments)]
    finished = subprocess.run(
        command_line,
        input=stdin if isinstance(stdin, bytes) else stdin.encode(),
        capture_output=True,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "", **environment},
        timeout=600,
    )
    return Finished(
        shlex.join(command_line),
        finished.returncode,
        finished.stdout.decode(errors="backslashreplace"),
        finished.stderr.decode(errors="backslashreplace"),
    )


def together(*calls: Callable) -> list:
    """The results of calls that wait for commands, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def _option(name: str, value: object) -> str:
    return f"--{name}={shlex.quote(str(value))}"


def preprocess(text: Path, data: Path, *more: object) -> Finished:
    """fairseq-preprocess for whatever of train, valid and test there is in a folder."""
    return run(
        "fairseq-preprocess",
        TASK,
        "--source-lang en --target-lang fr",
        *[
            _option(f"{split}pref", text / split)
            for split in ("train", "valid", "test")
            if (text / f"{split}.en").exists()
        ],
        _option("destdir", data),
        *more,
    )


def train(data: Path, save_dir: Path, *more: object, **options) -> Finished:
    """fairseq-train; the model is chosen in ``more``."""
    return run(
        "fairseq-train", data, f"{TASK} {QUIET}", _option("save-dir", save_dir), *more, **options
    )


def hydra_options(folder: Path, data: Path, **groups: dict) -> str:
    """Write a configuration of fairseq-hydra-train, and return the options that name it.

    Args:
        groups: more of the groups of its options.
    """
    config = {
        "common": {"user_dir": str(PACKAGE), "cpu": True, "no_progress_bar": True},
        "task": {"_name": "alignment_heatmap", "data": str(data)},
        "model": {"_name": "rnnsearch_tiny"},
        "criterion": {"_name": "alignment_heatmap"},
        "optimizer": {"_name": "rnnsearch_adadelta"},
        "lr_scheduler": {"_name": "fixed"},
        "dataset": {"batch_size": 20, "num_workers": 0},
        "checkpoint": {"save_dir": str(folder / "hydra"), "no_epoch_checkpoints": True},
    }
    (folder / "small.yaml").write_text(json.dumps(config | groups))  # every JSON is YAML
    return f"--config-name=small --config-dir={folder} hydra.run.dir={folder}/outputs"


# --- files that run code ------------------------------------------------------------------------


class RunsACommand:
    """Unpickled, it leaves a file behind."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch '{self.trace}'",)


# --- text -------------------------------------------------------------------------------------


def write_text(folder: Path, **sizes: int) -> Path:
    """Sentences of one to three nouns, so many for each split; the later words are rarer."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in sizes.items():
        draw = random.Random(split)
        lines = {"en": "", "fr": ""}
        for _ in range(size):
            phrases = [_phrase(draw) for _ in range(draw.randint(1, 3))]
            for side, language in enumerate(lines):
                lines[language] += " ".join(phrase[side] for phrase in phrases) + "\n"
        for language, text in lines.items():
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
    return folder


def _phrase(draw: random.Random) -> tuple[str, str]:
    """A noun, and two times out of three an adjective, in both languages."""

    def word(words: list[str]) -> list[str]:
        weights = range(len(words) + 2, 2, -1)
        return draw.choices(words, weights)[0].split(":")

    noun, adjective = word(NOUNS), word(ADJECTIVES)
    if draw.random() < 1 / 3:
        return noun[0], noun[1]
    return f"{adjective[0]} {noun[0]}", f"{noun[1]} {adjective[1]}"


def sides(text: Path, split: str) -> list[tuple[list[str], list[str]]]:
    """The sentence pairs of a split, each side cut into words."""
    lines = [
        (text / f"{split}.{language}").read_text(encoding="utf-8").splitlines()
        for language in ("en", "fr")
    ]
    return [(source.split(), target.split()) for source, target in zip(*lines, strict=True)]


# --- looking into a training ------------------------------------------------------------------

_WATCHING = """
import json
import os

from fairseq_rnnsearch.plugin.task import AlignmentHeatmapTask


def watch(name):
    step = getattr(AlignmentHeatmapTask, name)

    def watched(self, sample, model, criterion, *more, **options):
        ignored = more[2] if len(more) > 2 else options.get("ignore_grad", False)
        if not ignored:  # a process without a batch of its own repeats another, without effect
            with open(os.environ["WATCHED"] + os.environ.get("RANK", "0"), "a") as log:
                print(json.dumps([name, sample["id"].tolist()]), file=log)
        return step(self, sample, model, criterion, *more, **options)

    setattr(AlignmentHeatmapTask, name, watched)


watch("train_step")
watch("valid_step")
"""


class Watch:
    """A plugin around ours that writes down which sentences each step sees."""

    def __init__(self, folder: Path) -> None:
        plugin = folder / "watching_plugin"
        plugin.mkdir(parents=True)
        (plugin / "__init__.py").write_text(_WATCHING)
        self._log = folder / "seen"
        self.environment = {"WATCHED": str(self._log), "PYTHONPATH": str(ROOT)}
        self.options = f"--user-dir={plugin}"

    def batches(self, kind: str = "train_step", process: int = 0) -> list[list[int]]:
        """Sentence numbers of the batches that a process has seen, in order."""
        lines = Path(f"{self._log}{process}").read_text().splitlines()
        return [ids for name, ids in map(json.loads, lines) if name == kind]


def parameters_and_optimizer(checkpoint: Path) -> dict:
    """The tensors of a checkpoint by name: parameters, and the optimizer's state of each."""
    import torch

    saved = torch.load(checkpoint, weights_only=True)
    tensors = dict(saved["model"])
    for number, state in saved["last_optimizer_state"]["state"].items():
        tensors |= {f"{number} {name}": torch.as_tensor(value) for name, value in state.items()}
    return tensors


def assert_equal_folders(found: Path, expected: Path, **tolerance: float) -> None:
    """Two trainings ended with the same parameters and optimizer; see `assert_equal_tensors`."""
    last = [parameters_and_optimizer(folder / "checkpoint_last.pt") for folder in (found, expected)]
    assert_equal_tensors(*last, **tolerance)


def assert_equal_tensors(
    found: dict, expected: dict, relative: float = 0.0, floor: float = 0.0
) -> None:
    """Equal to the bit, or up to a relative difference of each tensor's largest value.

    Args:
        floor: a difference that is none, for tensors that are zero but for rounding.
    """
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        difference = (found[name].double() - value.double()).abs().max()
        assert difference <= max(floor, relative * value.double().abs().max()), name
