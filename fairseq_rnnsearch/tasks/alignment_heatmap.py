"""fairseq's translation task with the paper's batches, the authors' search and visible attention.

What it changes, each because fairseq would otherwise lose or shift something in silence, is
named at the method that changes it.
"""

import logging
import math
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np
import torch
from fairseq import utils
from fairseq.data import (
    Dictionary,
    FairseqDataset,
    LanguagePairDataset,
    data_utils,
    iterators,
)
from fairseq.dataclass import ChoiceEnum
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II
from torch import Tensor

from fairseq_rnnsearch.data.batch_order import paper_batches
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import Alignment, parse_formats, parse_samples, text_heatmap
from fairseq_rnnsearch.figures.alignment import SOURCE_END_CHOICES, bpe_piece
from fairseq_rnnsearch.search import AuthorsSequenceGenerator
from fairseq_rnnsearch.tasks.hypothesis_alignment import hypothesis_alignment, words_only
from fairseq_rnnsearch.tasks.hypothesis_gallery import HypothesisGallery
from fairseq_rnnsearch.tasks.interactive import InteractiveSession
from fairseq_rnnsearch.tasks.validation_alignments import ValidationAlignments

logger = logging.getLogger(__name__)

ANY_LENGTH = 1_000_000


@dataclass
class AlignmentHeatmapConfig(TranslationConfig):
    """Options beside those of ``--task translation``."""

    left_pad_source: bool = field(
        default=False, metadata={"help": "pad the source on the left; no result depends on it"}
    )
    max_source_positions: int = field(
        default=ANY_LENGTH, metadata={"help": "longest source sentence in tokens (paper: any)"}
    )
    max_target_positions: int = field(
        default=ANY_LENGTH, metadata={"help": "longest target sentence in tokens (paper: any)"}
    )
    rebuild_batches: bool = field(
        default=True,
        metadata={"help": "with --batch-order fairseq, batches of an epoch depend on the seed and "
                  "the epoch alone, so that a resumed run equals an unbroken one"},
    )  # fmt: skip
    batch_order: ChoiceEnum(["paper", "fairseq"]) = field(
        default="paper",
        metadata={"help": "training batches as in the paper's appendix B.2 (corpus shuffled once, "
                  "20 batches at a time sorted by length) or fairseq's own"},
    )  # fmt: skip
    max_train_words: Optional[int] = field(
        default=None,
        metadata={"help": "drop training pairs with a side of more words, end symbol not counted "
                  "(default: the architecture's, 30 or 50; 0: keep all)"},
    )  # fmt: skip
    authors_search: bool = field(
        default=False,
        metadata={"help": "the authors' beam search: each sentence limited by its own length, the "
                  "beam shrinking with every finished hypothesis (add --unnormalized for their "
                  "scores)"},
    )  # fmt: skip
    forbid_unk: bool = field(
        default=False, metadata={"help": "never generate the unknown word (paper's Table 1)"}
    )
    heatmap_dir: Optional[str] = field(
        default=None,
        metadata={"help": "draw alignments here: in training of validation sentences (default: "
                  "<save-dir>/heatmaps), in fairseq-generate and -interactive of translations "
                  "(default: none)"},
    )  # fmt: skip
    heatmap_samples: Optional[str] = field(
        default=None,
        metadata={"help": "which sentences: a number (the first N), all, or ids:3,17, from 0 "
                  "(default: 4 in training, all translations)"},
    )  # fmt: skip
    heatmap_format: str = field(
        default="png",
        metadata={"help": "of translations, any of png,pdf,svg (a picture a sentence), text, html "
                  "(one page), jsonl (weights), pharaoh (hard links)"},
    )  # fmt: skip
    heatmap_pieces: ChoiceEnum(["merge", "keep"]) = field(
        default="merge",
        metadata={"help": "subword pieces (@@): merged to words, summed over the source and "
                  "averaged over the target, or kept"},
    )  # fmt: skip
    heatmap_source_end: ChoiceEnum(list(SOURCE_END_CHOICES)) = field(
        default="keep",
        metadata={"help": "column of the source's end symbol: kept, because it is part of what the "
                  "model computed; dropped; or dropped and the other weights made to sum to one"},
    )  # fmt: skip
    heatmap_terminal: bool = field(
        default=False, metadata={"help": "fairseq-interactive: show each alignment in the terminal"}
    )
    save_dir: str = II("checkpoint.save_dir")


