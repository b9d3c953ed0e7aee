"""fairseq's beam search for models that offer single steps, with the same results.

A model offers them with its decoder's method ``begin(encoder_out)``, see ``network.Decoder``. For
other models, and for options that are unsupported here, ``plugin.generators`` has fairseq's own.

It saves time: the first step has one row per sentence, as all hypotheses are equal; rows that only
gain a word are not copied (see ``history``); words are chosen for a few sentences at a time, whose
logits stay in the cache (see ``candidates``).
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_rnnsearch.decoding.search.candidates import best
from fairseq_rnnsearch.decoding.search.history import History, Rows
from fairseq_rnnsearch.errors import UserError

# bytes of logits per block, to fit a CPU's caches
LOGITS = 8_000_000
NO_NUMBERS = "the model's probabilities are not numbers, as of a training that has diverged"


@dataclass
class _Sentence:
    """A sentence whose search is not finished.

    Attributes:
        number: its index in the batch.
        longest: the maximum number of words before the end symbol.
        ended: the number of its complete hypotheses.
        full: beam places taken by complete hypotheses, for lack of others.
    """

    number: int
    longest: int
    ended: int = 0
    full: set[int] = field(default_factory=set)


class Limits:
    """What a search forbids beside its options: nothing. Others derive from this."""

    stops_at_longest = False  # whether hypotheses that are unfinished then are dropped

    def forbid(self, step: int, lprobs: Tensor, previous: Tensor | None, part: slice) -> None:
        """Forbid words in place, for the sentences of ``part``.

        Args:
            lprobs: ``(sentences, hypotheses, words)``.
            previous: the last word of each hypothesis of these sentences, ``(sentences,
                hypotheses)``; None in the first step.
        """

    def accept(self, words: Tensor, scores: Tensor) -> Tensor:
        """Return the candidates' scores, ``(sentences, candidates)``."""
        return scores

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences: the others are finished."""


class BeamSearch:
    """As ``fairseq.sequence_generator.SequenceGenerator``, for models that offer steps.

    Args:
        dictionary: the target's.
        beam_size: hypotheses to keep; at most all words but the pad symbol.
        len_penalty, unk_penalty, max_len_a, max_len_b: as fairseq's options.
    """

    # options of fairseq's generator that the package's own commands do not have
    min_len = 1
    max_len = sys.maxsize
    normalize_scores = True
    temperature = 1.0

    def __init__(
        self,
        models: Sequence[torch.nn.Module],
        dictionary: Any,
        *,
        beam_size: int,
        len_penalty: float = 1.0,
        unk_penalty: float = 0.0,
        max_len_a: float = 0.0,
        max_len_b: float = 200,
    ) -> None:
        self.models = models
        self.pad, self.unk, self.eos = dictionary.pad(), dictionary.unk(), dictionary.eos()
        self.vocab_size = len(dictionary)
        self.beam_size = min(beam_size, self.vocab_size - 1)
        self.len_penalty, self.unk_penalty = len_penalty, unk_penalty
        self.max_len_a, self.max_len_b = max_len_a, max_len_b

    def generate(self, _: object, sample: dict, **options: Any) -> list[list[dict]]:
        """Return each sentence's hypotheses, best first, as fairseq's generator does."""
        return self._generate(sample, **options)

    def _generate(
        self, sample: dict, prefix_tokens: Tensor | None = None, constraints: None = None
    ) -> list[list[dict]]:
        return search_in_steps(self, self.models, sample, prefix_tokens)

    def limits(self, lengths: Tensor) -> Limits:
        """Return the limits for a batch of these source lengths, end symbols included."""
        return Limits()


def search_in_steps(
    generator: BeamSearch, models: Sequence[torch.nn.Module], sample: dict, prefix: Tensor | None
) -> list[list[dict]]:
    """Search a batch.

    Args:
        generator: the options; fairseq's generators have the same attributes, but for ``limits``.
        prefix: the first words of the translations, ``(sentences, words)``, padded; or None.

    Raises:
        UserError: if no translation can be as long as ``min_len``; if the model's probabilities
            are not numbers.
    """
    return _Search(generator, models, sample, prefix).run()


def longest_translation(generator: BeamSearch, source: int | np.ndarray) -> np.ndarray:
    """Return the maximum number of words before the end symbol, by the source's positions."""
    longest = np.asarray(generator.max_len_a * source + generator.max_len_b).astype(int)
    return np.minimum(longest, generator.max_len - 1)


