"""Options and fields of checkpoints with values that are none: taken, or refused in one line.

    python tests/fuzz_refusals.py --cases 500 --seed 7
    python tests/fuzz_refusals.py --family "fairseq-train, options" --case 123

Each case is a command, forked from a process that has imported everything; it follows from the
seed, the family and its number. What is neither taken nor refused in one line is a finding; so is
a checkpoint that a refused command has changed or written.
"""

import argparse
import copy
import math
import random
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from commands import LAST_ONLY, MODEL, PACKAGE, PAPER, QUIET, Finished, write_text
from fuzz import Finding
from launchpad import Launchpad

TASK = f"--user-dir={PACKAGE} --task alignment_heatmap"
# every command ends soon, whatever one of its options is
TRAIN = f"{MODEL} {PAPER} {LAST_ONLY} --max-update 2 --max-epoch 1"
SEARCH = f"{TASK} --cpu --beam 2 --max-len-b 5"

TEXTS = (
    "0", "1", "-1", "nan", "inf", "", " ", "x", "nosuch/x", "@file", "@folder", "99999999999",
    "1e30", "1e-30", "0.5", "[]", "{}", "None", "1,2", "'", "\u0663",
)  # fmt: skip
VALUES = {
    **{"none": None, "text": "x", "minus": -1, "no number": math.nan, "list": [], "mapping": {}},
    **{"huge": 10**30, "true": True},
}
# they wait for other machines, or start programs
_LEFT_OUT = ("help", "distributed", "tpu", "wandb", "azureml", "aim", "plasma", "profile")


@dataclass(frozen=True)
class Family:
    """Commands that are right but for one thing.

    Attributes:
        places: the options of a command, or the fields of a checkpoint.
        run: the command with one of them wrong: says what is wrong, and how the command ended.
    """

    places: list
    run: Callable[[object, random.Random, Path], tuple[str, Finished]]


def families(work: Path, pad: Launchpad) -> dict[str, Family]:
    """All of them; first a corpus is binarised and a model trained for three updates."""
    data, model = work / "data", work / "model"
    checkpoint = model / "checkpoint_last.pt"
    text = write_text(work / "text", train=30, valid=5, test=5)
    sides = f"--trainpref={text}/train --validpref={text}/valid --testpref={text}/test"
    searched = f"{SEARCH} --batch-size 4 --path={checkpoint}"
    lines = {
        "preprocess": f"{TASK} -s en -t fr {sides} --destdir=@/out",
        "train": f"{data} {TASK} {QUIET} --save-dir=@/out {TRAIN}",
        "generate": f"{data} {searched}",
        "interactive": f"{data} {searched} --buffer-size 4",
        "validate": f"{data} {TASK} {QUIET} --batch-size 4 --path={checkpoint}",
    }

    def run(name: str, folder: Path, *more: str) -> Finished:
        words = lines[name].replace("@", str(folder)).split()
        return pad.run(f"fairseq-{name}", *words, *more, stdin="red house\nbird\n")

    run("preprocess", work, f"--destdir={data}").ok()
    run("train", work, f"--save-dir={model} --max-update 3 --max-epoch 9").ok()
    state = torch.load(checkpoint, weights_only=True)
    made = {
        f"fairseq-{name}, options": Family(options_of(name), _wrong_option(partial(run, name)))
        for name in lines
    }
    used = ("model", "task", "criterion")
    read = [p for p in places(state) if p[0] != "cfg" or len(p) < 3 or p[1] in used]
    goes_on = partial(run, "train"), "--max-update 5 --max-epoch 9 --restore-file="
    made["fairseq-train, fields"] = Family(
        [place for place in read if place[0] != "cfg" or len(place) < 3],
        _wrong_field(state, *goes_on),
    )
    made["fairseq-generate, fields"] = Family(
        [place for place in read if place[0] in ("args", "cfg", "model", "task_state")],
        _wrong_field(state, partial(run, "generate"), "--path="),
    )
    return made


def options_of(command: str) -> list[tuple[str, bool]]:
    """Those of one of fairseq's commands, and whether a value follows."""
    from fairseq import options

    import fairseq_rnnsearch  # noqa: F401

    names = {"train": "training", "generate": "generation", "interactive": "interactive_generation"}
    names |= {"preprocess": "preprocessing", "validate": "validation"}
    parser = getattr(options, f"get_{names[command]}_parser")()
    if command != "preprocess":
        words = f"data {TASK} {MODEL} {PAPER}" if command == "train" else f"data {TASK}"
        options.parse_args_and_arch(parser, words.split())  # which adds the plugin's options
    found = [
        (action.option_strings[-1], action.nargs != 0)
        for action in parser._actions
        if action.option_strings
    ]
    return [each for each in found if not any(part in each[0] for part in _LEFT_OUT)]


