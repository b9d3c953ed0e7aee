"""Shows that selection finds the domain: how held-out news ranks against other text.

    python recipes/wmt14_en_fr/demonstration.py --news FOLDER --inside N --pool FOLDER... \\
        --held-out FOLDER...

A FOLDER has tokenised text.en and text.fr (tokenise.py). The first N pairs of --news are the
domain, the rest is held out. Each --held-out folder is compared with it by the area under the ROC
curve: the probability that a held-out news pair ranks above one of the folder's, 0.5 by chance.
A demonstration only: the news is the test set, which the recipe itself never selects with.
"""

import argparse
from pathlib import Path

import data_layer  # noqa: F401  before the package's modules
import numpy as np
from score import draw

from fairseq_rnnsearch.data.selection import Contrast, Selector, area_under_curve
from fairseq_rnnsearch.errors import install_excepthook

LANGUAGES = ("en", "fr")


def read(folder: Path) -> list[list[str]]:
    """The lines of either side, with their line feeds."""
    return [
        (folder / f"text.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        for language in LANGUAGES
    ]


def main() -> None:
    install_excepthook()
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
                Contrast.estimate(i, o, order, options.min_count)
                for i, o in zip(inside, outside, strict=True)
            )
        )
        scores = selector.scores(*held_out)
        found = {folder: selector.scores(*text) for folder, text in others.items()}
        areas = [f"{folder} {area_under_curve(scores, s):.3f}" for folder, s in found.items()]
        together = area_under_curve(scores, np.concatenate(list(found.values())))
        print(f"{order}-grams: {', '.join(areas)}; all together {together:.3f}")


if __name__ == "__main__":
    main()
