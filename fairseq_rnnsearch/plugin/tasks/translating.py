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

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.inference.decode import check_search, decode, has_alignment
from fairseq_rnnsearch.inference.search import AuthorsSequenceGenerator, StepwiseGenerator
from fairseq_rnnsearch.plugin.tasks.source_words import SourceWords
from fairseq_rnnsearch.plugin.tasks.training import TrainingConfig, TrainingTask
from fairseq_rnnsearch.runs.printed_alignment import printed_alignment


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
                check_search(model)
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

        Every hypothesis' ``attention`` is ``(source, target)``, padding included.
        """
        pad, eos = self.source_dictionary.pad(), self.target_dictionary.eos()
        found = decode(generator, models, sample, pad, eos, prefix_tokens, constraints)
        asked = getattr(generator, "print_alignment", None)
        is_typed = "id" not in sample  # by fairseq-interactive
        for hypothesis in (one for beam in found for one in beam):
            if hypothesis["weights"] is not None:
                weights = hypothesis["weights"]
                hypothesis["alignment"] = printed_alignment(weights, asked, is_typed)
        return found
