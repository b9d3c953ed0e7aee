"""A trained model that translates and aligns plain text; see ``loading``."""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any, Unpack, overload

import numpy as np
import torch
from torch.utils._pytree import tree_map_only

from fairseq_rnnsearch.checks import LARGEST_LENPEN, Pieces, ScoringOptions, SearchOptions
from fairseq_rnnsearch.commands.translation import LONGEST_SHOWN, Translation, joined
from fairseq_rnnsearch.decoding.batches import batch_of, numbers_of
from fairseq_rnnsearch.decoding.decode import decode, has_alignment
from fairseq_rnnsearch.decoding.length_limit import FAIRSEQ_LIMIT, LengthLimit
from fairseq_rnnsearch.decoding.search import AuthorsSearch, BeamSearch, Scorer
from fairseq_rnnsearch.errors import UserError, as_text, pluralize
from fairseq_rnnsearch.figures import Alignment
from fairseq_rnnsearch.figures.alignment import END, merged_words
from fairseq_rnnsearch.network import Decoder
from fairseq_rnnsearch.text.coverage import (
    UNKNOWN,
    TextCounter,
    marked,
    replace_unknown,
    unknown_words,
    word_of,
    words_in,
    words_of,
)
from fairseq_rnnsearch.text.plain_text import PlainText, sentences_in

logger = logging.getLogger(__name__)


