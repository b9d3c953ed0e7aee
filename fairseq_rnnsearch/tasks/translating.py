"""Translation of every sentence: without words, of unknown words, of any length."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

from fairseq_rnnsearch.compat.interactive import current_session
from fairseq_rnnsearch.contracts import ShowsAlignment, TakesSteps
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.search import AuthorsSequenceGenerator, StepwiseGenerator
from fairseq_rnnsearch.tasks.batches import naming_the_batch, rows_of
from fairseq_rnnsearch.tasks.hypothesis_alignment import (
    empty_hypothesis,
    hypothesis_alignment,
    words_only,
)
from fairseq_rnnsearch.tasks.source_words import SourceWords
from fairseq_rnnsearch.tasks.training import TrainingConfig, TrainingTask


@dataclass
class TranslatingConfig(TrainingConfig):
    """Options of search, beside those of training."""

    authors_search: bool = field(
        default=False,
        metadata={"help": "the authors' beam search: each sentence limited by its own length, the "
                  "beam shrinking with every finished hypothesis (add --unnormalized for their "
                  "scores)"},
    )  # fmt: skip
    forbid_unk: bool = field(
        default=False, metadata={"help": "never generate the unknown word (paper's Table 1)"}
    )


class TranslatingTask(TrainingTask):
    """Translation by fairseq's search or the authors', with alignments that can be looked up."""

    cfg: TranslatingConfig

    def __init__(self, cfg: TranslatingConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self._words = SourceWords(
            (src_dict, tgt_dict),
            (cfg.source_lang, cfg.target_lang),
            Path(utils.split_paths(cfg.data or "")[0]),
        )

    def build_generator(
        self,
        models: Sequence[torch.nn.Module],
        args: Namespace,
        seq_gen_cls: type | None = None,
        extra_gen_cls_kwargs: dict | None = None,
        **options,
    ) -> SequenceGenerator | SequenceScorer:
        """Build fairseq's generator or scorer, or the authors' search.

        Raises:
            UserError: when alignments are asked of a model that has none, the authors' search is
                mixed with a search that is no beam search, or a model cannot search.
        """
        if self._needs_alignment(args) and not any(has_alignment(model) for model in models):
            raise UserError(
                "--print-alignment, --replace-unk and heatmaps need a model with attention; "
                "RNNencdec reads its source through one vector and has no alignment"
            )
        if getattr(args, "score_reference", False):
            generator = (seq_gen_cls or SequenceScorer)(self.target_dictionary)
        else:
            if seq_gen_cls is None and self.cfg.authors_search:
                for option in ("sampling", "match_source_len", "constraints"):
                    if getattr(args, option, False):
                        raise UserError(
                            f"--authors-search is a beam search: drop --{option.replace('_', '-')}"
                        )
                seq_gen_cls = AuthorsSequenceGenerator
            for model in models:
                if isinstance(model.decoder, TakesSteps):
                    model.decoder.check_search()
            generator = super().build_generator(
                models, args, seq_gen_cls or StepwiseGenerator, extra_gen_cls_kwargs, **options
            )
            if self.cfg.forbid_unk:
                generator.unk_penalty = torch.inf
        # the generator belongs to one caller, the task perhaps to several
        generator.print_alignment = getattr(args, "print_alignment", None)
        return self._checked(generator) if self._translates else generator

    @property
    def _translates(self) -> bool:
        return self._training_data is None  # else it validates with --eval-bleu

    def _needs_alignment(self, args: Namespace) -> bool:
        """Tell whether something is asked for that only a model with attention has."""
        prints = bool(getattr(args, "print_alignment", None))
        return prints or getattr(args, "replace_unk", None) is not None

    def _checked(
        self, generator: SequenceGenerator | SequenceScorer
    ) -> SequenceGenerator | SequenceScorer:
        """Return the generator, after a warning when the data has many unknown words."""
        scores = isinstance(generator, SequenceScorer)
        self._words.count_data(self.datasets.values(), with_target=scores)
        return generator

    def inference_step(
        self, generator, models, sample: dict, prefix_tokens=None, constraints=None
    ) -> list[list[dict]]:
        """Translate or score one batch, with alignments that can be printed and looked up.

        Every hypothesis' ``attention`` is ``(source, target)``, padding included. A sentence
        without words has a translation without words, and is not searched for one.
        """
        session = current_session()
        if session and "id" not in sample:
            sample = {**sample, "id": torch.tensor(list(session.sentences))}
            self._words.count_typed(session)
        words = sample["net_input"]["src_tokens"]
        blank = words.ne(self.source_dictionary.pad()).sum(dim=1) <= 1  # the end symbol alone
        is_searched = not isinstance(generator, SequenceScorer) and prefix_tokens is None
        if is_searched and blank.any():
            return self._without_blanks(generator, models, sample, constraints, blank)
        with naming_the_batch(sample):
            hypotheses = super().inference_step(
                generator, models, sample, prefix_tokens=prefix_tokens, constraints=constraints
            )
        ids = sample["id"].tolist() if "id" in sample else None
        for row, beam in enumerate(hypotheses):
            source = sample["net_input"]["src_tokens"][row]
            for rank, hypothesis in enumerate(beam):
                attention = hypothesis["attention"]
                if attention is None or not attention.numel():
                    continue
                if isinstance(generator, SequenceScorer):
                    attention = attention[: len(hypothesis["tokens"])].T
                    hypothesis["attention"] = attention
                hypothesis["alignment"] = hypothesis_alignment(
                    words_only(attention, source, self.source_dictionary.pad()),
                    getattr(generator, "print_alignment", None),
                )
                if rank == 0 and ids is not None:
                    self._show(ids[row], source, hypothesis)
        return hypotheses

    def _without_blanks(
        self, generator, models, sample: dict, constraints: Tensor | None, blank: Tensor
    ) -> list[list[dict]]:
        """Translate the rows that have words; the others' best translation is the end symbol."""
        found: list[list[dict]] = []
        rows = blank.logical_not().nonzero().flatten()
        if len(rows):
            part = rows_of(sample, rows, self.source_dictionary.pad())
            given = None if constraints is None else constraints[rows]
            found = self.inference_step(generator, models, part, constraints=given)
        translations, printed = iter(found), getattr(generator, "print_alignment", None)
        attends = any(has_alignment(model) for model in models)
        pad, eos = self.source_dictionary.pad(), self.target_dictionary.eos()
        hypotheses = []
        for row, is_blank in enumerate(blank.tolist()):
            source = sample["net_input"]["src_tokens"][row]
            if not is_blank:
                hypotheses.append(next(translations))
                continue
            nothing = empty_hypothesis(source.ne(pad), eos, printed, attends)
            if attends and "id" in sample:
                self._show(int(sample["id"][row]), source, nothing)
            hypotheses.append([nothing])
        return hypotheses

    def _show(self, sentence: int, source: Tensor, hypothesis: dict) -> None:
        """Take a sentence's best translation, and how it is aligned with the padded source."""


def has_alignment(model: torch.nn.Module) -> bool:
    """Tell whether a model has attention; fairseq's own do not say it and are taken to."""
    return model.decoder.has_alignment if isinstance(model.decoder, ShowsAlignment) else True