def _wrong_option(run: Callable[..., Finished]) -> Callable:
    def run_with(place: tuple[str, bool], draw: random.Random, folder: Path):
        name, has_value = place
        if not has_value:
            return name, run(folder, name)
        (folder / "file").write_text("x\n")
        (folder / "folder").mkdir()
        text = draw.choice(TEXTS)
        value = text.replace("@", f"{folder}/")
        return f"{name}={text}", run(folder, f"{name}={shlex.quote(value)}")

    return run_with


def places(value: object, place: tuple = ()) -> Iterator[tuple]:
    """The fields of a state, of long lists the first and the last."""
    if place:
        yield place
    items = list(value.items()) if isinstance(value, dict) else []
    if isinstance(value, list | tuple):
        items = list(enumerate(value))
    if len(items) > 3 and (place == ("model",) or isinstance(items[0][0], int)):
        items = [items[0], items[-1]]
    for key, item in items:
        yield from places(item, (*place, key))


def _wrong_field(state: dict, run: Callable[[Path, str], Finished], option: str) -> Callable:
    def run_with(place: tuple, draw: random.Random, folder: Path) -> tuple[str, Finished]:
        altered, what = _altered(state, place, draw)
        path = folder / "altered.pt"
        torch.save(altered, path)
        before = path.read_bytes()
        finished = run(folder, f"{option}{path}")
        changed, what = path.read_bytes() != before, f"{'.'.join(map(str, place))} {what}"
        if changed or (finished.rc and list((folder / "out").rglob("*.pt"))):
            raise Finding(f"{what}: a checkpoint was written")
        return what, finished

    return run_with


def _altered(state: dict, place: tuple, draw: random.Random) -> tuple[dict, str]:
    state = copy.deepcopy(state)
    *parents, last = place
    inner = state
    for key in parents:
        if isinstance(inner[key], tuple):
            inner[key] = list(inner[key])
        inner = inner[key]
    tensors = ("shape", "not finite") if isinstance(inner[last], torch.Tensor) else ()
    what = draw.choice((*VALUES, "removed", *tensors))
    if what == "removed":
        del inner[last]
    elif what == "shape":
        inner[last] = torch.zeros(3, 5)
    else:
        inner[last] = inner[last] * math.nan if what == "not finite" else VALUES[what]
    return state, what


# --- running them ---------------------------------------------------------------------------------


def run_case(name: str, family: Family, seed: int, number: int, work: Path) -> tuple[str, str]:
    """One case.

    Returns:
        "taken" or "refused", and what was wrong with what message.

    Raises:
        Finding: for anything else.
    """
    draw = random.Random(f"{seed} {name} {number}")
    folder = Path(tempfile.mkdtemp(dir=work))
    what, finished = family.run(draw.choice(family.places), draw, folder)
    shutil.rmtree(folder)
    try:
        if finished.rc == 0:
            finished.ok()
            return "taken", what
        message = finished.error()
    except AssertionError as problem:
        raise Finding(f"{what}\n{problem}") from problem
    if len(message) > 1000:
        raise Finding(f"{what}: {len(message)} characters: {message}")
    return "refused", f"{what}: {message}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100, help="of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--family")
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--verbose", action="store_true", help="print each message")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work, findings = Path(folder), 0
        (work / "logs").mkdir()
        (work / "cwd").mkdir()  # for files with names such as -1
        pad = Launchpad(work / "logs", work / "cwd")
        for name, family in families(work, pad).items():
            if options.family and options.family not in name:
                continue
            counts = Counter()
            numbers = range(options.cases) if options.case is None else [options.case]
            for number in numbers:
                try:
                    outcome, what = run_case(name, family, options.seed, number, work)
                    counts[outcome] += 1
                    if options.verbose:
                        print(f"{name} {number}: {outcome} {what}", flush=True)
                except Finding as finding:
                    counts["findings"] += 1
                    print(f"FINDING {name}, case {number}: {finding}", flush=True)
            print(name, dict(counts), flush=True)
            findings += counts["findings"]
        pad.close()
    sys.exit(findings > 0)


if __name__ == "__main__":
    main()
