"""Compare the arms of the ablations: BLEU over seeds, and differences to the recipe's own model.

    python recipes/ablations/table.py WORK --arms program rnnencdec --seeds 1 2 3 --out FOLDER
    python recipes/ablations/table.py WORK --arms program --best-rate-of program --seed 1

The first writes FOLDER/ablations.md and FOLDER/ablations.svg and prints the table. BLEU is that of
lower-cased tokens, by sacreBLEU. A difference is that of two means over the seeds. How far seeds
are apart is taken to be the same for all arms, because three seeds of one arm tell too little of
it; the intervals hold at 95% for all arms together (Bonferroni: at 1 - 0.05 / arms for each). The
second prints the learning rate whose model has the higher BLEU on the validation set.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sacrebleu.metrics import BLEU

from fairseq_rnnsearch.errors import UserError, program
from fairseq_rnnsearch.evaluation.tables import Column, Table, fixed, markdown, span
from fairseq_rnnsearch.figures.picture_files import save_figure
from fairseq_rnnsearch.files import write_text

LANGUAGE = "fr"
_COST = re.compile(r"valid on 'valid' subset .* \| nll_loss ([\d.]+)")
_PARAMETERS = re.compile(r"num\. trained: ([\d,]+)")


@dataclass(frozen=True)
class Arm:
    """What one arm has reached, a number for each seed."""

    name: str
    rate: str
    parameters: int
    bits: np.ndarray
    """The least cost on the validation set, in bits a token."""
    valid: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Difference:
    """How far the mean of an arm is from that of another, and the interval of that."""

    mean: float
    interval: tuple[float, float] | None
    """None where each arm has a single seed, which does not say how far seeds are apart."""


def differences(scores: Sequence[np.ndarray]) -> list[Difference]:
    """Compare the mean of each arm but the first with that of the first.

    The intervals are Student's, of the variance within arms, pooled as in the analysis of variance,
    for all comparisons at once (Bonferroni).
    """
    from scipy.stats import t as student  # it comes with fairseq

    first, *others = scores
    freedom = sum(map(len, scores)) - len(scores)
    squares = sum(float(((x - x.mean()) ** 2).sum()) for x in scores)
    found = []
    for x in others:
        mean, interval = float(x.mean() - first.mean()), None
        if freedom:
            error = np.sqrt(squares / freedom * (1 / len(x) + 1 / len(first)))
            half = float(student.ppf(1 - 0.05 / len(others) / 2, freedom) * error)
            interval = mean - half, mean + half
        found.append(Difference(mean, interval))
    return found


def runs(work: Path, arm: str) -> dict[str, dict[int, Path]]:
    """Return the folders of an arm's runs by learning rate and seed."""
    found: dict[str, dict[int, Path]] = {}
    for folder in (work / "arms" / arm).glob("rate-*/seed-*"):
        rate = folder.parent.name.removeprefix("rate-")
        found.setdefault(rate, {})[int(folder.name.removeprefix("seed-"))] = folder
    return found


def bleu(work: Path, run: Path, split: str) -> float:
    """Return the BLEU of a run's translations of a set, of lower-cased tokens."""
    begin = "" if split == "test" else f"{split}-"
    found = sorted(run.glob(f"{begin}translations-*/tokens.{LANGUAGE}"))
    if len(found) != 1:
        raise UserError(f"{run}: {len(found)} translations of {split}; valid is one: run it again")
    hypotheses = found[0].read_text(encoding="utf-8").split("\n")[:-1]
    reference = work / "tokens" / f"{split}.{LANGUAGE}"
    references = reference.read_text(encoding="utf-8").split("\n")[:-1]
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    return metric.corpus_score(hypotheses, [references]).score


def best_rate(work: Path, arm: str, seed: int) -> str:
    """Return the learning rate with which this seed has the highest BLEU on the validation set."""
    tried = {rate: seeds[seed] for rate, seeds in runs(work, arm).items() if seed in seeds}
    if not tried:
        raise UserError(f"{work}: no run of {arm} with seed {seed}")
    return max(sorted(tried), key=lambda rate: bleu(work, tried[rate], "valid"))


def read(work: Path, arm: str, seeds: Sequence[int]) -> Arm:
    """Read what the runs of an arm have left, with the learning rate that the first seed chose."""
    rate = best_rate(work, arm, seeds[0])
    by_seed = runs(work, arm)[rate]
    folders = [by_seed[seed] for seed in seeds if seed in by_seed]
    logs = [(folder / "logs" / "train.log").read_text(encoding="utf-8") for folder in folders]
    return Arm(
        arm,
        rate,
        int(_PARAMETERS.search(logs[0])[1].replace(",", "")),
        np.array([min(map(float, _COST.findall(log))) for log in logs]),
        np.array([bleu(work, folder, "valid") for folder in folders]),
        np.array([bleu(work, folder, "test") for folder in folders]),
    )


def table(arms: Sequence[Arm]) -> Table:
    """Make a row for each arm; the first is what the others are compared with."""
    compared = {
        split: [None, *differences([vars(arm)[split] for arm in arms])]
        for split in ("valid", "test")
    }
    rows = []
    for place, arm in enumerate(arms):
        row: dict[Column, str | None] = {
            Column("arm", numeric=False): arm.name,
            Column("million parameters"): fixed(arm.parameters / 1e6, 2),
            Column("learning rate"): arm.rate,
            Column("bits a token", "valid"): fixed(arm.bits.mean(), 3),
        }
        for split, all_found in compared.items():
            scores, found = vars(arm)[split], all_found[place]
            row |= {
                Column("BLEU", split): fixed(scores.mean(), 1),
                Column("of the seeds", split, kind="minor"): " ".join(f"{x:.1f}" for x in scores),
                Column("difference", split): found and fixed(found.mean, 1, sign=True),
                Column("95% of all", split, kind="minor"): found
                and found.interval
                and span(found.interval, 1, sign=True),
            }
        rows.append(row)
    return Table(rows)


def draw(arms: Sequence[Arm], path: Path) -> None:
    """Draw each seed of each arm as a point on the axis of the test set's BLEU."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 0.7 + 0.3 * len(arms)), layout="constrained")
    axes = figure.subplots()
    for place, arm in enumerate(arms):
        axes.plot(arm.test, [place] * len(arm.test), "o", color="#2f6db5", alpha=0.7)
        axes.plot([arm.test.mean()], [place], "|", color="#1b1e24", markersize=14)
    axes.axvline(arms[0].test.mean(), color="#c9ced6", zorder=0)
    axes.set_yticks(range(len(arms)), [arm.name for arm in arms])
    axes.invert_yaxis()
    axes.set_xlabel("BLEU of the test set (a point for each seed, a line for their mean)")
    save_figure(path, figure)


@program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--arms", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--best-rate-of", metavar="ARM")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.best_rate_of:
        print(best_rate(options.work, options.best_rate_of, options.seed))
        return
    arms = [read(options.work, arm, options.seeds) for arm in options.arms]
    text = markdown(table(arms))
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        write_text(options.out / "ablations.md", f"{text}\n")
        draw(arms, options.out / "ablations.svg")


if __name__ == "__main__":
    main()
