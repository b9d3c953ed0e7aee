"""BLEU against the length of the source sentence: the paper's Figure 2.

The paper does not say how its curves were made. Here a sentence belongs to the bin of its number of
source words, the end symbol not counted: up to 10, 11 to 20, ..., and one bin for all sentences
beyond the last. A bin's BLEU is the corpus BLEU of its sentences, with the brevity penalty of that
bin, and its point stands at the mean length of its sentences. All bins count all sentences, those
with unknown words included, as in the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation.bleu import Comparison, compare


@dataclass(frozen=True)
class Bin:
    """The sentences of some lengths."""

    label: str
    sentences: int
    mean_length: float
    """In source words; NaN without sentences."""
    comparison: Comparison | None
    """None without sentences."""


def curves(
    bins: Sequence[Bin], names: Sequence[str], fewest: int
) -> tuple[list[float], dict[str, list[float]], list[int]]:
    """What `figures.draw_length_curves` draws: the bins with at least ``fewest`` sentences.

    Raises:
        UserError: no bin has as many.
    """
    drawn = [bin for bin in bins if bin.comparison is not None and bin.sentences >= fewest]
    if not drawn:
        raise UserError(f"no figure of the lengths: no bin has {fewest} sentences or more")
    return (
        [bin.mean_length for bin in drawn],
        {name: [bin.comparison.scores[name].bleu for bin in drawn] for name in names},
        [bin.sentences for bin in drawn],
    )


def by_length(
    counts: dict[str, np.ndarray],
    lengths: np.ndarray,
    width: int,
    longest: int,
    kind: str,
    resamples: int,
    seed: int,
) -> list[Bin]:
    """Scores of each bin.

    Args:
        counts: of each system, from `bleu.sentence_counts`.
        lengths: source words of each sentence, ``(sentences,)``.
        width: of a bin, in words.
        longest: words of the last bin's longest sentence; longer ones go to a bin of their own,
            if there are any.
        kind, resamples, seed: as for `bleu.compare`.

    Raises:
        UserError: a width below 1, or a longest sentence that is no multiple of it.
    """
    if width < 1 or longest < width or longest % width:
        raise UserError(
            f"bins of {width} words up to {longest}: the width must be at least 1, and the longest"
            " sentence a multiple of it"
        )
    upper = np.arange(width, longest + 1, width)
    places = np.searchsorted(upper, lengths)
    labels = [f"up to {width}"]
    labels += [f"{end - width + 1} to {end}" for end in upper[1:]]
    if lengths.max() > longest:
        labels.append(f"over {longest}")
    bins = []
    for place, label in enumerate(labels):
        inside = places == place
        chosen = {name: table[inside] for name, table in counts.items()}
        comparison = compare(chosen, kind, "", resamples, seed) if inside.any() else None
        mean = float(lengths[inside].mean()) if inside.any() else float("nan")
        bins.append(Bin(label, int(inside.sum()), mean, comparison))
    return bins
