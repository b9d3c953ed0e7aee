"""`--agreement`: join the weights of both directions before choosing links.

The models of the two directions give two sets of weights: alpha_ij of target word i over the source
words, and beta_ji of source word j over the target words. Joining their links would lose how sure
each model was. Here the weights are joined first, word by word:

    product     alpha_ij beta_ji            high where both agree (Liang, Taskar and Klein, 2006,
                                            who multiply posteriors so)
    mean        (alpha_ij + beta_ji) / 2    high where either is sure

Then each target word is linked to the source word with the largest weight, and each source word to
the target word with the largest, unless that weight is zero. These are the two directions that
`--symmetrise` joins.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.align.links import LinkFile, SentenceLinks
from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.figures.alignment import best_links
from fairseq_rnnsearch.figures.jsonl import read_alignments

AGREEMENTS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "product": np.multiply,
    "mean": lambda alpha, beta: (alpha + beta) / 2,
}


def add_agreement(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--agreement",
        choices=AGREEMENTS,
        help="join the weights of both directions before choosing links; the files of both"
        " are alignments.jsonl then, and need no --reverse",
    )


def read_agreed_links(agreement: str, paths: dict[str, Path]) -> dict[str, LinkFile]:
    """Return, for all sentences, the links of the target words and those of the source words.

    Args:
        agreement: one of `AGREEMENTS`.
        paths: two ``alignments.jsonl`` by name: the weights from the model that translates source
            to target, and those from the model of the other direction for the same sentences.

    Raises:
        UserError: as `read_alignments`, and if the files hold different sentences.
    """
    forward, inverse = paths.values()
    there, back = read_alignments(forward), read_alignments(inverse)
    for path, other, missing in (
        (inverse, forward, there.keys() - back.keys()),
        (forward, inverse, back.keys() - there.keys()),
    ):
        if missing:
            raise UserError(f"{path} has no sentence {min(missing)}, and {other} has it")
    if missing := set(range(1, len(there) + 1)) - there.keys():
        raise UserError(
            f"{forward} has no sentence {min(missing)}; align all (--heatmap-samples all)"
        )
    links = [], []
    for number, alignment in sorted(there.items()):
        alpha, beta = alignment.weights_of_words, back[number].weights_of_words.T
        if alpha.shape != beta.shape:
            raise UserError(
                f"sentence {number} has {pluralize(alpha.shape[1], 'source word')} and"
                f" {pluralize(alpha.shape[0], 'target word')} in {forward}, but {beta.shape[1]} and"
                f" {beta.shape[0]} in {inverse}, whose source is the target of the other"
            )
        weights = AGREEMENTS[agreement](alpha, beta)
        for side, axis in zip(links, (1, 0), strict=True):
            best = best_links(weights, axis)
            pairs = frozenset(link for link in best if weights[link[::-1]] > 0)
            side.append(SentenceLinks(pairs, pairs))
    return {
        name: LinkFile(path, f"jsonl, {agreement} of both", 0, tuple(side), 0)
        for (name, path), side in zip(paths.items(), links, strict=True)
    }
