"""fairseq's beam search for networks that offer single steps, with the same results.

It knows lists of numbers alone: `engine.interface.Steps` computes. The first step has one row per
sentence, as all hypotheses are equal, and rows that only gain a word are not copied (see
``history``).
"""

import math
import sys
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from fairseq_rnnsearch.decoding.search.history import History, Hypothesis
from fairseq_rnnsearch.engine.interface import Best, Limits, Rows, Steps
from fairseq_rnnsearch.errors import UserError

Begin = Callable[[Sequence[Any], int], Steps]
NO_NUMBERS = "the model's probabilities are not numbers, as of a training that has diverged"
NO_POSTERIOR = (
    "posterior: the model has only the weights with which it attends before it knows the word; "
    "--attention gives these (in Python, posterior=False)"
)


@dataclass
class Sentence:
    """A sentence whose search is not finished.

    Attributes:
        number: its index in the batch.
        source: its length, the end symbol included.
        longest: the maximum number of words before the end symbol.
        prefix: the words that its translation begins with; -1 where any may follow.
        ended: the number of its complete hypotheses.
        full: beam places taken by complete hypotheses, for lack of others.
    """

    number: int
    source: int
    longest: int
    prefix: Sequence[int] = ()
    ended: int = 0
    full: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Options:
    """The options of a search, as fairseq's generators name them.

    Attributes:
        pad, unk, eos, vocab_size: the target dictionary's.
        beam_size: hypotheses to keep; at most all words but the pad symbol.
    """

    pad: int
    unk: int
    eos: int
    vocab_size: int
    beam_size: int
    len_penalty: float = 1.0
    unk_penalty: float = 0.0
    max_len_a: float = 0.0
    max_len_b: float = 200
    min_len: int = 1
    max_len: int = sys.maxsize
    normalize_scores: bool = True
    temperature: float = 1.0
    no_repeat_ngram_size: int = 0

    @classmethod
    def of(cls, generator: Any) -> "Options":
        """Return the options of a generator of fairseq's."""
        return cls(**{option.name: getattr(generator, option.name) for option in fields(cls)})

    @classmethod
    def for_dictionary(cls, dictionary: Any, beam_size: int, **options: Any) -> "Options":
        """Return options with the numbers of a target dictionary."""
        words = len(dictionary)
        symbols = dictionary.pad(), dictionary.unk(), dictionary.eos(), words
        return cls(*symbols, min(beam_size, words - 1), **options)


class Rules:
    """What a search forbids beside its options: nothing. Others derive from this."""

    keeps_complete = True  # whether complete hypotheses that fill a beam may get words again

    def __init__(self, options: Options) -> None:
        self.options = options

    def may_end(self, sentence: Sentence, step: int) -> bool:
        """Tell whether a translation may end with this step."""
        return step >= self.options.min_len

    def accepted(self, sentence: Sentence, words: list[int], scores: list[float]) -> list[float]:
        """Return the candidates' scores."""
        return scores

    def gives_up(self, sentence: Sentence, step: int) -> bool:
        """Tell whether a sentence's unfinished hypotheses are dropped before this step."""
        return False


def longest_translation(options: Any, source: int | np.ndarray) -> np.ndarray:
    """Return the maximum number of words before the end symbol, by the source's positions."""
    longest = np.asarray(options.max_len_a * source + options.max_len_b).astype(int)
    return np.minimum(longest, options.max_len - 1)


def longest_first(sentences: Sequence[Sized]) -> list[int]:
    """Return the numbers of sentences, in the order in which `Steps` take them."""
    return sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))


def search(
    options: Options,
    begin: Begin,
    sources: Sequence[Sized],
    prefixes: Sequence[Sequence[int]] | None = None,
    rules: type[Rules] = Rules,
) -> list[list[Hypothesis]]:
    """Search a batch; return each sentence's hypotheses, best first.

    Args:
        begin: returns the `Steps` for sources and the most hypotheses of a sentence.
        sources: sentences, end symbols included.
        prefixes: the first words of each translation; -1 where any may follow.

    Raises:
        UserError: if no translation can be as long as ``min_len``; if the network's probabilities
            are not numbers.
    """
    order, lengths = longest_first(sources), [*map(len, sources)]
    longest = int(longest_translation(options, max(lengths)))
    if options.min_len > longest:
        raise UserError(
            f"--min-len {options.min_len}: a translation of {max(lengths)} source tokens"
            f" (with </s>) is no longer than {longest} (--max-len-a, --max-len-b)"
        )
    sentences = []
    for number in order:
        longest = max(options.min_len, int(longest_translation(options, lengths[number])))
        prefix = list(prefixes[number]) if prefixes else []
        if options.eos in prefix:  # the whole translation is given
            longest = min(longest, prefix.index(options.eos))
        sentences.append(Sentence(number, lengths[number], longest, prefix))
    steps = begin([sources[number] for number in order], options.beam_size)
    return _Search(options, rules(options), steps, sentences, History(lengths)).run()


