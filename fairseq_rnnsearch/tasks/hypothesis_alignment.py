"""Alignments of hypotheses in the shapes that fairseq's commands print and look up.

fairseq prints ``hypo["alignment"]`` by iterating over it and replaces unknown words by indexing
it with a target position. Both are served here, always from the alignment weights that the
decoder gave while it searched; fairseq's own lists crash the look-up.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from fairseq_rnnsearch.compat.interactive import InteractiveRow, current_session


class HypothesisAlignment(list):
    """Iterates over what is printed; indexed by a target position, gives its source position."""

    def __init__(self, printed: Iterable, source_positions: list[int]) -> None:
        super().__init__(printed)
        self._source_positions = source_positions

    def __getitem__(self, target_position: int) -> int:
        return self._source_positions[target_position]


def words_only(attention: Tensor, source: Tensor, pad: int) -> Tensor:
    """Return weights without padding, ``(target, source)``, the source's end symbol included.

    Args:
        attention: a hypothesis' weights as fairseq's generator keeps them, ``(source, target)``.
        source: the padded source sentence.
    """
    return attention.cpu()[source.cpu().ne(pad)].T


def hypothesis_alignment(weights: Tensor, print_alignment: str | None) -> HypothesisAlignment:
    """Return what fairseq expects in ``hypo["alignment"]``.

    Args:
        weights: ``(target, source)``, both with their end symbols.
        print_alignment: "hard" for pairs (source, target) of every target word, "soft" for
            rows of weights, one for each target symbol, None for nothing to print.
    """
    of_words = weights[:, :-1] if weights.size(1) > 1 else weights
    best = of_words.argmax(dim=1).tolist()
    printed: list = []
    if print_alignment == "hard":
        # an empty source sentence has no word to point at
        printed = list(zip(best, range(len(best) - 1))) if weights.size(1) > 1 else []  # noqa: B905
    elif print_alignment == "soft":
        printed = [[f"{p:.6f}" for p in row] for row in weights.tolist()]
        if current_session():
            printed = [InteractiveRow(row) for row in printed]
    return HypothesisAlignment(printed, best)


def empty_hypothesis(
    is_source: Tensor, eos: int, print_alignment: str | None, attends: bool
) -> dict:
    """Return the translation without words of a sentence without words, as fairseq returns one.

    Args:
        is_source: where its end symbol stands, ``(source,)``; elsewhere is padding.
        eos: the target's end symbol.
        print_alignment: as for `hypothesis_alignment`.
        attends: whether the model has attention, which looks at the end symbol then.
    """
    shown = hypothesis_alignment(torch.ones(1, 1), print_alignment if attends else None)
    return {
        "tokens": torch.tensor([eos], device=is_source.device),
        "score": torch.tensor(0.0),
        "attention": is_source.float()[:, None].cpu() if attends else None,
        "alignment": shown,
        "positional_scores": torch.zeros(1),
    }
