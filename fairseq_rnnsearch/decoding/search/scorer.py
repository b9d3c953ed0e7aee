"""Scores given words, as fairseq's ``SequenceScorer`` does, for its models and ours."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_rnnsearch.decoding.search.beam_search import NO_NUMBERS, NO_POSTERIOR
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.network import Decoder


class Scorer:
    """Scores the target words of a batch, with the weights that belong to them.

    Args:
        dictionary: the target's.
        posterior: whether the weights are those of ``network.forced_scoring.posterior``.
    """

    def __init__(self, dictionary: Any, *, posterior: bool = False) -> None:
        self._pad, self._posterior = dictionary.pad(), posterior

    @torch.no_grad()
    def generate(
        self, models: Sequence[torch.nn.Module], sample: dict, **_: Any
    ) -> list[list[dict]]:
        """Return one hypothesis for each sentence: the given words.

        Raises:
            UserError: if a model has no posterior weights and these are asked for; if the model's
                probabilities are not numbers.
        """
        given, target = sample["net_input"], sample["target"]
        if self._posterior:
            if not all(isinstance(x.decoder, Decoder) and x.decoder.has_alignment for x in models):
                raise UserError(NO_POSTERIOR)
            given = given | {"posterior": True}
        scores, weights = zip(
            *(_scored(model, given, target, len(models) == 1) for model in models), strict=True
        )
        log_p = scores[0] if len(models) == 1 else _mean(scores, len(models)).log()
        if log_p.isnan().any():
            raise UserError(NO_NUMBERS)
        known = [one for one in weights if one is not None]
        attention = _mean(known, len(models)) if known else [None] * len(target)
        lengths = target.ne(self._pad).sum(dim=1).tolist()
        return [
            [
                {
                    "tokens": words[words.ne(self._pad)],
                    "score": of_words[:length].sum() / length,
                    "attention": alpha,
                    "alignment": None,
                    "positional_scores": of_words[:length],
                }
            ]
            for words, of_words, alpha, length in zip(
                target, log_p, attention, lengths, strict=True
            )
        ]


def _scored(
    model: torch.nn.Module, given: dict, target: Tensor, log_probs: bool
) -> tuple[Tensor, Tensor | None]:
    """Return p or log p of the words, ``(batch, target)``, and alignment weights, or None."""
    output = model(**given)
    scores = model.get_normalized_probs(output, log_probs=log_probs)
    weights = soft_alignment(output, target, given["src_tokens"])
    return scores.gather(2, target.unsqueeze(2)).squeeze(2), weights


def soft_alignment(net_output: tuple, target: Tensor, source: Tensor) -> Tensor | None:
    """Return the weights ``(batch, target, source)`` in a fairseq model's output, if it has any.

    Args:
        target, source: words, ``(batch, target)`` and ``(batch, source)``.
    """
    extra = net_output[1] if len(net_output) > 1 else None
    if isinstance(extra, Tensor):  # fairseq's recurrent and convolutional models
        return extra if extra.shape == (*target.shape, source.size(1)) else None
    attention = extra.get("attn") if isinstance(extra, dict) else None
    return attention[0] if isinstance(attention, list | tuple) else attention


def _mean(tensors: Sequence[Tensor], count: int) -> Tensor:
    return sum(tensors[1:], tensors[0]) / count