class _Search:
    """The search for one batch."""

    def __init__(
        self,
        options: Options,
        rules: Rules,
        steps: Steps,
        sentences: list[Sentence],
        history: History,
    ) -> None:
        self._options, self._rules, self._steps = options, rules, steps
        self._sentences, self._history = sentences, history
        self._max_len = max(sentence.longest for sentence in sentences)

    def run(self) -> list[list[Hypothesis]]:
        """Return all hypotheses of each sentence, best first."""
        options, history = self._options, self._history
        rows, step = Rows([], [], [0.0] * len(self._sentences)), 0
        while self._sentences:
            best = self._best(step, rows)
            history.weights.append(best.weights)
            rows = self._advance(step, best)
            history.steps.append(rows)
            step += 1
        power = options.len_penalty if options.normalize_scores else 0
        return history.hypotheses(options.eos, power)

    def _best(self, step: int, rows: Rows) -> Best:
        """Return the best candidates of each sentence."""
        options, rules, sentences = self._options, self._rules, self._sentences
        width = len(rows.scores) // len(sentences)
        only, no_end = [], []
        for sentence in sentences:
            given = sentence.prefix[step] if step < len(sentence.prefix) else -1
            only.append(options.eos if step >= sentence.longest else given)
            is_within = step < len(sentence.prefix)
            no_end.append(not is_within and not rules.may_end(sentence, step))
        forbidden = None
        if options.no_repeat_ngram_size:
            forbidden = [
                repeating(words, options.no_repeat_ngram_size)
                for words in self._history.words_of(rows)
            ]
        limits = Limits(only, no_end, forbidden, options.unk_penalty, options.temperature)
        k = min(2 * options.beam_size, width * options.vocab_size - 1)
        return self._steps.best(rows, k, limits)

    def _advance(self, step: int, best: Best) -> Rows:
        """Advance with the best candidates, and drop sentences whose beam is complete."""
        options, rules = self._options, self._rules
        width = options.beam_size if step else 1
        rows, remaining = Rows([], [], []), []
        for i, sentence in enumerate(self._sentences):
            words, hypotheses = best.words[i], best.hypotheses[i]
            scores, ended = best.scores[i], sentence.ended
            may_go_on = not ended and step < sentence.longest
            if may_go_on and scores[0] == -math.inf and options.unk_penalty < math.inf:
                raise UserError(NO_NUMBERS)  # NaN: something can always be said
            scores = rules.accepted(sentence, words, scores)
            going = self._sort_out(sentence, i * width, scores, words, hypotheses)
            is_full = sentence.ended == options.beam_size or step == sentence.longest
            if (sentence.ended > ended and is_full) or rules.gives_up(sentence, step + 1):
                continue
            if step >= self._max_len:  # by now every hypothesis must end
                raise UserError(f"no translation ends: {NO_NUMBERS}")
            remaining.append(i)
            rows.parents.extend([i * width + hypotheses[rank] for rank in going])
            rows.words.extend([words[rank] for rank in going])
            rows.scores.extend(
                scores[rank] if rules.keeps_complete or words[rank] != options.eos else -math.inf
                for rank in going
            )
        if len(remaining) < len(self._sentences):
            self._sentences = [self._sentences[i] for i in remaining]
            if remaining:
                self._steps.keep(remaining)
        return rows

    def _sort_out(
        self,
        sentence: Sentence,
        first_row: int,
        scores: list[float],
        words: list[int],
        hypotheses: list[int],
    ) -> list[int]:
        """Return the candidates to continue, by rank; complete ones go to the history.

        As in fairseq, ends count only among the best ``beam`` candidates, and if too few others
        remain, complete candidates fill the beam without counting again.
        """
        beam, eos = self._options.beam_size, self._options.eos
        going, complete = [], []
        for rank, (word, score) in enumerate(zip(words, scores, strict=True)):
            if rank < beam and rank in sentence.full:
                complete.append(rank)
            elif word == eos and score != -math.inf:
                complete.append(rank)
                if rank < beam and sentence.ended < beam:
                    row = first_row + hypotheses[rank]
                    self._history.end_hypothesis(row, sentence.number, score)
                    sentence.ended += 1
            else:
                going.append(rank)
                if rank + 1 >= beam and len(going) >= beam:
                    break
        sentence.full = set(range(len(going), beam))
        return (going + complete)[:beam]


def repeating(words: list[int], size: int) -> list[int]:
    """Return the words that would repeat n-grams of this size."""
    last = words[len(words) - size + 1 :]
    places = range(len(words) - size + 1)
    return [words[i + size - 1] for i in places if words[i : i + size - 1] == last]
