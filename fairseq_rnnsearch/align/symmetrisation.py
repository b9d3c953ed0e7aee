"""`symmetrise`: a model of each direction aligns, and their links are joined.

    intersection          links that both directions have
    union                 links that either has
    grow-diag             the intersection, grown into the union
    grow-diag-final-and   that, and links of words that have none yet

The last two are the heuristic of Koehn, Och and Marcu (2003) as Koehn et al. (IWSLT 2005) write
it down and as Moses' `symal -alignment=grow -diagonal=yes -final=yes -both=yes` runs it, and for
grow-diag the same with neither `-final` nor `-both`:

    GROW-DIAG: until nothing is added, for each link (t, s), target word by target word, and for
        each of its eight neighbours: add the neighbour if it is in the union and its target word
        or its source word has no link yet. A link added further on is seen in the same scan.
    FINAL-AND(forward), then FINAL-AND(inverse), target word by target word: add a link of that
        direction if neither its target word nor its source word has a link yet.

The order decides what is added, so it is exactly Moses' order.

The links of two models say nothing of how sure each was. `--agreement` joins their weights first:
alpha_ij of target word i over the source words, and beta_ji of source word j over the target words.

    product     alpha_ij beta_ji            high where both agree (Liang, Taskar and Klein, 2006,
                                            who multiply posteriors so)
    mean        (alpha_ij + beta_ji) / 2    high where either is sure

Then each target word is linked to the source word with the largest weight, and each source word to
the target word with the largest, unless that weight is zero. These are the two directions to join.
"""

import argparse
import operator
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.align import links
from fairseq_rnnsearch.align.links import (
    Link,
    LinkFile,
    SentenceLinks,
    add_format,
    add_reading,
    read_link_files,
)
from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.figures.alignment import best_links, pharaoh
from fairseq_rnnsearch.figures.jsonl import read_alignments

# These are steps (target, source), in the order in which they are tried.
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(
    forward: AbstractSet[Link], inverse: AbstractSet[Link], method: str
) -> frozenset[Link]:
    """Join the links of one sentence pair.

    Args:
        forward: links ``(source, target)`` by the model that translates source to target; where
            each target word chooses its source word, as with attention, this is what Moses calls
            the inverse alignment and what fast_align writes without ``-r``.
        inverse: links ``(source, target)`` too, by the model that translates target to source.
        method: one of `METHODS`.
    """
    return frozenset(METHODS[method](forward, inverse))


def _grow_diag(forward: AbstractSet[Link], inverse: AbstractSet[Link]) -> set[Link]:
    union = {(target, source) for source, target in forward | inverse}
    grown = {(target, source) for source, target in forward & inverse}
    targets, sources = ({link[side] for link in grown} for side in (0, 1))
    before = -1
    while len(grown) > before:
        before = len(grown)
        ahead = sorted(grown)  # the links still to come in this scan; a sorted list is a heap
        while ahead:
            target, source = link = heappop(ahead)
            for step_target, step_source in NEIGHBOURS:
                near = target + step_target, source + step_source
                if near in union and not (near[0] in targets and near[1] in sources):
                    grown.add(near)
                    targets.add(near[0])
                    sources.add(near[1])
                    if near > link:
                        heappush(ahead, near)
    return {(source, target) for target, source in grown}


def _grow_diag_final_and(forward: AbstractSet[Link], inverse: AbstractSet[Link]) -> set[Link]:
    joined = _grow_diag(forward, inverse)
    linked_sources = {source for source, _ in joined}
    linked_targets = {target for _, target in joined}
    for direction in (forward, inverse):
        for target, source in sorted((target, source) for source, target in direction):
            if target not in linked_targets and source not in linked_sources:
                joined.add((source, target))
                linked_targets.add(target)
                linked_sources.add(source)
    return joined


METHODS: dict[str, Callable[[AbstractSet[Link], AbstractSet[Link]], AbstractSet[Link]]] = {
    "intersection": operator.and_,
    "union": operator.or_,
    "grow-diag": _grow_diag,
    "grow-diag-final-and": _grow_diag_final_and,
}


def join_files(forward: LinkFile, inverse: LinkFile, method: str) -> list[frozenset[Link]]:
    """Join the links of each sentence pair of two files, as `symmetrise` does."""
    return [
        symmetrise(there, back, method) if there or back else there
        for there, back in zip(forward.links, inverse.links, strict=True)
    ]


# --- weights before links ------------------------------------------------------------------------

AGREEMENTS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "product": np.multiply,
    "mean": lambda alpha, beta: (alpha + beta) / 2,
}


def add_agreement(parser: argparse.ArgumentParser) -> None:
    """Add ``--agreement``."""
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


# --- the command ---------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    for option, model in {
        "--forward": "the model that translates source to target",
        "--inverse": "the model that translates target to source",
    }.items():
        parser.add_argument(
            option, type=Path, required=True, metavar="FILE", help=f"links by {model}"
        )
    parser.add_argument("--method", choices=METHODS, required=True, help="how to join them")
    add_agreement(parser)
    add_format(parser, "--format", "both files")
    add_reading(parser, ("forward", "inverse"))


def run(options: argparse.Namespace) -> None:
    """Join the links of two directions.

    They are written to standard output in Pharaoh format: source-target, from 0, in the order of
    the target words.
    """
    paths = {"forward": options.forward, "inverse": options.inverse}
    if options.agreement:
        files = read_agreed_links(options.agreement, paths)
    else:
        files = read_link_files(options, paths, dict.fromkeys(paths, options.format))
    # A naacl file does not show how many sentences there are.
    longest = max(files.values(), key=lambda file: len(file.sentences))
    forward, inverse = (
        links.same_sentences(file, len(longest.sentences), longest.path) for file in files.values()
    )
    for sentence in join_files(forward, inverse, options.method):
        print(pharaoh(sentence))
