"""The translation task, with attention that can be seen."""

import math
import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.distributed.utils import get_global_rank
from fairseq.logging.progress_bar import SummaryWriter
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task
from omegaconf import II
from torch import Tensor

from fairseq_rnnsearch.alignment.figures import Alignment, parse_formats, parse_samples
from fairseq_rnnsearch.alignment.figures.alignment import SOURCE_END_CHOICES, bpe_piece
from fairseq_rnnsearch.alignment.figures.late_gallery import LateGallery
from fairseq_rnnsearch.alignment.figures.series import Series
from fairseq_rnnsearch.alignment.figures.styles import STYLES, Look, title_of
from fairseq_rnnsearch.errors import training_goes_on
from fairseq_rnnsearch.plugin.tasks.translating import TranslatingConfig, TranslatingTask
from fairseq_rnnsearch.plugin.tasks.validation_alignments import ValidationAlignments
from fairseq_rnnsearch.runs.programs import at_the_end


@dataclass
class AlignmentHeatmapConfig(TranslatingConfig):
    """Options of what is shown, beside those of translation."""

    heatmap_dir: Optional[str] = field(
        default=None,
        metadata={"help": "draw alignments here: in training of validation sentences (default: "
                  "<save-dir>/heatmaps), in fairseq-generate of translations (default: none)"},
    )  # fmt: skip
    heatmap_samples: Optional[str] = field(
        default=None,
        metadata={"help": "which sentences: a number (the first N), all, or ids:3,17, from 0 "
                  "(default: 4 in training, all translations)"},
    )  # fmt: skip
    heatmap_format: str = field(
        default="png",
        metadata={"help": "any of png,pdf,svg (a picture a sentence), text, html "
                  "(one page), jsonl (weights), pharaoh (hard links); in training png makes a "
                  "series and an animation"},
    )  # fmt: skip
    heatmap_style: ChoiceEnum(list(STYLES)) = field(
        default="paper",
        metadata={"help": "of pictures and the page: paper (white on black, as in Figure 3), "
                  "inverted (black on white, for print), slides (black on white, large)"},
    )  # fmt: skip
    heatmap_title: Optional[str] = field(
        default=None,
        metadata={"help": "title of the page (default: the data's name and languages)"},
    )
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
    heatmap_keep: int = field(
        default=50,
        metadata={"help": "validations whose pictures are kept in training; older ones are thinned "
                  "out evenly (0: all are kept)"},
    )  # fmt: skip
    save_dir: str = II("checkpoint.save_dir")
    path: Optional[str] = II("common_eval.path")
    tensorboard_logdir: Optional[str] = II("common.tensorboard_logdir")


