"""Sizes of models and batches."""

from typing import NamedTuple

import torch
from fairseq.data import Dictionary


class Size(NamedTuple):
    """The sizes of a model and a batch, in the paper's letters where it has any."""

    m: int
    n: int
    attention: int
    l: int
    symbols: int
    source: int  # words of every source sentence, with its end symbol
    target: int
    batch: int = 80


SIZES = {
    "paper": Size(620, 1000, 1000, 500, 30_000, 30, 30),
    "multi30k": Size(256, 256, 256, 256, 8_000, 14, 14),
    "tiny": Size(8, 12, 12, 8, 50, 4, 5, 3),  # for a test of this program
}


def dictionary(size: Size) -> Dictionary:
    """Make a dictionary of as many words as the size has symbols."""
    words = Dictionary()
    for i in range(size.symbols - len(words)):
        words.add_symbol(f"w{i}")
    return words


def frequencies(count: int) -> torch.Tensor:
    """Return the frequencies of a dictionary's words, after Zipf and Mandelbrot.

    With these numbers 0.46 of the 2,400 words of the paper's batch are distinct; in batches of the
    10^9 French-English corpus with 30,000 words 0.47 of the English and 0.42 of the French are.
    """
    return (torch.arange(1, count + 1) + 2.7) ** -1.1


def sample(size: Size, words: Dictionary) -> dict:
    """Return a batch of random words, as fairseq's translation data gives it."""
    generator = torch.Generator().manual_seed(0)
    often = frequencies(size.symbols - words.nspecial)
    source, target = (
        torch.multinomial(often, size.batch * length, replacement=True, generator=generator)
        .add_(words.nspecial)
        .view(size.batch, length)
        for length in (size.source, size.target)
    )
    source[:, -1] = target[:, -1] = words.eos()
    return {
        "id": torch.arange(size.batch),
        "nsentences": size.batch,
        "ntokens": target.numel(),
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((size.batch,), size.source),
            "prev_output_tokens": target.roll(1, dims=1),
        },
        "target": target,
    }
