"""fairseq's generators with the searches of ``decoding.search``.

If a model offers no steps, or if an option is unsupported there (sampling, constraints, n-gram
blocking, a language model), fairseq's own search runs.
"""

import math

from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_rnnsearch.decoding.search import (
    AuthorsLimits,
    Limits,
    SecondAttempts,
    StepwiseDecoder,
    search_in_steps,
)
from fairseq_rnnsearch.decoding.search.authors_search import REPLACED


class RepeatBlocker(NGramRepeatBlock):
    """Blocks words that would repeat an n-gram, as ``--no-repeat-ngram-size`` asks.

    fairseq's own compares with the end of the whole row, where the padding is, and blocks nothing.
    """

    def _no_repeat_ngram(
        self, tokens: Tensor, lprobs: Tensor, bsz: int, beam_size: int, step: int
    ) -> Tensor:
        size = self.no_repeat_ngram_size
        for row, words in enumerate(tokens[:, 1 : step + 1].tolist()):  # without the start symbol
            last = words[len(words) - size + 1 :]
            for place in range(len(words) - size + 1):
                *before, repeated = words[place : place + size]
                if before == last:
                    lprobs[row, repeated] = -math.inf
        return lprobs


class StepwiseGenerator(SequenceGenerator):
    """As ``fairseq.sequence_generator.SequenceGenerator``, but n-grams are blocked."""

    search_class = BeamSearch

    def __init__(self, models, tgt_dict, **options) -> None:
        super().__init__(models, tgt_dict, **options)
        if size := options.get("no_repeat_ngram_size"):
            self.repeat_ngram_blocker = RepeatBlocker(size)

    def _generate(
        self,
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[dict]]:
        if constraints is not None or not self._is_for_steps():
            return super()._generate(sample, prefix_tokens, constraints, bos_token)
        return search_in_steps(self, self.model.models, sample, prefix_tokens)

    def _is_for_steps(self) -> bool:
        return (
            type(self.search) is self.search_class
            and all(isinstance(model.decoder, StepwiseDecoder) for model in self.model.models)
            and self.lm_model is None
            and self.repeat_ngram_blocker is None
            and self.token_indices_to_suppress is None
            and not self.match_source_len
        )

    def limits(self, lengths: Tensor) -> Limits:
        """See `decoding.search.BeamSearch`."""
        return Limits()


class AuthorsBeamSearch(BeamSearch):
    """Candidates of one step of fairseq's search, limited as by the authors' program."""

    needs_src_lengths = True

    def __init__(self, tgt_dict) -> None:
        super().__init__(tgt_dict)
        self.stop_on_max_len = AuthorsLimits.stops_at_longest

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
            self._limits = AuthorsLimits(self.eos, self.src_lengths, lprobs.size(1))
        last = None if step == 0 else prev_output_tokens[:, -1].view(lprobs.shape[:2])
        self._limits.forbid(step, lprobs, last, slice(None))
        candidates, words, beams = super().step(
            step, lprobs, scores, prev_output_tokens, original_batch_idxs
        )
        return self._limits.accept(words, candidates), words, beams

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        """Keep these rows: the generator has finished the others."""
        self._limits.keep(batch_idxs)


class AuthorsSequenceGenerator(SecondAttempts, StepwiseGenerator):
    """fairseq's generator around ``AuthorsBeamSearch``, with the authors' second attempts."""

    search_class = AuthorsBeamSearch

    def __init__(self, models, tgt_dict, **options) -> None:
        options |= REPLACED | {"search_strategy": AuthorsBeamSearch(tgt_dict), "min_len": 0}
        super().__init__(models, tgt_dict, **options)
