"""A trained model that translates and aligns plain text; see ``loading``."""

import html
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.align.tags import Line, Links, taken_out
from fairseq_rnnsearch.checks import BEAM, LARGEST_LENPEN, Pieces
from fairseq_rnnsearch.commands.doubt import Limits
from fairseq_rnnsearch.commands.in_words import InWords
from fairseq_rnnsearch.commands.translation import LONGEST_SHOWN, Translation, joined
from fairseq_rnnsearch.decoding.engine_networks import EngineNetworks, in_batches
from fairseq_rnnsearch.decoding.length_limit import FAIRSEQ_LIMIT, LengthLimit
from fairseq_rnnsearch.decoding.search import Options
from fairseq_rnnsearch.decoding.search.history import Hypothesis
from fairseq_rnnsearch.errors import UserError, as_text, pluralize
from fairseq_rnnsearch.text.coverage import TextCounter, words_of
from fairseq_rnnsearch.text.dictionary_file import numbers_of
from fairseq_rnnsearch.text.plain_text import PlainText, sentences_in

if TYPE_CHECKING:
    from torch import nn

    from fairseq_rnnsearch.commands.torch_networks import TorchNetworks

logger = logging.getLogger(__name__)


class ReadingOptions(TypedDict, total=False):
    """Keyword arguments of both ``Translator.translate`` and ``align``, for type checkers."""

    markup: bool
    inverse: "Translator | None"
    attribution: bool
    pieces: Pieces
    batch_size: int


class SearchOptions(ReadingOptions, total=False):
    """Keyword arguments of ``Translator.translate``."""

    lenpen: float
    forbid_unk: bool
    authors_search: bool
    replace_unk: bool
    split_sentences: bool | None


