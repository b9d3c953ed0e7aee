"""Beam search with the limits of the authors' program.

For a source sentence of w words, whatever it is batched with:

- at most 3 (w + 1) symbols; what is unfinished then is dropped;
- no end of sentence within the first floor((w + 1) / 2) symbols;
- the beam shrinks by one with each hypothesis that ends;
- if nothing ends: unknown words are allowed, if they were forbidden; then the beam doubles, up
  to 500.

fairseq's own search keeps the beam at its full width until that many hypotheses have ended, and
its limits depend on the longest sentence of the batch.
"""

import logging
import math

import torch
from fairseq.search import BeamSearch
from torch import Tensor

from fairseq_rnnsearch.errors import counted
from fairseq_rnnsearch.inference.search.generator import StepwiseGenerator

logger = logging.getLogger(__name__)

MAX_SYMBOLS_PER_SOURCE_SYMBOL = 3
LARGEST_BEAM = 500


class AuthorsBeamSearch(BeamSearch):
    """Candidates of one step, limited for each sentence by its own length.

    fairseq's generator always continues a full beam of hypotheses. Those beyond the shrunken beam
    get a score of minus infinity: the generator never ends them, and their continuations score
    minus infinity too. If hypotheses are few because words are few, or because a prefix is forced,
    the beam keeps its width.
    """

    needs_src_lengths = True

    def __init__(self, tgt_dict) -> None:
        super().__init__(tgt_dict)
        self.stop_on_max_len = True

    def set_src_lengths(self, src_lengths: Tensor) -> None:
        """Set the batch's source lengths, end symbols included, ``(batch,)``."""
        self.src_lengths = src_lengths

    def step(
        self,
        step: int,
        lprobs: Tensor,
        scores: Tensor | None,
        prev_output_tokens: Tensor | None = None,
        original_batch_idxs: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Choose candidates as ``fairseq.search.Search.step`` does."""
        if step == 0:
            self.begin(lprobs.size(1))
        last = None if prev_output_tokens is None else prev_output_tokens[:, -1]
        self.limit(step, lprobs, None if step == 0 else last.view(lprobs.shape[:2]), slice(None))
        candidates, words, beams = super().step(
            step, lprobs, scores, prev_output_tokens, original_batch_idxs
        )
        return self.accept(words, candidates), words, beams

    def begin(self, width: int) -> None:
        """Start all sentences of a batch with a beam of this width."""
        self.widths = torch.full_like(self.src_lengths, width)

    def limit(self, step: int, lprobs: Tensor, previous: Tensor | None, part: slice) -> None:
        """Forbid words in place, for some of the sentences.

        Args:
            lprobs: ``(sentences, hypotheses, words)``.
            previous: the last word of each hypothesis, ``(sentences, hypotheses)``.
        """
        if previous is not None:
            # fairseq fills an incomplete beam with hypotheses that have ended
            lprobs.masked_fill_(previous.eq(self.eos).unsqueeze(2), -math.inf)
        source = self.src_lengths[part].unsqueeze(1)
        lprobs[..., self.eos].masked_fill_(step < source // 2, -math.inf)
        is_over = step >= MAX_SYMBOLS_PER_SOURCE_SYMBOL * source
        lprobs.masked_fill_(is_over.unsqueeze(2), -math.inf)

    def accept(self, words: Tensor, scores: Tensor) -> Tensor:
        """Return the candidates' scores, ``(sentences, candidates)``, in the shrunken beams."""
        rank = torch.arange(scores.size(1), device=scores.device)
        scores = scores.masked_fill(rank >= self.widths.unsqueeze(1), -math.inf)
        self.widths = self.widths - (words.eq(self.eos) & scores.isfinite()).sum(dim=1)
        return scores

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        """Keep these rows: the generator has finished the others."""
        self.widths = self.widths[batch_idxs]


class AuthorsSequenceGenerator(StepwiseGenerator):
    """fairseq's generator around ``AuthorsBeamSearch``, with the authors' second attempts."""

    search_class = AuthorsBeamSearch

    def __init__(self, models, tgt_dict, **options) -> None:
        options |= {
            "search_strategy": AuthorsBeamSearch(tgt_dict),
            "max_len_a": MAX_SYMBOLS_PER_SOURCE_SYMBOL,
            "max_len_b": 0,
            "min_len": 0,
        }
        super().__init__(models, tgt_dict, **options)

    @torch.no_grad()
    def generate(self, models, sample: dict, **kwargs) -> list[list[dict]]:
        """Search as ``SequenceGenerator.generate``; every sentence has at least one hypothesis."""
        beam_size, unk_penalty = self.beam_size, self.unk_penalty
        largest_beam = min(LARGEST_BEAM, self.vocab_size - 1)  # the pad symbol is never chosen
        prefix = kwargs.pop("prefix_tokens", None)
        hypotheses = self._generate(sample, prefix_tokens=prefix, **kwargs)
        try:
            while unfinished := [i for i, beam in enumerate(hypotheses) if not beam]:
                if self.unk_penalty > 0:
                    self.unk_penalty = 0
                elif self.beam_size < largest_beam:
                    self.beam_size = min(2 * self.beam_size, largest_beam)
                else:
                    logger.warning(
                        "no translation of %s within 3 x the source's length, even with a beam of "
                        "%d: left empty",
                        counted(len(unfinished), "sentence"),
                        self.beam_size,
                    )
                    for i in unfinished:
                        hypotheses[i] = [self._empty_hypothesis(sample, i)]
                    break
                rows = torch.tensor(unfinished).to(sample["net_input"]["src_tokens"].device)
                again = self._generate(
                    {"net_input": _rows(sample["net_input"], rows)},
                    prefix_tokens=None if prefix is None else prefix[rows],
                    **kwargs,
                )
                for i, beam in zip(unfinished, again, strict=True):
                    hypotheses[i] = beam
        finally:
            self.beam_size, self.unk_penalty = beam_size, unk_penalty
        return hypotheses

    def limit(self, step: int, lprobs: Tensor, previous: Tensor | None, part: slice) -> None:
        """See ``StepwiseGenerator``."""
        if step == 0 and part.start == 0:
            self.search.begin(self.beam_size)
        self.search.limit(step, lprobs, previous, part)

    def accept(self, words: Tensor, scores: Tensor) -> Tensor:
        """See ``StepwiseGenerator``."""
        return self.search.accept(words, scores)

    def _empty_hypothesis(self, sample: dict, i: int) -> dict:
        source = sample["net_input"]["src_tokens"][i]
        return {
            "tokens": source.new_tensor([self.eos]),
            "score": torch.tensor(-math.inf),
            "attention": torch.zeros(source.numel(), 1),
            "alignment": torch.empty(0),
            "positional_scores": torch.tensor([-math.inf]),
        }


def _rows(net_input: dict, rows: Tensor) -> dict:
    return {name: net_input[name][rows] for name in ("src_tokens", "src_lengths")}
