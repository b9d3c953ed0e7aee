"""What `fuzz.py --commands` damages: the files of real commands, a process for each case."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from commands import (
    LAST_ONLY,
    MODEL,
    PAPER,
    TASK,
    Finished,
    generate,
    interactive,
    preprocess,
    run,
    train,
    write_text,
)
from fuzz import Family, Files
from fuzz_families import _groundhog, _jsonl, _log, _translations

from fairseq_rnnsearch.errors import UserError

TRAIN = f"{MODEL} {PAPER} {LAST_ONLY} --max-update 2"


def families(work: Path) -> dict[str, Family]:
    """All of them; first a corpus is binarised and a model trained for two updates."""
    data, model = work / "data", work / "model"
    text = write_text(work / "text", train=30, valid=5, test=5)
    preprocess(text, data).ok()
    train(data, model, TRAIN).ok()
    binarised = _content(data, "*.bin", "*.idx", "dict.*", "SHA256SUMS")
    checkpoint = {"checkpoint_last.pt": (model / "checkpoint_last.pt").read_bytes()}
    last = model / "checkpoint_last.pt"

    def align(folder: Path) -> Finished:
        return python(
            "align", data, f"--path={last} --source={folder}/train.en --target={folder}/train.fr",
            f"--heatmap-dir={folder}/out",
        )  # fmt: skip

    def evaluate(options: str) -> Callable[[Path], Finished]:
        name, _, rest = options.partition(" ")
        return lambda folder: python(
            "evaluation", name, rest.replace("@", shlex.quote(str(folder)))
        )

    commands: dict[str, tuple[Files, Callable[[Path], Finished]]] = {
        "fairseq-preprocess": (
            _content(text, "train.*", "valid.*"),
            lambda folder: preprocess(folder, folder / "out"),
        ),
        "fairseq-train": (binarised, lambda folder: train(folder, folder / "out", TRAIN)),
        "fairseq-train --restore-file": (
            checkpoint,
            lambda folder: train(
                data, folder / "out", TRAIN, f"--restore-file={folder}/checkpoint_last.pt"
            ),
        ),
        "fairseq-generate, data": (binarised, lambda folder: generate(folder, last, "--beam 2")),
        "fairseq-generate, checkpoint": (
            checkpoint,
            lambda folder: generate(data, folder / "checkpoint_last.pt", "--beam 2"),
        ),
        "fairseq-interactive": (
            _content(text, "test.en"),
            lambda folder: interactive(
                data, last, f"--input={folder}/test.en --beam 2 --max-len-b 5 --buffer-size 2"
            ),
        ),
        "fairseq-validate": (
            binarised,
            lambda folder: run(
                "fairseq-validate", folder, f"{TASK} --batch-size 4 --cpu --path={last}"
            ),
        ),
        "align": (_content(text, "train.*"), align),
        "evaluation aer": (
            {"gold": b"0001 1 1 S\n0002 2 1 P\n", "hypothesis": b"0-0\n1-0\n"},
            evaluate("aer --gold=@/gold --hypothesis=@/hypothesis"),
        ),
        "evaluation alignments": (
            _jsonl(work),
            evaluate("alignments --alignments=@/alignments.jsonl --ids=0 --out=@/out"),
        ),
        "evaluation training": ({"train.log": _log()}, evaluate("training --log=a=@/train.log")),
        "evaluation report": (
            {**_translations(), **_jsonl(work / "report"), "train.log": _log()},
            evaluate(
                "report --out=@/out --source=@/source.en --reference=@/reference.fr"
                " --system=S=@/system.fr --source-dictionary=@/dict.en.txt"
                " --target-dictionary=@/dict.fr.txt --log=S=@/train.log --resamples=20"
                " --alignments=S=@/alignments.jsonl --alignment-ids=0 --fewest=1"
            ),
        ),
        "evaluation dictionary": (
            {"source": b"a b\na c\n", "target": b"x y\nx z\n", "links.pharaoh": b"0-0\n0-0 1-1\n"},
            evaluate(
                "dictionary --source=@/source --target=@/target --alignments=@/links.pharaoh"
                " --out=@/words"
            ),
        ),
        "evaluation bleu": (
            _translations(),
            evaluate(
                "bleu --source=@/source.en --reference=@/reference.fr --system=S=@/system.fr"
                " --source-dictionary=@/dict.en.txt --target-dictionary=@/dict.fr.txt"
            ),
        ),
        "groundhog import": (
            _groundhog(work).files,
            lambda folder: python(
                "groundhog", "import", f"--params={folder}/params.npz --out={folder}/out/model.pt",
                f"--source-words={folder}/words.en",
            ),
        ),
    }  # fmt: skip
    return {name: Family(files, _ends_well(call)) for name, (files, call) in commands.items()}


def python(module: str, *arguments: object) -> Finished:
    """A module of the package as a command."""
    name = Path(sys.executable).name
    return run(name, f"-m fairseq_rnnsearch.{module}", *arguments)


def _content(folder: Path, *patterns: str) -> Files:
    return {path.name: path.read_bytes() for kind in patterns for path in folder.glob(kind)}


def _ends_well(call: Callable[[Path], Finished]) -> Callable[[Path], None]:
    """Status 0 without a traceback, or one line, which is raised as in this process."""

    def read(folder: Path) -> None:
        finished = call(folder)
        if finished.rc == 0:
            finished.ok()
            return
        message = finished.error()
        for path in (folder / "out").rglob("*"):  # what a later command takes for finished work
            if path.suffix not in (".pt", ".bin", ".idx", ".txt", ".jsonl", ".svg", ".png"):
                path.unlink() if path.is_file() else None
        raise UserError(message)

    return read