class ScoringOptions(ReadingOptions, total=False):
    """Keyword arguments of ``Translator.align``."""

    posterior: bool


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
        markup: bool = False,
        inverse: "Translator | None" = None,
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
            markup: translate what is between tags and placeholders, such as <b>, <br/>, {name} and
                %s, and give `Translation.markup`, where they are around the same words.
            inverse: a model of the other direction, with which they find more of these words.
            attribution: also compute `Translation.mattered`: whether what the model looked at
                mattered. Not in bfloat16, which rounds off more than most effects are large.
            pieces: "merge" subword pieces into words in the result, or "keep" them.
            batch_size: number of sentences at a time.

        Returns:
            A translation for a string, a list for a list, in its order.

        Raises:
            UserError: if ``beam`` or ``lenpen`` is out of range; for ``replace_unk`` or ``markup``
                without attention; for ``markup`` with tokens that cannot be found in a line.
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
        in_markup = [taken_out(line) for line in lines] if markup else []
        if markup:
            lines = [line.text for line in in_markup]
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
        beams = in_batches(search, batch_size, numbers)
        best = [beam[0].words for beam in beams]
        effects = self._effects(attribution, batch_size, numbers, best)
        in_words = self._in_words(pieces, replace_unk)
        translations = []
        for sentence, tokens, beam, of_best in zip(sentences, sources, beams, effects, strict=True):
            # the authors' search drops unfinished hypotheses
            is_cut = not authors_search and self._is_cut(sentence, tokens, beam[0])
            translations.append(in_words.translated(sentence, tokens, beam, of_best, is_cut))
        rest = iter(translations)
        parts = [list(islice(rest, len(several))) for several in split]
        translations = [joined(*one) for one in zip(lines, parts, strict=True)]
        if markup:
            self._mark_up(translations, in_markup, split, parts, inverse, batch_size)
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
        markup: bool = False,
        inverse: "Translator | None" = None,
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
            markup, inverse, attribution, pieces, batch_size: as for ``translate``; only the source
                has tags, both sides have placeholders, and `Translation.markup` is the target with
                these tags.

        Raises:
            UserError: if the model has no attention, or the lists differ in length; for ``markup``
                with tokens that cannot be found in a line.
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
        in_markup = [taken_out(line, placeholders=False) for line in source] if markup else []
        if markup:
            sides = zip(in_markup, target, strict=True)
            target = [html.unescape(text) if line.is_html else text for line, text in sides]
            source = [line.text for line in in_markup]
        aligned = self._align(
            source,
            target,
            counts=True,
            posterior=posterior,
            attribution=attribution,
            pieces=pieces,
            batch_size=batch_size,
        )
        if markup:
            sides = ([[one] for one in side] for side in (source, aligned))
            self._mark_up(aligned, in_markup, *sides, inverse, batch_size, has_links=posterior)
        return aligned[0] if is_one else aligned

    def _align(
        self,
        source: Sequence[str],
        target: Sequence[str],
        *,
        counts: bool = False,
        posterior: bool = True,
        attribution: bool = False,
        pieces: Pieces = "merge",
        batch_size: int = 32,
    ) -> list[Translation]:
        """Align pairs; unknown words are counted if they have not been."""
        sources = [self.source_text.tokens(sentence) for sentence in source]
        targets = [self.target_text.tokens(sentence) for sentence in target]
        if counts:
            self._counter.count(sources, targets)
        numbers = (
            [numbers_of(self.source_dictionary, tokens) for tokens in sources],
            [numbers_of(self.target_dictionary, tokens) for tokens in targets],
        )
        score = partial(self.networks.score, posterior=posterior)
        scored = in_batches(score, batch_size, *numbers)
        effects = self._effects(attribution, batch_size, *numbers)
        in_words = self._in_words(pieces, kind="posterior" if posterior else "attention")
        each = zip(source, target, sources, targets, scored, effects, strict=True)
        return [in_words.translation(*one) for one in each]

    def _mark_up(
        self,
        translations: Sequence[Translation],
        lines: Sequence[Line],
        sources: Sequence[Sequence[str]],
        parts: Sequence[Sequence[Translation]],
        inverse: "Translator | None",
        batch_size: int,
        has_links: bool = False,
    ) -> None:
        """Give each translation its `markup`, by posterior weights.

        Args:
            sources, parts: the sentences of each line, and their translations.
            has_links: whether the translations have these weights.
        """
        places = [place for place, line in enumerate(lines) if line.items]
        texts = [[part.text for part in several] for several in parts]
        sides = [[side[place] for place in places] for side in (sources, texts)]
        if has_links:
            directions = [[Links.of(translations[place].alignment) for place in places]]
        else:
            directions = [self._links(*sides, batch_size)]
        if inverse:
            directions.append([one.turned() for one in inverse._links(*sides[::-1], batch_size)])
        links = dict(zip(places, zip(*directions, strict=True), strict=True))
        for place, (line, one) in enumerate(zip(lines, translations, strict=True)):
            vars(one)["markup"] = line.put_back(one.text, *links.get(place, ()))

    def _links(
        self, sources: list[Sequence[str]], targets: list[Sequence[str]], batch_size: int
    ) -> list[Links]:
        """Return the posterior links of lines, of which each has several sentences."""
        aligned = iter(self._align([*chain(*sources)], [*chain(*targets)], batch_size=batch_size))
        return [
            Links.of(joined(" ".join(line), list(islice(aligned, len(line)))).alignment)
            for line in sources
        ]

    def _in_words(self, pieces: Pieces, replaces: bool = False, kind: str = "") -> InWords:
        sides = (self.source_text, self.target_text), self._vocabularies
        merges = pieces == "merge"
        return InWords(self.target_dictionary, *sides, self.doubt_limits, merges, replaces, kind)

    def _effects(
        self, attribution: bool, batch_size: int, sources: list[list[int]], targets: list[list[int]]
    ) -> list[NDArray[np.floating] | None]:
        """Return `Translation.mattered` of the pieces, where it is asked for."""
        if not attribution or not self.has_alignment:
            return [None] * len(sources)
        return in_batches(self.networks.attribution, batch_size, sources, targets)

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


def _listed(sentences: str | Iterable[str]) -> list[str]:
    return [sentences] if isinstance(sentences, str) else list(sentences)
