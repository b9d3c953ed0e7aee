"""fairseq's generators with the searches of ``decoding.search``.

If a model offers no steps, or if an option is unsupported there (sampling, constraints, a language
model), fairseq's own search runs.
"""

import math

import torch
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_rnnsearch.decoding.module_steps import begin_of
from fairseq_rnnsearch.decoding.search import Options, authors_search, search
from fairseq_rnnsearch.decoding.search.authors_search import REPLACED
from fairseq_rnnsearch.decoding.search.beam_search import repeating
from fairseq_rnnsearch.decoding.search.history import Hypothesis
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.network import Decoder


class RepeatBlocker(NGramRepeatBlock):
    """Blocks words that would repeat an n-gram, as ``--no-repeat-ngram-size`` asks.

    fairseq's own compares with the end of the whole row, where the padding is, and blocks nothing.
    """

    def _no_repeat_ngram(
        self, tokens: Tensor, lprobs: Tensor, bsz: int, beam_size: int, step: int
    ) -> Tensor:
        for row, words in enumerate(tokens[:, 1 : step + 1].tolist()):  # without the start symbol
            lprobs[row, repeating(words, self.no_repeat_ngram_size)] = -math.inf
        return lprobs


class StepwiseGenerator(SequenceGenerator):
    """As ``fairseq.sequence_generator.SequenceGenerator``, but n-grams are blocked."""

    search_in_steps = staticmethod(search)

    def __init__(self, models, tgt_dict, **options) -> None:
        super().__init__(models, tgt_dict, **options)
        self.no_repeat_ngram_size = options.get("no_repeat_ngram_size", 0)
        if self.no_repeat_ngram_size:
            self.repeat_ngram_blocker = RepeatBlocker(self.no_repeat_ngram_size)

    def _generate(
        self,
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[dict]]:
        if constraints is not None or not self._is_for_steps():
            return super()._generate(sample, prefix_tokens, constraints, bos_token)
        models, source = list(self.model.models), sample["net_input"]["src_tokens"]
        is_word = source.ne(self.pad).cpu()
        words = [row[here].tolist() for row, here in zip(source.cpu(), is_word, strict=True)]
        prefixes = None
        if prefix_tokens is not None:
            prefixes = prefix_tokens.masked_fill(prefix_tokens.eq(self.pad), -1).tolist()
        begin = begin_of(models, self.pad, self)
        beams = self.search_in_steps(Options.of(self), begin, words, prefixes)
        dtype = torch.promote_types(next(models[0].parameters()).dtype, torch.float32)
        return [
            [_as_fairseq(one, here, dtype) for one in beam]
            for beam, here in zip(beams, is_word, strict=True)
        ]

    def _is_for_steps(self) -> bool:
        return (
            type(self.search) is BeamSearch
            and all(isinstance(model.decoder, Decoder) for model in self.model.models)
            and self.lm_model is None
            and self.token_indices_to_suppress is None
            and not self.match_source_len
        )


def _as_fairseq(found: Hypothesis, is_word: Tensor, dtype: torch.dtype) -> dict:
    """Return a hypothesis as fairseq's generator does.

    Args:
        is_word: of each source position, false for padding.
    """
    attention = torch.empty(0)
    if found.weights is not None:
        attention = torch.zeros(len(is_word), len(found.words))
        attention[is_word] = torch.from_numpy(found.weights).T
    return {
        "tokens": torch.tensor(found.words),
        "score": torch.tensor(found.score, dtype=dtype),
        "attention": attention,
        "alignment": torch.empty(0),
        "positional_scores": torch.from_numpy(found.log_p).to(dtype),
    }


class AuthorsSequenceGenerator(StepwiseGenerator):
    """The authors' search, as fairseq's generator.

    Raises:
        UserError: if only fairseq's own search can run.
    """

    search_in_steps = staticmethod(authors_search)

    def __init__(self, models, tgt_dict, **options) -> None:
        super().__init__(models, tgt_dict, **options | REPLACED)
        if not self._is_for_steps():
            raise UserError(
                "--authors-search is a plain beam search with this package's models: without "
                "sampling, constraints, --match-source-len or --lm-path"
            )
