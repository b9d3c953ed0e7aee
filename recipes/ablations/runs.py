"""The record of the ablations: one line for each training, with its scores.

    python recipes/ablations/runs.py add RUNS --updates NUMBER \
        --arm ARM --rate RATE --seed SEED --run FOLDER --references FOLDER
    python recipes/ablations/runs.py merge RUNS --updates NUMBER FILE

RUNS is a tab-separated file with a header. ``add`` reads the log and the translations in a
training's folder. ``merge`` adds the lines of another such file, for trainings that ran elsewhere.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from sacrebleu.metrics import BLEU

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError

LANGUAGE = "fr"
_COST = re.compile(r"valid on 'valid' subset .* \| nll_loss ([\d.]+)")
_PARAMETERS = re.compile(r"num\. trained: ([\d,]+)")


@dataclass(frozen=True)
class Run:
    """One training."""

    arm: str
    rate: str
    """The learning rate, as it was given."""
    seed: int
    updates: int
    parameters: int
    """The number of trained parameters."""
    bits: float
    """The least cost on the validation set, in bits a token."""
    valid: float
    """BLEU of lower-cased tokens, by sacreBLEU."""
    test: float

    @property
    def name(self) -> tuple[str, str, int]:
        """What identifies it in the file."""
        return self.arm, self.rate, self.seed


HEADER = [field.name for field in fields(Run)]


def read_runs(path: Path) -> list[Run]:
    """Return the runs of a record; if the file does not exist yet, it has none.

    Raises UserError if a line is not a run, or a training has two.
    """
    if not path.exists():
        return []
    runs: dict[tuple[str, str, int], Run] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        values = line.split("\t")
        if number == 1:
            if values != HEADER:
                raise UserError(f"{path}, line 1: {line!r}; expected {' '.join(HEADER)}, with tabs")
            continue
        try:
            run = Run(*(f.type(value) for f, value in zip(fields(Run), values, strict=True)))
        except ValueError:
            raise UserError(f"{path}, line {number}: {line!r} is no run") from None
        if runs.setdefault(run.name, run) != run:
            raise UserError(f"{path}, line {number}: has {' '.join(values[:3])} a second time")
    return list(runs.values())


def add(path: Path, new: Sequence[Run]) -> None:
    """Append runs to a record, which several processes may share."""
    missing = [run for run in new if run not in read_runs(path)]
    lines = ["\t".join(map(str, asdict(run).values())) for run in missing]
    if not path.exists():
        lines.insert(0, "\t".join(HEADER))
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


def measure(run: Path, references: Path) -> dict[str, float]:
    """Read the results of the training in this folder."""
    log = (run / "logs" / "train.log").read_text(encoding="utf-8")
    return {
        "parameters": int(_PARAMETERS.search(log)[1].replace(",", "")),
        "bits": min(map(float, _COST.findall(log))),
        "valid": bleu(run, references, "valid"),
        "test": bleu(run, references, "test"),
    }


def bleu(run: Path, references: Path, split: str) -> float:
    """Return the BLEU of a run's translations of a set, of lower-cased tokens, to two decimals."""
    begin = "" if split == "test" else f"{split}-"
    files = sorted(run.glob(f"{begin}translations-*/tokens.{LANGUAGE}"))
    if len(files) != 1:
        raise UserError(f"{run}: {len(files)} translations of {split}; expected one: run it again")
    hypotheses, reference = (
        file.read_text(encoding="utf-8").split("\n")[:-1]
        for file in (files[0], references / f"{split}.{LANGUAGE}")
    )
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    return round(metric.corpus_score(hypotheses, [reference]).score, 2)


def merge(path: Path, other: Path, updates: int) -> None:
    """Add the runs of another record, which must have been trained for as many updates."""
    new = read_runs(other)
    for run in new:
        if run.updates != updates:
            raise UserError(
                f"{other}: {' '.join(map(str, run.name))} was trained for {run.updates} updates;"
                f" valid: {updates}, as here"
            )
    known = {run.name for run in read_runs(path)}
    add(path, [run for run in new if run.name not in known])


@program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_one, of_others = (commands.add_parser(name) for name in ("add", "merge"))
    for command in (of_one, of_others):
        command.add_argument("record", type=Path)
        command.add_argument("--updates", type=int, required=True)
    of_one.add_argument("--arm", required=True)
    of_one.add_argument("--rate", required=True)
    of_one.add_argument("--seed", type=int, required=True)
    of_one.add_argument("--run", type=Path, required=True)
    of_one.add_argument("--references", type=Path, required=True)
    of_others.add_argument("other", type=Path)
    options = parser.parse_args()
    if options.command == "merge":
        merge(options.record, options.other, options.updates)
    else:
        reached = measure(options.run, options.references)
        name = (options.arm, options.rate, options.seed)
        add(options.record, [Run(*name, options.updates, **reached)])


if __name__ == "__main__":
    main()