class Translator:
    """A trained model that takes and gives plain text; made by ``load``.

    Attributes:
        models: the model, or the models of an ensemble.
        source_dictionary, target_dictionary: the words that the models know.
        source_text, target_text: each side's tokenisation.
        length_limit: the maximum length of a translation.
        name: what was loaded; an ensemble's models are separated by :.
    """

    def __init__(
        self,
        models: Sequence[torch.nn.Module],
        source_dictionary: Any,
        target_dictionary: Any,
        source_text: PlainText,
        target_text: PlainText,
        *,
        left_pad_source: bool = False,
        length_limit: LengthLimit = FAIRSEQ_LIMIT,
        name: str = "",
    ) -> None:
        self.models = list(models)
        for model in self.models:
            model.eval()
        self.source_dictionary = source_dictionary
        self.target_dictionary = target_dictionary
        self.source_text = source_text.read_with(source_dictionary.symbols)
        self.target_text = target_text.read_with(target_dictionary.symbols)
        self.length_limit = length_limit
        self.name = name
        self._left_pad_source = left_pad_source
        self._vocabularies = (
            words_of(source_dictionary, source_text.language),
            words_of(target_dictionary, target_text.language),
        )
        self._counter = TextCounter(*self._vocabularies)

    def __repr__(self) -> str:
        size = sum(values.numel() for model in self.models for values in model.parameters())
        return f"Translator({self.name!r}, {' → '.join(self.languages)}, {size:,} parameters)"

    @property
    def languages(self) -> tuple[str, str]:
        """The source's and the target's, such as ``("en", "fr")``."""
        return self.source_text.language, self.target_text.language

    @cached_property
    def has_alignment(self) -> bool:
        """Whether a model of the ensemble has attention."""
        return any(has_alignment(model) for model in self.models)

    def as_one_text(self) -> AbstractContextManager[None]:
        """Count unknown words over all calls in the block, and warn at its end.

        The calls are those of this thread or, under asyncio, of this task and of those that it
        starts. Otherwise each call counts as one text, and so does a block inside this one.
        Warnings go through ``logging``.
        """
        return self._counter.as_one_text()

    @overload
    def translate(
        self, sentences: str, beam: int = 12, **options: Unpack[SearchOptions]
    ) -> Translation: ...

    @overload
    def translate(
        self, sentences: Iterable[str], beam: int = 12, **options: Unpack[SearchOptions]
    ) -> list[Translation]: ...

    def translate(
        self,
        sentences: str | Iterable[str],
        beam: int = 12,
        *,
        lenpen: float = 1.0,
        forbid_unk: bool = False,
        authors_search: bool = False,
        replace_unk: bool = False,
        split_sentences: bool = False,
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
            split_sentences: translate each sentence of a line separately, and join the results:
                a model may translate only the first sentence of a line.
            attribution: also compute `Translation.mattered`: whether what the model looked at
                mattered. Load the model with ``compute_dtype="float32"``: most effects are
                smaller than what bfloat16 rounds off.
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
        is_one, lines = isinstance(sentences, str), _listed(sentences)
        split = [sentences_in(line) if split_sentences else [line] for line in lines]
        sentences = [sentence for line in split for sentence in line]
        search = _search_for(self.models, authors_search)(
            self.models,
            self.target_dictionary,
            beam_size=beam,
            len_penalty=lenpen,
            unk_penalty=math.inf if forbid_unk else 0,
            max_len_a=self.length_limit.ratio,
            max_len_b=self.length_limit.margin,
        )
        sources = [self.source_text.tokens(sentence) for sentence in sentences]
        self._counter.count(sources, [])
        beams = self._run(search, sources, None, batch_size)
        if attribution:
            self._attribute(beams, sources, batch_size)
        translations = [
            self._translated(*each, pieces, replace_unk)
            for each in zip(sentences, sources, beams, strict=True)
        ]
        if not authors_search:  # that search drops unfinished hypotheses
            translations = list(map(self._marked_if_cut, translations, sources, beams))
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
                ``network.forced_scoring.posterior``.
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
        scorer = Scorer(self.target_dictionary, posterior=posterior)
        beams = self._run(scorer, sources, targets, batch_size)
        if attribution:
            self._attribute(beams, sources, batch_size)
        aligned = [
            self._translation(*each, scored, pieces)
            for *each, (scored,) in zip(source, target, sources, targets, beams, strict=True)
        ]
        return aligned[0] if is_one else aligned

    @torch.inference_mode()
    def _run(
        self,
        generator: Any,
        sources: list[list[str]],
        targets: list[list[str]] | None,
        batch_size: int,
    ) -> list[list[dict]]:
        """Return each sentence's hypotheses, best first; calls share the models unchanged."""
        pad, eos = self.source_dictionary.pad(), self.target_dictionary.eos()
        beams: list[list[dict]] = [[]] * len(sources)
        for sample in self._batches(sources, targets, batch_size):
            hypotheses = decode(
                generator, self.models, sample, pad, eos, scores=targets is not None
            )
            for number, beam in zip(sample["id"].tolist(), hypotheses, strict=True):
                beams[number] = beam
        return beams

    @torch.inference_mode()
    def _attribute(
        self, beams: list[list[dict]], sources: list[list[str]], batch_size: int
    ) -> None:
        """Give each best hypothesis `Translation.mattered` of its tokens."""
        if not self.has_alignment:
            return
        pad = self.source_dictionary.pad()
        targets = [self._target_tokens(beam[0]) for beam in beams]
        for sample in self._batches(sources, targets, batch_size):
            words, target = sample["net_input"]["src_tokens"], sample["target"]
            previous = sample["net_input"]["prev_output_tokens"]
            log_p = torch.stack(
                [
                    model.decoder.leave_one_out(previous, model.encoder(words), target).double()
                    for model in self.models
                ]
            ).logsumexp(dim=0)  # up to a constant the logarithm of the models' mean
            effects = (log_p[..., :1] - log_p[..., 1:]).cpu()
            is_source = words.ne(pad).cpu()
            for row, number in enumerate(sample["id"].tolist()):
                attribution = effects[row, : len(targets[number]) + 1, is_source[row]]
                beams[number][0]["attribution"] = attribution.numpy()

    def _batches(
        self, sources: list[list[str]], targets: list[list[str]] | None, batch_size: int
    ) -> Iterator[dict]:
        """Yield sentences of similar length together."""
        sources = [numbers_of(self.source_dictionary, tokens) for tokens in sources]
        if targets is not None:
            targets = [numbers_of(self.target_dictionary, tokens) for tokens in targets]
        order = np.argsort([len(ids) for ids in sources], kind="stable").tolist()
        pad = self.source_dictionary.pad()
        device = next(self.models[0].parameters()).device  # a model may have been moved
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            of_rows = [side and [side[i] for i in rows] for side in (sources, targets)]
            batch = batch_of(rows, *of_rows, pad, left_pad_source=self._left_pad_source)
            yield tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), batch)

    def _target_tokens(self, hypothesis: dict) -> list[str]:
        dictionary = self.target_dictionary
        return [dictionary[i] for i in hypothesis["tokens"].tolist() if i != dictionary.eos()]

    def _translated(
        self,
        source: str,
        source_tokens: list[str],
        beam: list[dict],
        pieces: str,
        replace_unk: bool,
    ) -> Translation:
        """Return the best hypothesis, with the others."""
        translations = []
        for hypothesis in beam:
            tokens = self._target_tokens(hypothesis)
            if replace_unk:
                tokens = self._without_unknown(tokens, source_tokens, hypothesis["weights"])
            text = self.target_text.text(tokens)
            translations.append(
                self._translation(source, text, source_tokens, tokens, hypothesis, pieces)
            )
        return replace(translations[0], others=tuple(translations[1:]))

    def _without_unknown(
        self, tokens: list[str], source_tokens: list[str], weights: torch.Tensor
    ) -> list[str]:
        """Replace each unknown token by the source word with the largest weight."""
        if UNKNOWN not in tokens:
            return tokens
        words = list(words_in(source_tokens))
        first_pieces = np.cumsum([0, *map(len, words[:-1])])
        of_words = np.add.reduceat(weights[:, :-1].float().numpy(), first_pieces, axis=1)
        looked_at = of_words.argmax(axis=1)[:-1]
        return replace_unknown(tokens, (word_of(words[i]) for i in looked_at))

    def _marked_if_cut(
        self, translation: Translation, source_tokens: list[str], beam: list[dict]
    ) -> Translation:
        """Mark a translation of the maximum length as cut, and warn."""
        longest = self.length_limit.of(len(source_tokens) + 1)
        if len(beam[0]["tokens"]) <= longest:
            return translation
        logger.warning(
            "the translation of %r was cut after %s, the model's limit of length",
            as_text(translation.source, LONGEST_SHOWN),
            pluralize(longest, "token"),
        )
        return replace(translation, is_cut=True)

    def _translation(
        self,
        source: str,
        text: str,
        source_tokens: list[str],
        tokens: list[str],
        hypothesis: dict,
        pieces: str,
    ) -> Translation:
        weights, sides = hypothesis["weights"], (source_tokens, tokens)
        shape = len(tokens) + 1, len(source_tokens) + 1
        words = [(*side, END) for side in sides]
        alignment = Alignment(
            *((*side, END) for side in map(marked, sides, self._vocabularies)),
            np.zeros(shape) if weights is None else weights.float().numpy(),
            score=float(hypothesis["score"]) / math.log(2),
            probabilities=hypothesis["positional_scores"].double().exp().tolist(),
            attribution=hypothesis.get("attribution"),
        )
        if pieces == "merge":
            words = [merged_words(side)[0] for side in words]
            alignment = alignment.merge_pieces()
        return Translation(
            source,
            text,
            *words,
            alignment.score,
            None if weights is None else alignment,
            alignment.probabilities,
            unknown=unknown_words(source_tokens, self._vocabularies[0]),
        )


def _listed(sentences: str | Iterable[str]) -> list[str]:
    return [sentences] if isinstance(sentences, str) else list(sentences)


def _search_for(models: Sequence[torch.nn.Module], authors_search: bool) -> Any:
    """Return a search's class; models that offer no steps are fairseq's, as is their search."""
    if all(isinstance(model.decoder, Decoder) for model in models):
        return AuthorsSearch if authors_search else BeamSearch
    from fairseq_rnnsearch.plugin.generators import AuthorsSequenceGenerator, StepwiseGenerator

    return AuthorsSequenceGenerator if authors_search else StepwiseGenerator
