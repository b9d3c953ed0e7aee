"""Compare the arms of the ablations: BLEU over seeds, and differences to the first arm.

    python recipes/ablations/table.py RUNS --arms program rnnencdec --seeds 1 2 3 --out FOLDER
    python recipes/ablations/table.py RUNS --arms program --best-rate --seeds 1

RUNS is a record, see runs.py. The first command prints the table and writes FOLDER/ablations.md and
FOLDER/ablations.svg; it uses the seeds that an arm has. A difference is between two means over the
seeds. The spread of seeds is assumed equal for all arms, because three seeds of one arm are too few
to estimate it. The intervals of a column hold at 95% for all arms together (Bonferroni: 1 - 0.05 /
(arms - 1) for each). The second command prints the learning rate with which the arm's model of the
first seed has the higher BLEU on the validation set.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from runs import Run, read_runs

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures.pictures import save_figure
from fairseq_rnnsearch.files import write_text

sys.path.append(str(Path(__file__).resolve().parents[1]))
from reporting.tables import Column, Table, fixed, markdown, span

MEASURES = ("bits", "valid", "test")


@dataclass(frozen=True)
class Arm:
    """One arm's results, see ``Run``: a number for each seed."""

    name: str
    rate: str
    parameters: int
    bits: np.ndarray
    valid: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Difference:
    """The difference between the means of two arms, and its interval."""

    mean: float
    interval: tuple[float, float] | None
    """None if each arm has a single seed, which does not show the spread of seeds."""


def differences(scores: Sequence[np.ndarray]) -> list[Difference]:
    """Compare the mean of each arm but the first with that of the first.

    The intervals are Student's, of the variance within arms, pooled as in the analysis of variance,
    for all comparisons at once (Bonferroni).
    """
    from scipy.stats import t as student  # it comes with fairseq

    first, *others = scores
    freedom = sum(map(len, scores)) - len(scores)
    squares = sum(float(((x - x.mean()) ** 2).sum()) for x in scores)
    of_arms = []
    for x in others:
        mean, interval = float(x.mean() - first.mean()), None
        if freedom:
            error = np.sqrt(squares / freedom * (1 / len(x) + 1 / len(first)))
            half = float(student.ppf(1 - 0.05 / len(others) / 2, freedom) * error)
            interval = mean - half, mean + half
        of_arms.append(Difference(mean, interval))
    return of_arms


def best_rate(runs: Sequence[Run], arm: str, seed: int) -> str:
    """Return the learning rate with which this seed has the highest BLEU on the validation set."""
    tried = [run for run in runs if (run.arm, run.seed) == (arm, seed)]
    if not tried:
        raise UserError(f"there is no run of {arm} with seed {seed}")
    return max(tried, key=lambda run: run.valid).rate


def select(runs: Sequence[Run], arm: str, seeds: Sequence[int]) -> Arm:
    """Return an arm's results with the learning rate that the first seed chose."""
    rate = best_rate(runs, arm, seeds[0])
    by_seed = {run.seed: run for run in runs if (run.arm, run.rate) == (arm, rate)}
    chosen = [by_seed[seed] for seed in seeds if seed in by_seed]
    of_all = {name: np.array([getattr(run, name) for run in chosen]) for name in MEASURES}
    return Arm(arm, rate, chosen[0].parameters, **of_all)


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
        for split, all_differences in compared.items():
            scores, difference = vars(arm)[split], all_differences[place]
            row |= {
                Column("BLEU", split): fixed(scores.mean(), 1),
                Column("of the seeds", split): " ".join(f"{x:.1f}" for x in scores),
                Column("difference", split): difference and fixed(difference.mean, 1, sign=True),
                Column("95% of all", split): difference
                and difference.interval
                and span(difference.interval, 1, sign=True),
            }
        rows.append(row)
    return Table(rows)


def draw(arms: Sequence[Arm], path: Path) -> None:
    """Draw each seed of each arm as a point on the axis of the test set's BLEU.

    The bar of an arm is the interval of its difference, drawn from the mean of the first arm: the
    difference is significant if the bar does not reach the vertical line.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 0.9 + 0.3 * len(arms)), layout="constrained")
    axes = figure.subplots()
    first = arms[0].test.mean()
    beside_first = differences([arm.test for arm in arms])
    axes.axvline(first, color="#c9ced6", zorder=0)
    for place, (arm, difference) in enumerate(zip(arms, [None, *beside_first], strict=True)):
        if difference and difference.interval:
            low, high = difference.interval
            axes.hlines(place, first + low, first + high, color="#9db8da", linewidth=5, zorder=1)
        axes.plot(arm.test, [place] * len(arm.test), "o", color="#2f6db5", alpha=0.7, markersize=5)
        axes.plot([arm.test.mean()], [place], "|", color="#1b1e24", markersize=14)
    axes.set_yticks(range(len(arms)), [arm.name for arm in arms])
    axes.invert_yaxis()
    axes.set_xlabel(
        "BLEU of the test set: a point for each seed, a line for their mean,\n"
        f"a bar for the 95% interval of the difference to {arms[0].name}"
    )
    save_figure(path, figure)


@program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("record", type=Path)
    parser.add_argument("--arms", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--best-rate", action="store_true")
    options = parser.parse_args()
    runs = read_runs(options.record)
    if options.best_rate:
        print(best_rate(runs, options.arms[0], options.seeds[0]))
        return
    arms = [select(runs, arm, options.seeds) for arm in options.arms]
    text = markdown(table(arms))
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        write_text(options.out / "ablations.md", f"{text}\n")
        draw(arms, options.out / "ablations.svg")


if __name__ == "__main__":
    main()
