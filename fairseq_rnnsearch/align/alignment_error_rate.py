"""`aer`: precision, recall and alignment error rate of links against gold links.

With the links A of the hypothesis, the sure links S and the possible links P of the gold
alignment, S being part of P:

    precision = |A ∩ P| / |A|
    recall    = |A ∩ S| / |S|
    AER       = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

The counts are summed over all sentences before the division (Och and Ney, Computational
Linguistics 29(1), 2003).
"""

import argparse
import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_rnnsearch.align import links
from fairseq_rnnsearch.align.links import (
    Link,
    SentenceLinks,
    add_format,
    add_reading,
    read_link_files,
)
from fairseq_rnnsearch.align.symmetrisation import (
    METHODS,
    add_agreement,
    join_files,
    read_agreed_links,
)
from fairseq_rnnsearch.errors import UsageError


class Counts(NamedTuple):
    """The link counts of one or more sentences; a ratio with a zero denominator is NaN.

    Attributes:
        hypothesis: |A|.
        sure: |S|.
        possible: |P|, the sure links included.
        hypothesis_sure: |A ∩ S|.
        hypothesis_possible: |A ∩ P|.
    """

    hypothesis: int
    sure: int
    possible: int
    hypothesis_sure: int
    hypothesis_possible: int

    @property
    def precision(self) -> float:
        return _ratio(self.hypothesis_possible, self.hypothesis)

    @property
    def recall(self) -> float:
        return _ratio(self.hypothesis_sure, self.sure)

    @property
    def aer(self) -> float:
        matches = self.hypothesis_sure + self.hypothesis_possible
        return 1 - _ratio(matches, self.hypothesis + self.sure)


NO_LINKS = Counts(0, 0, 0, 0, 0)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def count_links(
    gold: Sequence[SentenceLinks], hypothesis: Sequence[AbstractSet[Link]]
) -> list[Counts]:
    """Count the links of each sentence.

    Raises:
        ValueError: the numbers of sentences differ.
    """
    return [
        NO_LINKS  # a naacl file may skip millions of sentences
        if not links and not sentence.possible
        else Counts(
            hypothesis=len(links),
            sure=len(sentence.sure),
            possible=len(sentence.possible),
            hypothesis_sure=len(links & sentence.sure),
            hypothesis_possible=len(links & sentence.possible),
        )
        for sentence, links in zip(gold, hypothesis, strict=True)
    ]


def total(counts: Iterable[Counts]) -> Counts:
    """Return the counts of all sentences together."""
    return Counts(*np.array([NO_LINKS, *filter(any, counts)]).sum(axis=0).tolist())


def bootstrap_interval(counts: Sequence[Counts], resamples: int, seed: int) -> tuple[float, float]:
    """Return the 95% percentile interval of the AER, which says how much the AER depends on which
    sentences were annotated.

    Each resample draws as many sentences as there are, with replacement, and sums their counts.
    A resample that holds no link at all has no AER and is left out.

    Args:
        counts: of each sentence.
        resamples: the number of resamples; 1000 or more give a steady second digit.
        seed: the same seed gives the same interval.
    """
    generator, sentences = np.random.default_rng(seed), len(counts)
    table = np.array(
        [(c.hypothesis_sure + c.hypothesis_possible, c.hypothesis + c.sure) for c in counts]
    )
    shares = np.full(sentences, 1 / sentences)
    drawn = (generator.multinomial(sentences, shares) @ table for _ in range(resamples))
    rates = [1 - matches / links for matches, links in drawn if links]
    low, high = np.quantile(rates, [0.025, 0.975])
    return float(low), float(high)


# --- the command --------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    for option, help in {
        "--gold": "gold links",
        "--hypothesis": "the links to score",
        "--hypothesis-inverse": "links by the model of the other direction, to be joined with"
        " --symmetrise",
    }.items():
        is_required = option != "--hypothesis-inverse"
        parser.add_argument(option, type=Path, required=is_required, metavar="FILE", help=help)
    parser.add_argument("--symmetrise", choices=METHODS, help="how to join the two directions")
    add_agreement(parser)
    add_format(parser, "--format", "the gold file")
    add_format(parser, "--hypothesis-format", "the hypothesis files")
    add_reading(parser, ("gold", "hypothesis", "inverse"))
    parser.add_argument(
        "--bootstrap",
        type=int,
        metavar="N",
        help="print the 95%% interval of the AER over N resamples of the sentences",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the resampling (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> None:
    """Print precision, recall and alignment error rate of links against gold links.

    All links of a hypothesis count alike, sure or possible.
    """
    paths = {"gold": options.gold, "hypothesis": options.hypothesis}
    if options.symmetrise:
        paths["inverse"] = options.hypothesis_inverse
    if bool(options.hypothesis_inverse) != bool(options.symmetrise) or (
        options.agreement and not options.symmetrise
    ):
        raise UsageError(
            "--hypothesis-inverse and --symmetrise belong together: give both or neither;"
            " --agreement needs --hypothesis-inverse and --symmetrise"
        )
    agreed = {}
    if options.agreement:
        of_weights = {name: paths.pop(name) for name in ("hypothesis", "inverse")}
        agreed = read_agreed_links(options.agreement, of_weights)
    formats = {**dict.fromkeys(paths, options.hypothesis_format), "gold": options.format}
    files = read_link_files(options, paths, formats) | agreed
    gold = files["gold"]
    count = len(gold.sentences)
    files = {name: links.same_sentences(file, count, gold.path) for name, file in files.items()}

    hypothesis = files["hypothesis"].links
    if "inverse" in files:
        hypothesis = join_files(files["hypothesis"], files["inverse"], options.symmetrise)
    counts = count_links(gold.sentences, hypothesis)
    for name, file in files.items():
        null_links = f", {file.null_links} null links left out" if file.null_links else ""
        _print(name, f"{file.path} ({file.format}, words from {file.first_word}{null_links})")
    if options.symmetrise:
        _print("joined by", options.symmetrise)
    without = sum(not sentence.possible for sentence in gold.sentences)
    _print("sentences", f"{count}" + f", {without} of them without gold links" * bool(without))
    _print_score(total(counts))
    if options.bootstrap is not None:
        low, high = bootstrap_interval(counts, options.bootstrap, options.seed)
        _print(
            "95% interval",
            f"{low:.2%} to {high:.2%} of AER ({options.bootstrap} resamples of the"
            f" sentences, seed {options.seed})",
        )


def _print_score(score: Counts) -> None:
    _print("gold links", f"{score.sure} sure, {score.possible} possible (the sure included)")
    possible, sure = score.hypothesis_possible, score.hypothesis_sure
    for name, value, counts in (
        ("precision", score.precision, f"{possible} of {score.hypothesis} links are possible"),
        ("recall", score.recall, f"{sure} of {score.sure} sure links are found"),
        ("AER", score.aer, f"1 - ({sure} + {possible}) / ({score.hypothesis} + {score.sure})"),
    ):
        _print(name, f"{'undefined' if math.isnan(value) else f'{value:.2%}'} ({counts})")


def _print(name: str, text: str) -> None:
    print(f"{name:<13}{text}")
