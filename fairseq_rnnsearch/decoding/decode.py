"""Decode a batch, by beam search or by scoring given words, with alignment weights.

`decode` is pure: it neither draws nor prints, and does not change its arguments. Callers display
the result.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_rnnsearch.decoding.batches import naming_the_batch, rows_of
from fairseq_rnnsearch.network import Decoder


def has_alignment(model: torch.nn.Module) -> bool:
    """Tell whether a model has attention; fairseq's own do not tell, and are assumed to."""
    return model.decoder.has_alignment if isinstance(model.decoder, Decoder) else True


def soft_alignment(net_output: tuple, target: Tensor, source: Tensor) -> Tensor | None:
    """Return the weights ``(batch, target, source)`` in a model's output, if it has any.

    Args:
        target, source: words, ``(batch, target)`` and ``(batch, source)``.
    """
    extra = net_output[1] if len(net_output) > 1 else None
    if isinstance(extra, Tensor):  # fairseq's recurrent and convolutional models
        return extra if extra.shape == (*target.shape, source.size(1)) else None
    attention = extra.get("attn") if isinstance(extra, dict) else None
    return attention[0] if isinstance(attention, list | tuple) else attention


@torch.no_grad()
def decode(
    generator: Any,
    models: Sequence[torch.nn.Module],
    sample: dict,
    pad: int,
    eos: int,
    prefix_tokens: Tensor | None = None,
    constraints: Tensor | None = None,
    *,
    scores: bool = False,
) -> list[list[dict]]:
    """Translate or score a batch.

    A sentence without words gets an empty translation, without a search.

    Args:
        generator: one of fairseq's, or of ``plugin.generators``.
        pad: the source's padding.
        eos: the target's end symbol.
        prefix_tokens, constraints: as for fairseq's generators.
        scores: whether the generator scores the batch's target words.

    Returns:
        For each sentence its hypotheses, best first, as fairseq's generators return them.
        ``attention`` is ``(source, target)`` with padding, or None without attention; ``weights``
        is ``(target, source)`` without padding, both end symbols included, or None.

    Raises:
        RuntimeError: "out of memory", with a description of the batch.
    """
    words = sample["net_input"]["src_tokens"]
    blank = words.ne(pad).sum(dim=1) <= 1  # the end symbol alone
    if scores or prefix_tokens is not None:
        blank = torch.zeros_like(blank)
    rows, beams = blank.logical_not().nonzero().flatten(), []
    if len(rows):
        is_part = len(rows) < len(words)
        part = rows_of(sample, rows, pad) if is_part else sample
        given = constraints[rows] if is_part and constraints is not None else constraints
        with naming_the_batch(part):
            beams = generator.generate(models, part, prefix_tokens=prefix_tokens, constraints=given)
    attends, searched = any(map(has_alignment, models)), iter(beams)
    return [
        [_empty(source.ne(pad), eos, attends)]
        if is_blank
        else [_with_weights(one, source.ne(pad), len(models), scores) for one in next(searched)]
        for source, is_blank in zip(words, blank.tolist(), strict=True)
    ]


def _with_weights(hypothesis: dict, is_source: Tensor, models: int, is_scored: bool) -> dict:
    """Return a hypothesis with its alignment weights in both forms."""
    attention = hypothesis["attention"]
    if attention is None or not attention.numel():
        return {**hypothesis, "attention": None, "weights": None}
    if is_scored:
        attention = attention[: len(hypothesis["tokens"])].T
    if models > 1:  # fairseq divides their sum by the number of all, also of those that lack them
        sums = attention.sum(dim=0, keepdim=True)
        attention = attention / sums.clamp_min(torch.finfo(sums.dtype).tiny)
    weights = attention.cpu()[is_source.cpu()].T
    return {**hypothesis, "attention": attention, "weights": weights}


def _empty(is_source: Tensor, eos: int, attends: bool) -> dict:
    """Return the empty translation of a sentence without words.

    Attention, if any, is on the end symbol.
    """
    return {
        "tokens": torch.tensor([eos], device=is_source.device),
        "score": torch.tensor(0.0),
        "attention": is_source.float()[:, None].cpu() if attends else None,
        "weights": torch.ones(1, 1) if attends else None,
        "alignment": torch.empty(0),
        "positional_scores": torch.zeros(1),
    }
