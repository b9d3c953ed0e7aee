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
from collections.abc import Sequence, Sized
from dataclasses import replace

import numpy as np

from fairseq_rnnsearch.decoding.search.beam_search import Begin, Options, Rules, Sentence, search
from fairseq_rnnsearch.decoding.search.history import Hypothesis
from fairseq_rnnsearch.errors import pluralize

logger = logging.getLogger(__name__)

MAX_SYMBOLS_PER_SOURCE_SYMBOL = 3
WIDE = 500  # a beam of so many hypotheses is not doubled
# the options that the limits replace, by their names in fairseq's generator
REPLACED = {"max_len_a": MAX_SYMBOLS_PER_SOURCE_SYMBOL, "max_len_b": 0, "min_len": 0}


class AuthorsRules(Rules):
    """Limits for each sentence by its own length, and shrinking beams.

    The search always continues a full beam of hypotheses. Those beyond the shrunken beam get a
    score of minus infinity: the search never ends them, and their continuations score minus
    infinity too. If hypotheses are few because words are few, or because a prefix is forced, the
    beam keeps its width.
    """

    keeps_complete = False

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._ended: dict[int, int] = {}  # candidates of each sentence

    def may_end(self, sentence: Sentence, step: int) -> bool:
        """See `Rules`."""
        return step >= sentence.source // 2

    def accepted(self, sentence: Sentence, words: list[int], scores: list[float]) -> list[float]:
        """Return the candidates' scores in the shrunken beam."""
        ended = self._ended.get(sentence.number, 0)
        width, eos = self.options.beam_size - ended, self.options.eos
        scores = [score if rank < width else -math.inf for rank, score in enumerate(scores)]
        ends = (word == eos and s != -math.inf for word, s in zip(words, scores, strict=True))
        self._ended[sentence.number] = ended + sum(ends)
        return scores

    def gives_up(self, sentence: Sentence, step: int) -> bool:
        """See `Rules`."""
        return step >= MAX_SYMBOLS_PER_SOURCE_SYMBOL * sentence.source


def authors_search(
    options: Options,
    begin: Begin,
    sources: Sequence[Sized],
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Search as `beam_search.search` does; every sentence has at least one hypothesis."""
    options = replace(options, **REPLACED)
    beams = search(options, begin, sources, prefixes, AuthorsRules)
    while unfinished := [i for i, beam in enumerate(beams) if not beam]:
        words = options.vocab_size - 1  # the pad symbol is never chosen
        if options.unk_penalty > 0:
            options = replace(options, unk_penalty=0)
        elif options.beam_size < min(WIDE, words):
            options = replace(options, beam_size=min(2 * options.beam_size, words))
        else:
            logger.warning(
                "no translation of %s within 3 x the source's length, even with a beam of "
                "%d: left empty",
                pluralize(len(unfinished), "sentence"),
                options.beam_size,
            )
            for i in unfinished:
                log_p, weights = np.array([-math.inf]), np.zeros((1, len(sources[i])), np.float32)
                beams[i] = [Hypothesis([options.eos], -math.inf, log_p, weights)]
            break
        rows = [prefixes[i] for i in unfinished] if prefixes else None
        again = search(options, begin, [sources[i] for i in unfinished], rows, AuthorsRules)
        for i, beam in zip(unfinished, again, strict=True):
            beams[i] = beam
    return beams
