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
    Limits,
    SecondAttempts,
    search_in_steps,
)
from fairseq_rnnsearch.decoding.search.authors_search import REPLACED
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.network import Decoder


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
            type(self.search) is BeamSearch
            and all(isinstance(model.decoder, Decoder) for model in self.model.models)
            and self.lm_model is None
            and self.repeat_ngram_blocker is None
            and self.token_indices_to_suppress is None
            and not self.match_source_len
        )

    def limits(self, lengths: Tensor) -> Limits:
        """See `decoding.search.BeamSearch`."""
        return Limits()


class AuthorsSequenceGenerator(SecondAttempts, StepwiseGenerator):
    """The authors' search, as fairseq's generator.

    Raises:
        UserError: if only fairseq's own search can run.
    """

    def __init__(self, models, tgt_dict, **options) -> None:
        super().__init__(models, tgt_dict, **options | REPLACED | {"min_len": 0})
        if not self._is_for_steps():
            raise UserError(
                "--authors-search is a plain beam search with this package's models: without "
                "sampling, constraints, --match-source-len, --no-repeat-ngram-size or --lm-path"
            )
