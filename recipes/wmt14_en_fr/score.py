"""Score sentence pairs by their resemblance to a domain (bilingual cross-entropy difference).

    python recipes/wmt14_en_fr/score.py estimate --out MODELS --inside FOLDER... --pool FOLDER...
    python recipes/wmt14_en_fr/score.py score --models MODELS --text FOLDER --out FOLDER

A FOLDER has tokenised text.en and text.fr. ``estimate`` makes the language models: the domain's
from --inside, the other from as many pairs drawn at random from --pool. ``score`` writes
scores.npy, (pairs,) float32 and lower for what resembles the domain more, and words.npy, (pairs,)
int32 words of the French side; cut.py chooses by them. The method is in selection.py.
"""

import argparse
from collections.abc import Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path

import numpy as np
from parallel_text import Block, Progress, ordered_map, read_blocks, sides
from selection import Contrast, Selector

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def draw(folders: Sequence[Path], pairs: int, seed: int) -> tuple[str, str]:
    """Draw so many different pairs of all folders together, each as likely as another.

    Returns:
        Their English and their French text.
    """
    counts = [count_lines(folder / "text.en") for folder in folders]
    total = sum(counts)
    chosen = np.random.default_rng(seed).choice(total, min(pairs, total), replace=False)
    chosen.sort()
    first, texts = 0, ([], [])
    for folder, count in zip(folders, counts, strict=True):
        wanted = chosen[(chosen >= first) & (chosen < first + count)] - first
        for text, path in zip(texts, sides(folder), strict=True):
            with path.open(encoding="utf-8", newline="\n") as file:
                before = -1
                for number in wanted:
                    text.extend(islice(file, int(number) - before - 1, int(number) - before))
                    before = int(number)
        first += count
    return "".join(texts[0]), "".join(texts[1])


def estimate(options: argparse.Namespace) -> None:
    inside = [
        "".join(path.read_text(encoding="utf-8") for path in paths)
        for paths in zip(*map(sides, options.inside), strict=True)
    ]
    pairs = inside[0].count("\n")
    outside = draw(options.pool, pairs, options.seed)
    contrasts = [
        Contrast.estimate(domain, everything, options.order, options.min_count)
        for domain, everything in zip(inside, outside, strict=True)
    ]
    options.out.mkdir(parents=True)
    Selector(*contrasts).save(options.out)
    sizes = [len(contrast.inside.vocabulary) for contrast in contrasts]
    print(
        f"  {options.order}-gram models of {pairs:,} pairs of the domain and"
        f" {outside[0].count(chr(10)):,} of all; {sizes[0]:,} English and {sizes[1]:,} French words"
    )


@cache
def selector_of(models: Path) -> Selector:
    """Load the models, once in each process."""
    return Selector.load(models)


def score_block(models: Path, block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of a block's pairs, and their French words."""
    source, target = (b"".join(line + b"\n" for line in side).decode("utf-8") for side in block)
    words = np.array([len(line.split()) for line in block[1]], np.int32)
    return selector_of(models).scores(source, target), words


def score(options: argparse.Namespace) -> None:
    selector_of(options.models)  # so that a mistake shows here rather than in each process
    progress, scores, words = Progress(), [], []
    blocks = read_blocks(*sides(options.text))
    for scored in ordered_map(partial(score_block, options.models), blocks, options.processes):
        scores.append(scored[0])
        words.append(scored[1])
        progress.add(len(scored[0]))
    options.out.mkdir(parents=True)
    np.save(options.out / "scores.npy", np.concatenate(scores))
    np.save(options.out / "words.npy", np.concatenate(words))
    print(f"  {progress.pairs:,} pairs, {progress.summary()}")


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Score sentence pairs for selection.")
    commands = parser.add_subparsers(required=True)
    models = commands.add_parser("estimate", help="make the language models")
    models.set_defaults(run=estimate)
    models.add_argument("--inside", nargs="+", type=Path, required=True, metavar="FOLDER")
    models.add_argument("--pool", nargs="+", type=Path, required=True, metavar="FOLDER")
    models.add_argument("--order", type=int, default=3, help="words of the longest n-gram")
    models.add_argument("--min-count", type=int, default=2, help="of a word in the domain's text")
    models.add_argument("--seed", type=int, default=1)
    scores = commands.add_parser("score", help="score the pairs of a folder")
    scores.set_defaults(run=score)
    scores.add_argument("--models", type=Path, required=True, metavar="FOLDER")
    scores.add_argument("--text", type=Path, required=True, metavar="FOLDER")
    scores.add_argument("--processes", type=int, default=0, help="0: one per core")
    for command in (models, scores):
        command.add_argument("--out", type=Path, required=True, help="folder to make")
    options = parser.parse_args()
    try:
        options.run(options)
    except (OSError, UnicodeDecodeError) as problem:
        name = getattr(problem, "filename", None) or options.out
        raise UserError(f"{name}: {getattr(problem, 'strerror', None) or problem}") from problem


if __name__ == "__main__":
    main()