@register_task("alignment_heatmap", dataclass=AlignmentHeatmapConfig)
class AlignmentHeatmapTask(TranslatingTask):
    """Translation, with soft alignments kept in view."""

    cfg: AlignmentHeatmapConfig

    def __init__(
        self, cfg: AlignmentHeatmapConfig, src_dict: Dictionary, tgt_dict: Dictionary
    ) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self._formats = parse_formats(cfg.heatmap_format)
        self._samples = parse_samples(cfg.heatmap_samples or "all")
        self._validation_alignments = ValidationAlignments(
            parse_samples(cfg.heatmap_samples or "4"), self._alignment_of_words
        )
        self._series = Series(
            Path(cfg.heatmap_dir or Path(cfg.save_dir) / "heatmaps"),
            self._formats,
            cfg.heatmap_keep,
            Path(cfg.save_dir) if cfg.heatmap_dir else None,
            self._look(["validation"]),
        )
        self._gallery: LateGallery | None = None
        self._epoch = 0

    def _look(self, texts: Sequence[str]) -> Look:
        """Return how alignments of these texts look, and what their page says of itself."""
        languages = self.cfg.source_lang, self.cfg.target_lang
        title = self.cfg.heatmap_title or title_of(languages, texts)
        return Look(str(self.cfg.heatmap_style), title, self.cfg.path or "")

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load as any parallel data, and check that the chosen samples exist."""
        super().load_dataset(split, epoch, combine, **kwargs)
        if not combine:  # only training combines
            self._samples.check(len(self.datasets[split]), f"the {split!r} data")

    # translations

    def build_generator(
        self, models: Sequence[torch.nn.Module], args: Namespace, *given, **options
    ) -> SequenceGenerator | SequenceScorer:
        """Build as for any translation, and make ready to draw what it finds."""
        generator = super().build_generator(models, args, *given, **options)
        if self._translates and self.cfg.heatmap_dir and self._gallery is None:
            self._gallery = LateGallery(
                Path(self.cfg.heatmap_dir), self._formats, self._look(list(self.datasets))
            )
            at_the_end(self._gallery.finish)
        return generator

    def _needs_alignment(self, args: Namespace) -> bool:
        draws = self._translates and self.cfg.heatmap_dir
        return super()._needs_alignment(args) or bool(draws)

    def inference_step(self, generator, models, sample: dict, *given, **options) -> list:
        """Translate or score one batch, and keep the best alignments to be drawn at the end."""
        found = super().inference_step(generator, models, sample, *given, **options)
        if self._gallery is not None and "id" in sample:
            rows = zip(sample["id"].tolist(), sample["net_input"]["src_tokens"], strict=True)
            for (sentence, source), (best, *_) in zip(rows, found, strict=True):
                if sentence in self._samples and best["attention"] is not None:
                    self._gallery.add(self._alignment_of_hypothesis(sentence, source, best))
        return found

    def _alignment_of_hypothesis(
        self, sentence: int, source: Tensor, hypothesis: dict
    ) -> Alignment:
        return self._alignment_of_words(
            sentence,
            source,
            hypothesis["tokens"],
            hypothesis["attention"].T,
            score=float(hypothesis["score"]) / math.log(2),
            probabilities=hypothesis["positional_scores"].double().exp().tolist(),
        )

    def _alignment_of_words(
        self,
        sentence: int,
        source: Tensor,
        target: Tensor,
        weights: Tensor,
        score: float | None = None,
        probabilities: Sequence[float] | None = None,
    ) -> Alignment:
        """Return padded words and weights ``(target, source)`` as ``--heatmap-*`` ask for them."""
        source, target = source.cpu(), target.cpu()
        is_source, is_target = source.ne(self.src_dict.pad()), target.ne(self.tgt_dict.pad())
        alignment = Alignment(
            self._words.labels(sentence, source[is_source], self.datasets),
            tuple(self.tgt_dict[word] for word in target[is_target]),
            weights.cpu()[is_target][:, is_source].float().numpy(),
            sentence,
            score,
            probabilities,
        )
        if self.cfg.heatmap_pieces == "merge":
            alignment = alignment.merge_pieces(bpe_piece)
        return alignment.with_source_end(str(self.cfg.heatmap_source_end))

    # validation alignments

    def collect_alignments(
        self, ids: Tensor, source: Tensor, target: Tensor, attention: Tensor
    ) -> None:
        """Keep what is to be drawn of a batch, see ``runs.trainer.AlignmentTask``."""
        self._validation_alignments.collect(ids, source, target, attention)

    def begin_valid_epoch(self, epoch: int, model) -> None:
        """Remember the epoch, which names the folder of its heatmaps."""
        super().begin_valid_epoch(epoch, model)
        self._epoch = epoch
        self._validation_alignments.clear()

    def post_validate(self, model, stats: dict, agg) -> None:
        """Draw what the criterion has collected; the first process draws for all.

        Whatever goes wrong with that is a warning, and the others do not wait for it.
        """
        alignments = self._validation_alignments.take()
        if not alignments or get_global_rank() != 0:
            return
        pictures = {}
        with training_goes_on("heatmaps"):
            pictures = self._series.add(self._epoch, stats["num_updates"], alignments)
        if pictures and self.cfg.tensorboard_logdir and SummaryWriter is not None:
            with training_goes_on("TensorBoard"):
                self._to_tensorboard(pictures, stats["num_updates"])

    def _to_tensorboard(self, pictures: dict[int, Path], update: int) -> None:
        from PIL import Image

        with SummaryWriter(os.path.join(self.cfg.tensorboard_logdir, "alignments")) as writer:
            for sentence, path in pictures.items():
                with Image.open(path) as picture:
                    dots = np.asarray(picture.convert("L"))[None]
                writer.add_image(f"alignment/valid{sentence:04d}", dots, update)
