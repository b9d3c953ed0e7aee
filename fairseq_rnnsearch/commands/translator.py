"""A trained model that translates and aligns plain text; see ``loading``."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.checks import (
    BEAM,
    LARGEST_LENPEN,
    Pieces,
    ScoringOptions,
    SearchOptions,
)
from fairseq_rnnsearch.commands.doubt import Limits, doubt_of
from fairseq_rnnsearch.commands.translation import LONGEST_SHOWN, Translation, joined
from fairseq_rnnsearch.decoding.engine_networks import EngineNetworks
from fairseq_rnnsearch.decoding.length_limit import FAIRSEQ_LIMIT, LengthLimit
from fairseq_rnnsearch.decoding.search import Options
from fairseq_rnnsearch.decoding.search.history import Hypothesis
from fairseq_rnnsearch.errors import UserError, as_text, pluralize
from fairseq_rnnsearch.text.coverage import (
    UNKNOWN,
    TextCounter,
    Vocabulary,
    marked,
    replace_unknown,
    unknown_words,
    words_of,
)
from fairseq_rnnsearch.text.dictionary_file import numbers_of
from fairseq_rnnsearch.text.plain_text import PlainText, sentences_in

if TYPE_CHECKING:
    from torch import nn

    from fairseq_rnnsearch.commands.torch_networks import TorchNetworks

logger = logging.getLogger(__name__)


class Translator:
    """A trained model that takes and gives plain text; made by ``load``.

    Attributes:
        networks: the model, or the models of an ensemble.
        source_dictionary, target_dictionary: the words that the models know.
        source_text, target_text: each side's tokenisation.
        length_limit: the maximum length of a translation.
        name: what was loaded; an ensemble's models are separated by :.
        doubt_limits: beyond them, `Translation.doubt` names a reason.
    """

    def __init__(
        self,
        networks: "EngineNetworks | TorchNetworks | Sequence[nn.Module]",
        source_dictionary: Any,
        target_dictionary: Any,
        source_text: PlainText,
        target_text: PlainText,
        *,
        length_limit: LengthLimit = FAIRSEQ_LIMIT,
        name: str = "",
        validation: Mapping[str, float] | None = None,
    ) -> None:
        if isinstance(networks, Sequence):
            from fairseq_rnnsearch.commands.torch_networks import TorchNetworks

            networks = TorchNetworks(networks, source_dictionary, target_dictionary)
        self.networks = networks
        self.source_dictionary = source_dictionary
        self.target_dictionary = target_dictionary
        self.source_text = source_text.read_with(source_dictionary.symbols)
        self.target_text = target_text.read_with(target_dictionary.symbols)
        self.length_limit = length_limit
        self.name = name
        self.doubt_limits = Limits.of(source_dictionary, target_dictionary, validation or {})
        self._vocabularies = tuple(
            words_of(dictionary, text.language, text.has_pieces)
            for dictionary, text in (
                (source_dictionary, self.source_text),
                (target_dictionary, self.target_text),
            )
        )
        self._counter = TextCounter(*self._vocabularies)

    def __repr__(self) -> str:
        size = f"{self.networks.parameters():,} parameters"
        return f"Translator({self.name!r}, {' → '.join(self.languages)}, {size})"

    @property
    def models(self) -> "Sequence[nn.Module]":
        """The model, or the models of an ensemble, as modules of torch.

        Whoever gets them may change them: from then on they compute.
        """
        if isinstance(self.networks, EngineNetworks):
            self.networks = self.networks.as_modules()
        return self.networks.models

    @property
    def languages(self) -> tuple[str, str]:
        """The source's and the target's, such as ``("en", "fr")``."""
        return self.source_text.language, self.target_text.language

    @property
    def has_alignment(self) -> bool:
        """Whether a model of the ensemble has attention."""
        return self.networks.has_alignment

    def as_one_text(self) -> AbstractContextManager[None]:
        """Count unknown words over all calls in the block, and warn at its end.

        The calls are those of this thread or, under asyncio, of this task and of those that it
        starts. Otherwise each call counts as one text, and so does a block inside this one.
        Warnings go through ``logging``.
        """
        return self._counter.as_one_text()

    @overload
    def translate(
        self, sentences: str, beam: int = BEAM, **options: Unpack[SearchOptions]
    ) -> Translation: ...

    @overload
    def translate(
        self, sentences: Iterable[str], beam: int = BEAM, **options: Unpack[SearchOptions]
    ) -> list[Translation]: ...

    def translate(
        self,
        sentences: str | Iterable[str],
        beam: int = BEAM,
        *,
        lenpen: float = 1.0,
        forbid_unk: bool = False,
        authors_search: bool = False,
        replace_unk: bool = False,
        split_sentences: bool | None = None,
        attribution: bool = False,
        pieces: Pieces = "merge",
        batch_size: int = 32,
    ) -> Translation | list[Translation]:
        """Translate one sentence, or several.

        A sentence without words has an empty translation. `Translation.unknown` has the unknown
        words, pictures show each as ``<unk:word>``, and a warning counts them (see
        `as_one_text`).

        Args:
            sentences: plain text.
            beam: number of hypotheses to keep; 1 is greedy search.
            lenpen: above 1 prefers longer translations, as fairseq's option; from -10 to 10.
            forbid_unk: never generate the unknown word.
            authors_search: the authors' beam search instead of fairseq's.
            replace_unk: replace each ``<unk>`` by the source word with the largest weight.
            split_sentences: translate each sentence of a line separately, and join the results
                (default: if the model was trained on single sentences, as it may then translate
                only the first one of a line).
            attribution: also compute `Translation.mattered`: whether what the model looked at
                mattered. Not in bfloat16, which rounds off more than most effects are large.
            pieces: "merge" subword pieces into words in the result, or "keep" them.
            batch_size: number of sentences at a time.

        Returns:
            A translation for a string, a list for a list, in its order.

        Raises:
            UserError: if ``beam`` or ``lenpen`` is out of range, or for ``replace_unk`` without
                attention.
        """
        if beam < 1:
            raise UserError(f"beam {beam}: must be 1 or more")
        if not abs(lenpen) <= LARGEST_LENPEN:
            raise UserError(f"lenpen {lenpen}: must be from -{LARGEST_LENPEN} to {LARGEST_LENPEN}")
        if replace_unk and not self.has_alignment:
            raise UserError("replace_unk: the model has no attention, which tells what to copy")
        if split_sentences is None:
            split_sentences = self.source_text.single_sentences
        is_one, lines = isinstance(sentences, str), _listed(sentences)
        split = [sentences_in(line) if split_sentences else [line] for line in lines]
        sentences = [sentence for line in split for sentence in line]
        options = Options.for_dictionary(
            self.target_dictionary,
            beam,
            len_penalty=lenpen,
            unk_penalty=math.inf if forbid_unk else 0.0,
            max_len_a=self.length_limit.ratio,
            max_len_b=self.length_limit.margin,
        )
        search = partial(self.networks.search, options, authors_search)
        sources = [self.source_text.tokens(sentence) for sentence in sentences]
        self._counter.count(sources, [])
        numbers = [numbers_of(self.source_dictionary, tokens) for tokens in sources]
        beams = self._run(search, batch_size, numbers)
        best = [beam[0].words for beam in beams]
        effects = self._effects(attribution, batch_size, numbers, best)
        in_words = self._in_words(pieces, replace_unk)
        translations = []
        for sentence, tokens, beam, of_best in zip(sentences, sources, beams, effects, strict=True):
            # the authors' search drops unfinished hypotheses
            is_cut = not authors_search and self._is_cut(sentence, tokens, beam[0])
            translations.append(in_words.translated(sentence, tokens, beam, of_best, is_cut))
        parts = iter(translations)
        translations = [
            joined(line, list(islice(parts, len(several))))
            for line, several in zip(lines, split, strict=True)
        ]
        return translations[0] if is_one else translations

    @overload
    def align(self, source: str, target: str, **options: Unpack[ScoringOptions]) -> Translation: ...

    @overload
    def align(
        self, source: Iterable[str], target: Iterable[str], **options: Unpack[ScoringOptions]
    ) -> list[Translation]: ...

    def align(
        self,
        source: str | Iterable[str],
        target: str | Iterable[str],
        *,
        posterior: bool = False,
        attribution: bool = False,
        pieces: Pieces = "merge",
        batch_size: int = 32,
    ) -> Translation | list[Translation]:
        """Align given pairs: score each target as the translation of its source.

        A warning counts unknown words (see `as_one_text`).

        Args:
            source, target: two sentences, or two lists of as many.
            posterior: whether the weights take account of the target word itself, which attention
                did not know: better links, but not what the decoder has read. See
                ``decoding.engine_networks.scored``.
            attribution, pieces, batch_size: as for ``translate``.

        Raises:
            UserError: if the model has no attention, or the lists differ in length.
        """
        if not self.has_alignment:
            raise UserError(
                "align: the model has no attention; RNNencdec reads the source through one vector "
                "and has no alignment"
            )
        is_one = isinstance(source, str)
        source, target = _listed(source), _listed(target)
        if len(source) != len(target):
            raise UserError(
                f"align: {len(source)} source and {len(target)} target sentences, should be equal"
            )
        sources = [self.source_text.tokens(sentence) for sentence in source]
        targets = [self.target_text.tokens(sentence) for sentence in target]
        self._counter.count(sources, targets)
        numbers = (
            [numbers_of(self.source_dictionary, tokens) for tokens in sources],
            [numbers_of(self.target_dictionary, tokens) for tokens in targets],
        )
        score = partial(self.networks.score, posterior=posterior)
        scored = self._run(score, batch_size, *numbers)
        effects = self._effects(attribution, batch_size, *numbers)
        in_words = self._in_words(pieces, kind="posterior" if posterior else "attention")
        each = zip(source, target, sources, targets, scored, effects, strict=True)
        aligned = [in_words.translation(*one) for one in each]
        return aligned[0] if is_one else aligned

    def _in_words(self, pieces: Pieces, replaces: bool = False, kind: str = "") -> "_InWords":
        sides = (self.source_text, self.target_text), self._vocabularies
        merges = pieces == "merge"
        return _InWords(self.target_dictionary, *sides, self.doubt_limits, merges, replaces, kind)

    def _run(self, ask: Callable[..., list], batch_size: int, *sides: list[list[int]]) -> list:
        """Return the networks' answers for all sentences, those of similar length together."""
        order = sorted(range(len(sides[0])), key=lambda number: len(sides[0][number]))
        answers: list[Any] = [None] * len(order)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            found = ask(*([side[number] for number in rows] for side in sides))
            for number, answer in zip(rows, found, strict=True):
                answers[number] = answer
        return answers

    def _effects(
        self, attribution: bool, batch_size: int, sources: list[list[int]], targets: list[list[int]]
    ) -> list[NDArray[np.floating] | None]:
        """Return `Translation.mattered` of the pieces, where it is asked for."""
        if not attribution or not self.has_alignment:
            return [None] * len(sources)
        return self._run(self.networks.attribution, batch_size, sources, targets)

    def _is_cut(self, source: str, tokens: list[str], hypothesis: Hypothesis) -> bool:
        """Tell whether a translation has the maximum length, and warn."""
        longest = self.length_limit.of(len(tokens) + 1)
        is_cut = len(hypothesis.words) > longest
        if is_cut:
            logger.warning(
                "the translation of %r was cut after %s, the model's limit of length",
                as_text(source, LONGEST_SHOWN),
                pluralize(longest, "token"),
            )
        return is_cut