def _read(
    scores: Tensor, words: Tensor, hypotheses: Tensor
) -> tuple[list[list[float]], list[list[int]], list[list[int]]]:
    """Return candidates as lists, waiting for a GPU only once."""
    if scores.is_cpu:
        return scores.tolist(), words.tolist(), hypotheses.tolist()
    numbers = torch.stack([part.double() for part in (scores, words, hypotheses)]).cpu()
    return numbers[0].tolist(), numbers[1].long().tolist(), numbers[2].long().tolist()


class _Search:
    """The search for one batch."""

    def __init__(
        self,
        generator: BeamSearch,
        models: Sequence[torch.nn.Module],
        sample: dict,
        prefix: Tensor | None,
    ) -> None:
        self._generator, self._prefix = generator, prefix
        source = sample["net_input"]["src_tokens"]
        self._device = source.device
        source_length = source.size(1)
        longest = int(longest_translation(generator, source_length))
        if generator.min_len > longest:
            raise UserError(
                f"--min-len {generator.min_len}: a translation of {source_length} source tokens"
                f" (with </s>) is no longer than {longest} (--max-len-a, --max-len-b)"
            )
        lengths = sample["net_input"].get("src_lengths")
        if lengths is None:
            lengths = source.ne(generator.pad).sum(dim=1)
        self._limits = generator.limits(lengths)
        self._steps = [model.decoder.begin(model.encoder(source)) for model in models]
        self._sentences = [
            _Sentence(number, max(generator.min_len, int(longest_translation(generator, length))))
            for number, length in enumerate(lengths.tolist())
        ]
        if prefix is not None:
            for sentence, given in zip(self._sentences, prefix.tolist(), strict=True):
                if generator.eos in given:  # the whole translation is given
                    sentence.longest = min(sentence.longest, given.index(generator.eos))
        self._max_len = max(sentence.longest for sentence in self._sentences)
        self._lprobs: Tensor | None = None

    def run(self) -> list[list[dict]]:
        """Return all hypotheses of each sentence, best first."""
        generator, count = self._generator, len(self._sentences)
        words = torch.full((count,), generator.eos, device=self._device)
        scores = torch.zeros(count, device=self._device)
        history = History()
        for step in range(self._max_len + 1):
            features, weights = self._step(words)
            scores = scores.to(torch.promote_types(features[0].dtype, torch.float32))
            history.weights.append(weights)
            candidates = self._candidates(step, features, words, scores)
            rows, unfinished = self._advance(step, history, *_read(*candidates))
            if not self._sentences or (self._limits.stops_at_longest and step >= self._max_len):
                break
            if step >= self._max_len:  # by now every hypothesis must end
                raise UserError(f"no translation ends: {NO_NUMBERS}")
            history.steps.append(rows)
            words, parents, scores = self._sent(rows, scores.dtype)
            for steps in self._steps:
                steps.follow(parents, unfinished, generator.beam_size)
        power = generator.len_penalty if generator.normalize_scores else 0
        return history.hypotheses(count, generator.eos, power, scores.dtype)

    def _sent(self, rows: Rows, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Send words, parents and scores to the model's device in one copy."""
        # NumPy reads lists in a tenth of torch's time
        numbers = torch.from_numpy(np.array([rows.words, rows.parents, rows.scores], np.float64))
        numbers = numbers.to(self._device, non_blocking=True)
        words, parents = numbers[:2].long()
        return words, parents, numbers[2].to(dtype)

    def _step(self, words: Tensor) -> tuple[list[Tensor], Tensor | None]:
        """Return each model's t_i and the mean of their alignment weights."""
        results = [steps.step(words) for steps in self._steps]
        weights = [alpha for _, alpha in results if alpha is not None]
        mean = sum(weights[1:], weights[0]) / len(results) if weights else None
        return [t for t, _ in results], mean

    # choosing words

    def _candidates(
        self, step: int, features: list[Tensor], words: Tensor, scores: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, words and hypotheses, ``(sentences, candidates)``, best first."""
        generator, sentences = self._generator, len(self._sentences)
        width, symbols = len(scores) // sentences, generator.vocab_size
        previous = words.view(sentences, width) if step else None
        k = min(2 * generator.beam_size, width * symbols - 1)
        at_once = sentences
        if self._device.type == "cpu":
            at_once = max(1, LOGITS // (width * symbols * scores.element_size()))
        best_parts = []
        for start in range(0, sentences, at_once):
            part = slice(start, min(start + at_once, sentences))
            rows = slice(part.start * width, part.stop * width)
            lprobs = self._log_probabilities([t[rows] for t in features], scores.dtype)
            lprobs = lprobs.view(-1, width, symbols)
            self._limit(step, lprobs, part)
            self._limits.forbid(step, lprobs, None if previous is None else previous[part], part)
            best_parts.append(best(lprobs, scores[rows].view(-1, width), k))
        values, chosen, hypotheses = (torch.cat(parts) for parts in zip(*best_parts, strict=True))
        return self._limits.accept(chosen, values), chosen, hypotheses

    def _log_probabilities(self, features: list[Tensor], dtype: torch.dtype) -> Tensor:
        """Return log p, ``(rows, words)``; for an ensemble, the log of the mean probability."""
        shape = len(features[0]), self._generator.vocab_size
        if self._lprobs is None or len(self._lprobs) < shape[0]:
            self._lprobs = features[0].new_empty(shape, dtype=dtype)
        lprobs = [self._lprobs[: shape[0]]]
        lprobs += [t.new_empty(shape, dtype=dtype) for t in features[1:]]
        for steps, t, out in zip(self._steps, features, lprobs, strict=True):
            steps.log_probabilities(t, self._generator.temperature, out)
        if len(lprobs) == 1:
            return lprobs[0]
        return torch.logsumexp(torch.stack(lprobs), dim=0) - math.log(len(lprobs))

    def _limit(self, step: int, lprobs: Tensor, part: slice) -> None:
        """Forbid in place what fairseq's options forbid."""
        generator = self._generator
        eos = generator.eos
        lprobs[..., generator.pad] = -math.inf
        if generator.unk_penalty:
            lprobs[..., generator.unk] -= generator.unk_penalty
        sentences = self._sentences[part]
        over = [row for row, sentence in enumerate(sentences) if step >= sentence.longest]
        ends = lprobs[..., eos].clone() if over else None
        if self._prefix is not None and step < self._prefix.size(1):
            words = self._prefix[part, step].view(-1, 1, 1)
            given = words.expand(-1, lprobs.size(1), 1)
            given_scores = lprobs.gather(2, given)  # where no word is given, that of the pad symbol
            lprobs.masked_fill_(words.ne(generator.pad), -math.inf).scatter_(2, given, given_scores)
        elif step < generator.min_len:
            lprobs[..., eos] = -math.inf
        for row in over:  # views: indexing with a list would send it to the GPU
            lprobs[row] = -math.inf
            lprobs[row, :, eos] = ends[row]

    # following hypotheses

    def _advance(
        self,
        step: int,
        history: History,
        scores: list[list[float]],
        words: list[list[int]],
        hypotheses: list[list[int]],
    ) -> tuple[Rows, Tensor | None]:
        """Advance with the best candidates, and drop sentences whose beam is complete.

        Returns:
            the rows, and the sentences that are kept, None for all.
        """
        width = self._generator.beam_size if step else 1
        rows, remaining = Rows([], [], []), []
        for i, sentence in enumerate(self._sentences):
            ended = sentence.ended
            may_go_on = not ended and step < sentence.longest
            if may_go_on and scores[i][0] == -math.inf and self._generator.unk_penalty < math.inf:
                raise UserError(NO_NUMBERS)  # NaN: something can always be said
            going = self._sort_out(sentence, history, i * width, scores[i], words[i], hypotheses[i])
            is_full = sentence.ended == self._generator.beam_size or step == sentence.longest
            if sentence.ended > ended and is_full:
                continue
            remaining.append(i)
            rows.parents.extend([i * width + hypotheses[i][rank] for rank in going])
            rows.words.extend([words[i][rank] for rank in going])
            rows.scores.extend([scores[i][rank] for rank in going])
        if len(remaining) == len(self._sentences):
            return rows, None
        unfinished = torch.tensor(remaining, dtype=torch.long).to(self._device)
        self._sentences = [self._sentences[i] for i in remaining]
        if self._prefix is not None:
            self._prefix = self._prefix[unfinished]
        self._limits.keep(unfinished)
        return rows, unfinished

    def _sort_out(
        self,
        sentence: _Sentence,
        history: History,
        first_row: int,
        scores: list[float],
        words: list[int],
        hypotheses: list[int],
    ) -> list[int]:
        """Return the candidates to continue, by rank; complete ones go to the history.

        As in fairseq, ends count only among the best ``beam`` candidates, and if too few others
        remain, complete candidates fill the beam without counting again.
        """
        beam, eos = self._generator.beam_size, self._generator.eos
        going, complete = [], []
        for rank, (word, score) in enumerate(zip(words, scores, strict=True)):
            if rank < beam and rank in sentence.full:
                complete.append(rank)
            elif word == eos and score != -math.inf:
                complete.append(rank)
                if rank < beam and sentence.ended < beam:
                    history.end_hypothesis(first_row + hypotheses[rank], sentence.number, score)
                    sentence.ended += 1
            else:
                going.append(rank)
                if rank + 1 >= beam and len(going) >= beam:
                    break
        sentence.full = set(range(len(going), beam))
        return (going + complete)[:beam]
