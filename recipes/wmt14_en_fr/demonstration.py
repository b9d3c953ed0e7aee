"""Show that selection finds the domain: how held-out news ranks against other text.

    python recipes/wmt14_en_fr/demonstration.py --news FOLDER --inside N --pool FOLDER... \\
        --held-out FOLDER...

A FOLDER has tokenised text.en and text.fr (tokenise.py). The first N pairs of --news are the
domain, the rest is held out. Each --held-out folder is compared with it by the area under the ROC
curve: the probability that a held-out news pair ranks above one of the folder's, 0.5 by chance.
A demonstration only: the news is the test set, which the recipe itself never selects with.
"""

import argparse
from pathlib import Path

import numpy as np
from parallel_text import sides
from score import draw
from selection import Contrast, Selector

from fairseq_rnnsearch.errors import program


def read(folder: Path) -> list[list[str]]:
    """Read the lines of either side, with their line feeds."""
    return [path.read_text(encoding="utf-8").splitlines(keepends=True) for path in sides(folder)]


def area_under_curve(better: np.ndarray, worse: np.ndarray) -> float:
    """Return the probability that a score of the first kind is lower than one of the second.

    Ties count half. It is the area under the ROC curve, from rank sums (Mann and Whitney).
    """
    both = np.concatenate([better, worse])
    _, places, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    below = ranks[len(better) :].sum() - len(worse) * (len(worse) + 1) / 2
    return float(below / (len(better) * len(worse)))


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Rank held-out news against other text.")
    parser.add_argument("--news", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--inside", type=int, default=2000, help="pairs")
    parser.add_argument("--pool", type=Path, nargs="+", required=True, metavar="FOLDER")
    parser.add_argument("--held-out", type=Path, nargs="+", required=True, metavar="FOLDER")
    parser.add_argument("--order", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--min-count", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    news = read(options.news)
    inside = ["".join(lines[: options.inside]) for lines in news]
    held_out = ["".join(lines[options.inside :]) for lines in news]
    others = {folder: ["".join(lines) for lines in read(folder)] for folder in options.held_out}
    outside = draw(options.pool, options.inside, options.seed)
    for order in options.order:
        selector = Selector(
            *(
                Contrast.estimate(domain, everything, order, options.min_count)
                for domain, everything in zip(inside, outside, strict=True)
            )
        )
        scores = selector.scores(*held_out)
        found = {folder: selector.scores(*text) for folder, text in others.items()}
        areas = [f"{folder} {area_under_curve(scores, s):.3f}" for folder, s in found.items()]
        together = area_under_curve(scores, np.concatenate(list(found.values())))
        print(f"{order}-grams: {', '.join(areas)}; all together {together:.3f}")


if __name__ == "__main__":
    main()
