"""What `fuzz.py --commands` damages: the files of real commands, a process for each case."""

from collections.abc import Callable
from pathlib import Path

from commands import LAST_ONLY, MODEL, PAPER, QUIET, TASK, preprocess, run, train, write_text
from fuzz import Family, Files
from fuzz_families import _groundhog, _jsonl, _log, _translations

from fairseq_rnnsearch.errors import UserError

TRAIN = f"{MODEL} {PAPER} {LAST_ONLY} --max-update 2"
TEXTS = (
    "--source=@/source.en --reference=@/reference.fr --system=S=@/system.fr"
    " --source-dictionary=@/dict.en.txt --target-dictionary=@/dict.fr.txt"
)


def families(work: Path) -> dict[str, Family]:
    """All of them; first a corpus is binarised and a model trained for two updates."""
    data, model = work / "data", work / "model"
    text = write_text(work / "text", train=30, valid=5, test=5)
    preprocess(text, data).ok()
    train(data, model, TRAIN).ok()
    last = model / "checkpoint_last.pt"
    binarised = _content(data, "*.bin", "*.idx", "dict.*", "SHA256SUMS")
    checkpoint, aligned = _content(model, last.name), _content(text, "train.*")
    links = {"gold": b"0001 1 1 S\n0002 2 1 P\n", "hypothesis": b"0-0\n1-0\n"}
    words = {"source": b"a b\na c\n", "target": b"x y\nx z\n"}
    log, evaluation = {"train.log": _log()}, "fairseq_rnnsearch.evaluation"
    trained, searched = f"{TASK} {QUIET} --save-dir=@/out {TRAIN}", f"{TASK} {QUIET} --beam 2"
    # each command with the files that are damaged, in the folder "@"
    commands = {
        "fairseq-preprocess": (
            aligned | _content(text, "valid.*"),
            f"fairseq-preprocess {TASK} -s en -t fr --trainpref=@/train --validpref=@/valid"
            " --destdir=@/out",
        ),
        "fairseq-train": (binarised, f"fairseq-train @ {trained}"),
        "fairseq-train --restore-file": (
            checkpoint,
            f"fairseq-train {data} {trained} --restore-file=@/{last.name}",
        ),
        "fairseq-generate, data": (binarised, f"fairseq-generate @ {searched} --path={last}"),
        "fairseq-generate, checkpoint": (
            checkpoint,
            f"fairseq-generate {data} {searched} --path=@/{last.name}",
        ),
        "fairseq-interactive": (
            _content(text, "test.en"),
            f"fairseq-interactive {data} {TASK} --cpu --path={last} --input=@/test.en --beam 2"
            " --max-len-b 5 --buffer-size 2",
        ),
        "fairseq-validate": (
            binarised,
            f"fairseq-validate @ {TASK} --batch-size 4 --cpu --path={last}",
        ),
        "align": (
            aligned,
            f"fairseq_rnnsearch.align {data} --path={last} --source=@/train.en"
            " --target=@/train.fr --heatmap-dir=@/out",
        ),
        "evaluation aer": (links, f"{evaluation} aer --gold=@/gold --hypothesis=@/hypothesis"),
        "evaluation alignments": (
            _jsonl(work),
            f"{evaluation} alignments --alignments=@/alignments.jsonl --ids=0 --out=@/out",
        ),
        "evaluation training": (log, f"{evaluation} training --log=a=@/train.log"),
        "evaluation report": (
            _translations() | _jsonl(work / "report") | log,
            f"{evaluation} report --out=@/out {TEXTS} --log=S=@/train.log --resamples=20"
            " --alignments=S=@/alignments.jsonl --alignment-ids=0 --fewest=1",
        ),
        "evaluation dictionary": (
            words | {"links.pharaoh": b"0-0\n0-0 1-1\n"},
            f"{evaluation} dictionary --source=@/source --target=@/target"
            " --alignments=@/links.pharaoh --out=@/words",
        ),
        "evaluation bleu": (_translations(), f"{evaluation} bleu {TEXTS}"),
        "groundhog import": (
            _groundhog(work).files,
            "fairseq_rnnsearch.groundhog import --params=@/params.npz --out=@/out/model.pt"
            " --source-words=@/words.en",
        ),
    }
    return {name: Family(files, _ends_well(line)) for name, (files, line) in commands.items()}


def _content(folder: Path, *patterns: str) -> Files:
    return {path.name: path.read_bytes() for kind in patterns for path in folder.glob(kind)}


def _ends_well(line: str) -> Callable[[Path], None]:
    """Status 0 without a traceback, or one line, which is raised as in this process."""

    def read(folder: Path) -> None:
        finished = run(*line.replace("@", str(folder)).split())
        if finished.rc == 0:
            finished.ok()
            return
        message = finished.error()
        for path in (folder / "out").rglob("*"):  # what a later command takes for finished work
            if path.suffix not in (".pt", ".bin", ".idx", ".txt", ".jsonl", ".svg", ".png"):
                path.unlink() if path.is_file() else None
        raise UserError(message)

    return read
