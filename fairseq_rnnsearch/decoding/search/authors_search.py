"""Beam search with the limits of the authors' program.

For a source sentence of w words, whatever it is batched with:

- at most 3 (w + 1) symbols; what is unfinished then is dropped;
- no end of sentence within the first floor((w + 1) / 2) symbols;
- the beam shrinks by one with each hypothesis that ends;
- if nothing ends: unknown words are allowed, if they were forbidden; then the beam doubles, as
  long as it is below 500.

fairseq's own search keeps the beam at its full width until that many hypotheses have ended, and
its limits depend on the longest sentence of the batch.
"""

import logging
import math
from typing import Any

import torch
from torch import Tensor

from fairseq_rnnsearch.decoding.search.beam_search import BeamSearch, Limits
from fairseq_rnnsearch.errors import pluralize

logger = logging.getLogger(__name__)

MAX_SYMBOLS_PER_SOURCE_SYMBOL = 3
WIDE = 500  # a beam of so many hypotheses is not doubled
# the options that the limits replace, by their names in fairseq's generator
REPLACED = {"max_len_a": MAX_SYMBOLS_PER_SOURCE_SYMBOL, "max_len_b": 0}


class AuthorsLimits(Limits):
    """Limits for each sentence by its own length, and shrinking beams.

    The search always continues a full beam of hypotheses. Those beyond the shrunken beam get a
    score of minus infinity: the search never ends them, and their continuations score minus
    infinity too. If hypotheses are few because words are few, or because a prefix is forced, the
    beam keeps its width.

    Args:
        eos: the end symbol.
        lengths: the batch's source lengths, end symbols included, ``(batch,)``.
        width: of each beam.
    """

    stops_at_longest = True

    def __init__(self, eos: int, lengths: Tensor, width: int) -> None:
        self._eos, self._lengths = eos, lengths
        self._widths = torch.full_like(lengths, width)

    def forbid(self, step: int, lprobs: Tensor, previous: Tensor | None, part: slice) -> None:
        """See `Limits`."""
        if previous is not None:
            # an incomplete beam is filled with hypotheses that have ended
            lprobs.masked_fill_(previous.eq(self._eos).unsqueeze(2), -math.inf)
        source = self._lengths[part].unsqueeze(1)
        lprobs[..., self._eos].masked_fill_(step < source // 2, -math.inf)
        is_over = step >= MAX_SYMBOLS_PER_SOURCE_SYMBOL * source
        lprobs.masked_fill_(is_over.unsqueeze(2), -math.inf)

    def accept(self, words: Tensor, scores: Tensor) -> Tensor:
        """Return the candidates' scores, ``(sentences, candidates)``, in the shrunken beams."""
        rank = torch.arange(scores.size(1), device=scores.device)
        scores = scores.masked_fill(rank >= self._widths.unsqueeze(1), -math.inf)
        self._widths = self._widths - (words.eq(self._eos) & scores.isfinite()).sum(dim=1)
        return scores

    def keep(self, sentences: Tensor) -> None:
        """See `Limits`."""
        self._lengths, self._widths = self._lengths[sentences], self._widths[sentences]


class SecondAttempts:
    """The authors' second attempts, for `BeamSearch` and fairseq's generators."""

    @torch.no_grad()
    def generate(self, models, sample: dict, **kwargs) -> list[list[dict]]:
        """Search as without second attempts; every sentence has at least one hypothesis."""
        beam_size, unk_penalty = self.beam_size, self.unk_penalty
        words = self.vocab_size - 1  # the pad symbol is never chosen
        prefix = kwargs.pop("prefix_tokens", None)
        hypotheses = self._generate(sample, prefix_tokens=prefix, **kwargs)
        try:
            while unfinished := [i for i, beam in enumerate(hypotheses) if not beam]:
                if self.unk_penalty > 0:
                    self.unk_penalty = 0
                elif self.beam_size < min(WIDE, words):
                    self.beam_size = min(2 * self.beam_size, words)
                else:
                    logger.warning(
                        "no translation of %s within 3 x the source's length, even with a beam of "
                        "%d: left empty",
                        pluralize(len(unfinished), "sentence"),
                        self.beam_size,
                    )
                    for i in unfinished:
                        hypotheses[i] = [self._empty_hypothesis(sample, i)]
                    break
                rows = torch.tensor(unfinished).to(sample["net_input"]["src_tokens"].device)
                given = {x: sample["net_input"][x][rows] for x in ("src_tokens", "src_lengths")}
                again = self._generate(
                    {"net_input": given},
                    prefix_tokens=None if prefix is None else prefix[rows],
                    **kwargs,
                )
                for i, beam in zip(unfinished, again, strict=True):
                    hypotheses[i] = beam
        finally:
            self.beam_size, self.unk_penalty = beam_size, unk_penalty
        return hypotheses

    def limits(self, lengths: Tensor) -> AuthorsLimits:
        """See `BeamSearch`."""
        return AuthorsLimits(self.eos, lengths, self.beam_size)

    def _empty_hypothesis(self, sample: dict, i: int) -> dict:
        source = sample["net_input"]["src_tokens"][i]
        return {
            "tokens": source.new_tensor([self.eos]),
            "score": torch.tensor(-math.inf),
            "attention": torch.zeros(source.numel(), 1),
            "alignment": torch.empty(0),
            "positional_scores": torch.tensor([-math.inf]),
        }


class AuthorsSearch(SecondAttempts, BeamSearch):
    """The authors' search, for models that offer steps; arguments as of `BeamSearch`."""

    def __init__(self, models: Any, dictionary: Any, **options: Any) -> None:
        super().__init__(models, dictionary, **options | REPLACED)
        self.min_len = 0