class _InWords(NamedTuple):
    """Puts the hypotheses of one call into words.

    It lives as long as one of them, and holds no model.
    """

    dictionary: Any
    texts: tuple[PlainText, PlainText]
    vocabularies: tuple[Vocabulary, Vocabulary]
    limits: Limits
    merges: bool
    replaces_unknown: bool
    kind: str

    def translated(
        self,
        source: str,
        source_tokens: list[str],
        beam: Sequence[Hypothesis],
        effects: NDArray[np.floating] | None = None,
        is_cut: bool = False,
    ) -> Translation:
        """Return the best hypothesis of a search, with the others."""
        best, *others = beam
        eos = self.dictionary.eos()
        tokens = [self.dictionary[word] for word in best.words if word != eos]
        if self.replaces_unknown and UNKNOWN in tokens:
            tokens = _without_unknown(tokens, source_tokens, best.weights, self.vocabularies[0])
        text, sizes = self.texts[1].text(tokens), (len(source_tokens), len(tokens))
        is_known = not unknown_words(source_tokens, self.vocabularies[0])
        bits = float(np.mean(best.log_p)) / math.log(2)
        doubt = doubt_of(source, text, sizes, is_known, bits, self.limits)
        sides = source, text, source_tokens, tokens
        return self.translation(*sides, best, effects, others, is_cut, doubt)

    def translation(
        self,
        source: str,
        text: str,
        source_tokens: list[str],
        tokens: list[str],
        hypothesis: Hypothesis,
        effects: NDArray[np.floating] | None,
        others: Sequence[Hypothesis] = (),
        is_cut: bool = False,
        doubt: str | None = None,
    ) -> Translation:
        """Return a hypothesis with both its sides."""

        def make_details() -> dict[str, Any]:
            each = tuple(self.translated(source, source_tokens, [one]) for one in others)
            sides = (source, text), (source_tokens, tokens)
            return self._details(*sides, hypothesis, effects) | {"others": each}

        score = hypothesis.score / math.log(2)
        known = {"source": source, "text": text, "score": score, "is_cut": is_cut, "doubt": doubt}
        return Translation.begun(known, make_details)

    def _details(
        self,
        lines: tuple[str, str],
        sides: tuple[list[str], list[str]],
        hypothesis: Hypothesis,
        effects: NDArray[np.floating] | None,
    ) -> dict[str, Any]:
        """Return what a translation has beside its texts, its score and the others."""
        from fairseq_rnnsearch.figures.alignment import END, Alignment, merged_words

        _, score, log_p, weights = hypothesis
        words = [(*side, END) for side in sides]
        known = tuple(text.line(*of) for text, *of in zip(self.texts, lines, sides, strict=True))
        alignment = Alignment(
            *((*side, END) for side in map(marked, sides, self.vocabularies)),
            np.zeros([len(side) for side in words[::-1]]) if weights is None else weights,
            score=score / math.log(2),
            probabilities=np.exp(log_p, dtype=float).tolist(),
            attribution=effects,
            lines=None if None in known else known,
            kind=self.kind,
        )
        if self.merges:
            has_pieces = [side.has_pieces for side in self.vocabularies]
            words = [merged_words(*side)[0] for side in zip(words, has_pieces, strict=True)]
            alignment = alignment.merge_pieces(has_pieces)
        return {
            "source_tokens": words[0],
            "tokens": words[1],
            "alignment": None if weights is None else alignment,
            "probabilities": alignment.probabilities,
            "unknown": unknown_words(sides[0], self.vocabularies[0]),
        }


def _without_unknown(
    tokens: list[str],
    source_tokens: list[str],
    weights: NDArray[np.floating],
    vocabulary: Vocabulary,
) -> list[str]:
    """Replace each unknown token by the source word with the largest weight."""
    words = list(vocabulary.words_in(source_tokens))
    first_pieces = np.cumsum([0, *map(len, words[:-1])])
    of_words = np.add.reduceat(weights[:, :-1], first_pieces, axis=1)
    looked_at = of_words.argmax(axis=1)[:-1]
    return replace_unknown(tokens, (vocabulary.word_of(words[i]) for i in looked_at))


def _listed(sentences: str | Iterable[str]) -> list[str]:
    return [sentences] if isinstance(sentences, str) else list(sentences)