@register_task("alignment_heatmap", dataclass=AlignmentHeatmapConfig)
class AlignmentHeatmapTask(TranslationTask):
    """Translation, with soft alignments kept in view."""

    cfg: AlignmentHeatmapConfig

    def __init__(
        self, cfg: AlignmentHeatmapConfig, src_dict: Dictionary, tgt_dict: Dictionary
    ) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        if (cfg.max_train_words or 0) < 0:
            raise UserError(f"--max-train-words {cfg.max_train_words}: must be 0 (all) or more")
        self._formats = parse_formats(cfg.heatmap_format)
        self._is_drawn = parse_samples(cfg.heatmap_samples or "all")
        self.validation_alignments = ValidationAlignments(
            parse_samples(cfg.heatmap_samples or "4"), self._alignment_of_words
        )
        self._gallery: HypothesisGallery | None = None
        self._training_data: FairseqDataset | None = None
        self._print_alignment: str | None = None
        self._epoch = 0

    # dictionaries and data

    @classmethod
    def setup_task(cls, cfg: AlignmentHeatmapConfig, **kwargs) -> "AlignmentHeatmapTask":
        """Load the dictionaries.

        Raises:
            UserError: when there is no data folder, or no language pair in it.
        """
        folder = utils.split_paths(cfg.data or "")[0]
        if not os.path.isdir(folder):
            raise UserError(f"no data folder {folder!r}: make it with fairseq-preprocess")
        languages = (cfg.source_lang, cfg.target_lang)
        if None in languages:
            languages = data_utils.infer_language_pair(folder)
        if None in languages:
            raise UserError(
                f"no data named like train.en-fr.en.bin in {folder!r}: name the languages with "
                "--source-lang and --target-lang"
            )
        for language in languages:
            if not os.path.exists(os.path.join(folder, f"dict.{language}.txt")):
                raise UserError(f"no dictionary dict.{language}.txt in the data folder {folder!r}")
        return super().setup_task(cfg, **kwargs)

    @classmethod
    def build_dictionary(
        cls,
        filenames: Sequence[str],
        workers: int = 1,
        threshold: int = -1,
        nwords: int = -1,
        padding_factor: int = 1,
    ) -> Dictionary:
        """A shortlist of ``nwords`` words plus fairseq's four special symbols.

        fairseq counts the special symbols as words and fills the dictionary up to a multiple of
        eight with made-up words, which the output layer would then have to learn to avoid.
        """
        if nwords > 0:
            nwords += Dictionary().nspecial
        return super().build_dictionary(filenames, workers, threshold, nwords, padding_factor=1)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """As fairseq's, with one clear line for data that does not fit together."""
        try:
            super().load_dataset(split, epoch, combine, **kwargs)
        except (FileNotFoundError, ValueError, AssertionError) as problem:
            raise UserError(
                f"cannot load the {split!r} data in {self.cfg.data}: {problem}. Make the data "
                "again with fairseq-preprocess --user-dir ... --task alignment_heatmap"
            ) from problem
        if combine and split == self.cfg.train_subset:  # only training combines
            self._training_data = self.datasets[split]
        if not len(self.datasets[split]):
            raise UserError(f"the {split!r} data in {self.cfg.data} has no sentences")

    def build_dataset_for_inference(
        self, src_tokens: list[torch.Tensor], src_lengths: list[int], constraints=None
    ) -> LanguagePairDataset:
        """As fairseq's, which forgets ``--left-pad-source``."""
        return LanguagePairDataset(
            src_tokens,
            src_lengths,
            self.source_dictionary,
            tgt_dict=self.target_dictionary,
            left_pad_source=self.cfg.left_pad_source,
            constraints=constraints,
        )

    # batches

    def filter_indices_by_size(
        self,
        indices: np.ndarray,
        dataset: FairseqDataset,
        max_positions=None,
        ignore_invalid_inputs: bool = False,
    ) -> np.ndarray:
        """fairseq's filter, and ``--max-train-words`` for the training data."""
        indices = super().filter_indices_by_size(
            indices, dataset, max_positions, ignore_invalid_inputs
        )
        if dataset is not self._training_data or not self.cfg.max_train_words:
            return indices
        longest = np.maximum(*_words(dataset))[indices]
        kept = indices[longest <= self.cfg.max_train_words]
        logger.info(
            "%d of %d training pairs have at most %d words on either side; the others are dropped",
            len(kept),
            len(indices),
            self.cfg.max_train_words,
        )
        if not len(kept):
            raise UserError(
                f"no training pair has at most {self.cfg.max_train_words} words on either side: "
                "raise --max-train-words (0 keeps all)"
            )
        return kept

    def get_batch_iterator(
        self,
        dataset: FairseqDataset,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        max_positions=None,
        ignore_invalid_inputs: bool = False,
        required_batch_size_multiple: int = 1,
        seed: int = 1,
        num_shards: int = 1,
        shard_id: int = 0,
        num_workers: int = 0,
        epoch: int = 1,
        data_buffer_size: int = 0,
        **options,
    ) -> iterators.EpochBatchIterator:
        """Batches in which every sentence occurs.

        fairseq drops the end of a split whose size is no multiple of
        ``required_batch_size_multiple``, 8 by default; here that is always 1.
        """
        if dataset is not self._training_data or self.cfg.batch_order == "fairseq":
            if dataset not in self.datasets.values():
                options["disable_iterator_cache"] = True  # typed sentences would pile up in it
            return super().get_batch_iterator(
                dataset,
                max_tokens=max_tokens,
                max_sentences=max_sentences,
                max_positions=max_positions,
                ignore_invalid_inputs=ignore_invalid_inputs,
                required_batch_size_multiple=1,
                seed=seed,
                num_shards=num_shards,
                shard_id=shard_id,
                num_workers=num_workers,
                epoch=epoch,
                data_buffer_size=data_buffer_size,
                **options,
            )
        if max_sentences is None or max_tokens is not None:
            raise UserError(
                "the paper's batch order counts sentences: give --batch-size (paper: 80) and no "
                "--max-tokens, or choose --batch-order fairseq"
            )
        if dataset in self.dataset_to_epoch_iter:
            return self.dataset_to_epoch_iter[dataset]
        kept = self.filter_indices_by_size(
            np.arange(len(dataset)), dataset, max_positions, ignore_invalid_inputs
        )
        iterator = _InOrderIterator(
            dataset=dataset,
            collate_fn=dataset.collater,
            batch_sampler=paper_batches(*_words(dataset), max_sentences, seed, candidates=kept),
            seed=seed,
            num_shards=num_shards,
            shard_id=shard_id,
            num_workers=num_workers,
            epoch=epoch,
            buffer_size=data_buffer_size,
            skip_remainder_batch=options.get("skip_remainder_batch", False),
        )
        self.dataset_to_epoch_iter[dataset] = iterator
        return iterator

    # translation

    def build_generator(
        self,
        models: Sequence[torch.nn.Module],
        args: Namespace,
        seq_gen_cls: type | None = None,
        extra_gen_cls_kwargs: dict | None = None,
        **options,
    ) -> SequenceGenerator | SequenceScorer:
        """fairseq's generator or scorer, or the authors' search.

        Raises:
            UserError: when alignments are asked of a model that has none, or the authors' search
                is mixed with a search that is no beam search.
        """
        self._print_alignment = getattr(args, "print_alignment", None)
        translates = self._training_data is None  # and does not validate with --eval-bleu
        wants_alignment = (
            self._print_alignment
            or getattr(args, "replace_unk", None) is not None
            or (translates and (self.cfg.heatmap_dir or self.cfg.heatmap_terminal))
        )
        if wants_alignment and not any(_has_alignment(model) for model in models):
            raise UserError(
                "--print-alignment, --replace-unk and heatmaps need a model with attention; "
                "RNNencdec reads its source through one vector and has no alignment"
            )
        InteractiveSession.current()
        if translates and self.cfg.heatmap_dir and self._gallery is None:
            self._gallery = HypothesisGallery(Path(self.cfg.heatmap_dir), self._formats)
        if getattr(args, "score_reference", False):
            return SequenceScorer(self.target_dictionary)
        if seq_gen_cls is None and self.cfg.authors_search:
            for option in ("sampling", "match_source_len", "constraints"):
                if getattr(args, option, False):
                    raise UserError(
                        f"--authors-search is a beam search: drop --{option.replace('_', '-')}"
                    )
            seq_gen_cls = AuthorsSequenceGenerator
        generator = super().build_generator(
            models, args, seq_gen_cls or SequenceGenerator, extra_gen_cls_kwargs, **options
        )
        if self.cfg.forbid_unk:
            generator.unk_penalty = torch.inf
        return generator

    def inference_step(
        self, generator, models, sample: dict, prefix_tokens=None, constraints=None
    ) -> list[list[dict]]:
        """Translate or score one batch, with alignments that can be printed and looked up.

        Every hypothesis' ``attention`` is ``(source, target)``, padding included.
        """
        hypotheses = super().inference_step(
            generator, models, sample, prefix_tokens=prefix_tokens, constraints=constraints
        )
        session = InteractiveSession.current()
        ids = sample["id"].tolist() if "id" in sample else session.ids if session else None
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
                    self._print_alignment,
                )
                if rank == 0 and ids is not None:
                    self._show(ids[row], source, hypothesis)
        return hypotheses

    def _show(self, sentence: int, source: Tensor, hypothesis: dict) -> None:
        """Draw a best translation's alignment, where that is asked for."""
        is_drawn = self._gallery is not None and self._is_drawn(sentence)
        if not is_drawn and not self.cfg.heatmap_terminal:
            return
        alignment = self._alignment_of_words(
            sentence,
            source,
            hypothesis["tokens"],
            hypothesis["attention"].T,
            score=float(hypothesis["score"]) / math.log(2),
        )
        if is_drawn:
            self._gallery.add(alignment)
        session = InteractiveSession.current()
        if self.cfg.heatmap_terminal and session:
            columns = shutil.get_terminal_size().columns
            text = text_heatmap(alignment, columns, colour=sys.stdout.isatty())
            session.print_after_translation(sentence, text)

    def _alignment_of_words(
        self,
        sentence: int,
        source: Tensor,
        target: Tensor,
        weights: Tensor,
        score: float | None = None,
    ) -> Alignment:
        """Padded words and weights ``(target, source)`` as ``--heatmap-*`` ask for them."""
        source, target = source.cpu(), target.cpu()
        is_source, is_target = source.ne(self.src_dict.pad()), target.ne(self.tgt_dict.pad())
        alignment = Alignment(
            tuple(self.src_dict[word] for word in source[is_source]),
            tuple(self.tgt_dict[word] for word in target[is_target]),
            weights.cpu()[is_target][:, is_source].float().numpy(),
            sentence,
            score,
        )
        if self.cfg.heatmap_pieces == "merge":
            alignment = alignment.merge_pieces(bpe_piece)
        return alignment.with_source_end(str(self.cfg.heatmap_source_end))

    # validation alignments

    def begin_valid_epoch(self, epoch: int, model) -> None:
        """Remember the epoch, which names the folder of its heatmaps."""
        super().begin_valid_epoch(epoch, model)
        self._epoch = epoch
        self.validation_alignments.clear()

    def post_validate(self, model, stats: dict, agg) -> None:
        """Draw what the criterion has collected."""
        folder = Path(self.cfg.heatmap_dir or Path(self.cfg.save_dir) / "heatmaps")
        self.validation_alignments.draw(folder / f"epoch{self._epoch:03d}", stats["num_updates"])
        self.validation_alignments.clear()


class _InOrderIterator(iterators.EpochBatchIterator):
    """Batches in the same order in every epoch, also when resumed within one."""

    def _get_iterator_for_epoch(
        self, epoch: int, shuffle: bool, *args, **kwargs
    ) -> iterators.CountingIterator | None:
        return super()._get_iterator_for_epoch(epoch, False, *args, **kwargs)


def _words(dataset: LanguagePairDataset) -> tuple[np.ndarray, np.ndarray]:
    """Words of each source and target sentence, end symbols not counted."""
    return np.asarray(dataset.src_sizes) - 1, np.asarray(dataset.tgt_sizes) - 1


def _has_alignment(model: torch.nn.Module) -> bool:
    return getattr(model.decoder, "has_alignment", True)
