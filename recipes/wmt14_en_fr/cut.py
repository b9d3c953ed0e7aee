"""Keep the best-scored pairs of all corpora, up to a number of French words.

    python recipes/wmt14_en_fr/cut.py --tokens FOLDER --scores FOLDER --words N --out FOLDER NAME...

reads TOKENS/NAME/text.{en,fr} and SCORES/NAME/{scores,words}.npy. It writes train.{en,fr}, the
corpora one after the other, and selection.tsv, the pairs and words kept of each corpus. Another N
needs no new scores. --words 0 keeps everything and needs no scores.
"""

import argparse
from pathlib import Path

import numpy as np
from parallel_text import new_sides, read_blocks, sides

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError, pluralize

BLOCK_LINES = 20_000


def read_scores(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return (pairs,) scores and (pairs,) French words of a corpus."""
    try:
        return tuple(np.load(folder / f"{name}.npy") for name in ("scores", "words"))
    except (OSError, ValueError) as problem:
        raise UserError(f"the scores in {folder} cannot be read: {problem}") from problem


def within_budget(scores: np.ndarray, words: np.ndarray, budget: int) -> np.ndarray:
    """Choose the best pairs, in order of their scores, as long as their words fit the budget.

    If scores are equal, the earlier pair comes first.

    Args:
        scores: (pairs,); lower is better.
        words: (pairs,), which are counted against the budget.
        budget: how many words to keep; 0 keeps all.

    Returns:
        (pairs,) bool, true for the pairs that are kept.

    Raises:
        UserError: not even the best pair fits.
    """
    if budget == 0:
        return np.ones(len(scores), bool)
    order = np.argsort(scores, kind="stable")
    fits = np.cumsum(words[order], dtype=np.int64) <= budget
    if not fits.any():
        raise UserError(f"no pair fits {budget} words; expected 0 (keep all) or more")
    kept = np.zeros(len(scores), bool)
    kept[order[fits]] = True
    return kept


def choose(options: argparse.Namespace) -> list[np.ndarray | None]:
    """Return for each corpus which pairs are kept; None is all of them."""
    if not options.words:
        return [None] * len(options.corpora)
    scored = [read_scores(options.scores / corpus) for corpus in options.corpora]
    scores, words = (np.concatenate(arrays) for arrays in zip(*scored, strict=True))
    kept = within_budget(scores, words, options.words)
    threshold = scores[kept].max()
    print(f"  kept are scores up to {threshold:.3f} nats per word; all words: {words.sum():,}")
    return np.split(kept, np.cumsum([len(each) for each, _ in scored])[:-1])


def write_kept(corpus: Path, kept: np.ndarray | None, outputs: tuple) -> list[int]:
    """Add the pairs of a corpus that are kept to the outputs.

    Returns:
        How many pairs it has, and how many pairs, English words and French words are kept.

    Raises:
        UserError: the corpus has another number of pairs than of scores.
    """
    counts = np.zeros(4, np.int64)
    for block in read_blocks(*sides(corpus), BLOCK_LINES):
        first, size = int(counts[0]), len(block[0])
        chosen = range(size) if kept is None else np.flatnonzero(kept[first : first + size])
        kept_sides = [[side[i] for i in chosen] for side in block]
        for file, lines in zip(outputs, kept_sides, strict=True):
            file.writelines(line + b"\n" for line in lines)
        words = [sum(len(line.split()) for line in lines) for lines in kept_sides]
        counts += [size, len(chosen), *words]
    if kept is not None and counts[0] != len(kept):
        raise UserError(
            f"{corpus} has {pluralize(counts[0], 'pair')} and {pluralize(len(kept), 'score')}:"
            " score it again"
        )
    return counts.tolist()


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Keep the best-scored pairs.")
    parser.add_argument("corpora", nargs="+", metavar="CORPUS")
    parser.add_argument("--tokens", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--scores", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--words", type=int, required=True, help="French words to keep; 0: all")
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    options = parser.parse_args()
    try:
        options.out.mkdir(parents=True)
        rows = []
        with new_sides(options.out, "train") as outputs:
            for corpus, kept in zip(options.corpora, choose(options), strict=True):
                rows.append([corpus, *write_kept(options.tokens / corpus, kept, outputs)])
    except OSError as problem:
        raise UserError(f"{problem.filename or options.out}: {problem.strerror}") from problem
    rows.append(["all", *np.sum([row[1:] for row in rows], axis=0).tolist()])
    table = [["corpus", "pairs", "kept", "English words", "French words"], *rows]
    text = "".join("\t".join(map(str, row)) + "\n" for row in table)
    (options.out / "selection.tsv").write_text(text)
    for corpus, pairs, chosen, english, french in rows:
        share = f"{chosen:,} of {pairs:,} pairs ({chosen / pairs:.0%})"
        print(f"  {corpus}: {share}, {english:,} English and {french:,} French words")


if __name__ == "__main__":
    main()
