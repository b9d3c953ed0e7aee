"""Drawings of validation and translation alignments, controlled by ``--heatmap-*``."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.distributed.utils import get_global_rank
from fairseq.logging.progress_bar import SummaryWriter
from torch import Tensor

from fairseq_rnnsearch.errors import warn_and_continue
from fairseq_rnnsearch.figures import Alignment, parse_formats, parse_samples
from fairseq_rnnsearch.figures.gallery import write_gallery
from fairseq_rnnsearch.figures.pictures import Look, title_of
from fairseq_rnnsearch.figures.series import Series
from fairseq_rnnsearch.plugin.source_words import SourceWords
from fairseq_rnnsearch.plugin.task_options import AlignmentHeatmapConfig
from fairseq_rnnsearch.runs.programs import at_the_end


class Heatmaps:
    """Draws validation sentences' alignments during training, and translations' at the end.

    Args:
        cfg: the task's options.
        dictionaries: for the source and the target.
        words: names the words of a source sentence.
        datasets: the task's data, by subset name.

    Raises:
        UserError: if a value of ``--heatmap-*`` is invalid.
    """

    def __init__(
        self,
        cfg: AlignmentHeatmapConfig,
        dictionaries: Sequence[Dictionary],
        words: SourceWords,
        datasets: Mapping[str, FairseqDataset],
    ) -> None:
        self._cfg, self._dictionaries = cfg, dictionaries
        self._words, self._datasets = words, datasets
        self._formats = parse_formats(cfg.heatmap_format)
        self._samples = parse_samples(cfg.heatmap_samples or "all")
        self._validation_samples = parse_samples(cfg.heatmap_samples or "4")
        self._validated: dict[int, Alignment] = {}
        self._series = Series(
            Path(cfg.heatmap_dir or Path(cfg.save_dir) / "heatmaps"),
            self._formats,
            self._look(["validation"]),
        )
        self._series_of_subsets: dict[str, Series] = {}
        self._translations: list[Alignment] | None = None
        self._epoch, self._subset = 0, ""

    def _look(self, texts: Sequence[str]) -> Look:
        """Return the look of these texts' alignments, and the title and notes of their page."""
        title = title_of((self._cfg.source_lang, self._cfg.target_lang), texts)
        return Look(str(self._cfg.heatmap_style), title, self._cfg.path or "")

    def _alignment(
        self,
        sentence: int,
        source: Tensor,
        target: Tensor,
        weights: Tensor,
        score: float | None = None,
        probabilities: Sequence[float] | None = None,
    ) -> Alignment:
        """Turn padded words and weights ``(target, source)`` into what the options ask for."""
        source_words, target_words = self._dictionaries
        source, target = source.cpu(), target.cpu()
        is_source, is_target = source.ne(source_words.pad()), target.ne(target_words.pad())
        alignment = Alignment(
            self._words.labels(sentence, source[is_source], self._datasets),
            tuple(target_words[word] for word in target[is_target]),
            weights.cpu()[is_target][:, is_source].float().numpy(),
            sentence + 1,
            score,
            probabilities,
        )
        if self._cfg.heatmap_pieces == "merge":
            alignment = alignment.merge_pieces(self._words.has_pieces)
        return alignment.with_source_end(str(self._cfg.heatmap_source_end))

    # translations

    def begin_translations(self) -> None:
        """Prepare the folder ``--heatmap-dir``, if given, for drawings of translations.

        They are drawn when the command ends: drawing during the search would slow it, and batches
        do not come in sentence order.
        """
        if self._datasets and self._cfg.heatmap_dir and self._translations is None:
            Path(self._cfg.heatmap_dir).mkdir(parents=True, exist_ok=True)
            self._translations = []
            at_the_end(self._draw_translations)

    def _draw_translations(self) -> None:
        if self._translations:
            look = self._look(list(self._datasets))
            folder = Path(self._cfg.heatmap_dir)
            drawn = folder, self._translations, self._formats, look
            write_gallery(*drawn, progress=True, replaces=True)
            self._translations = []

    def add_translations(self, sample: dict, hypotheses: Sequence[Sequence[dict]]) -> None:
        """Keep the best hypothesis of each chosen sentence in a batch, to draw it later."""
        if self._translations is None:
            return
        rows = zip(sample["id"].tolist(), sample["net_input"]["src_tokens"], strict=True)
        for (sentence, source), (best, *_) in zip(rows, hypotheses, strict=True):
            if sentence + 1 in self._samples and best["attention"] is not None:
                self._translations.append(
                    self._alignment(
                        sentence,
                        source,
                        best["tokens"],
                        best["attention"].T,
                        score=float(best["score"]) / math.log(2),
                        probabilities=best["positional_scores"].double().exp().tolist(),
                    )
                )

    # validations

    def begin_validation(self, epoch: int) -> None:
        """Forget the last validation's alignments; the epoch names the folder."""
        self._epoch = epoch
        self._validated = {}

    def begin_subset(self, dataset: FairseqDataset) -> None:
        """Note which data set the next batches come from."""
        self._subset = next((name for name, one in self._datasets.items() if one is dataset), "")

    def collect(self, ids: Tensor, source: Tensor, target: Tensor, attention: Tensor) -> None:
        """Keep a batch's alignments to draw, see ``runs.trainer.AlignmentTask``."""
        for row, sentence in enumerate(ids.tolist()):
            if sentence + 1 in self._validation_samples:
                with warn_and_continue("heatmaps"):
                    self._validated[sentence] = self._alignment(
                        sentence, source[row], target[row], attention[row]
                    )

    def draw_validation(self, update: int) -> None:
        """Draw the collected alignments; the first process draws for all.

        Any failure is only a warning, and the other processes do not wait.
        """
        collected, self._validated = self._validated, {}
        if torch.distributed.is_initialized():
            of_all = [{}] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(of_all, collected)
            collected = {number: shown for one in of_all for number, shown in one.items()}
        if not collected or get_global_rank() != 0:
            return
        alignments = [collected[number] for number in sorted(collected)]
        # each validation set after the first has its own folder
        folder = self._series.folder / (self._subset if self._series_of_subsets else "")
        series = self._series_of_subsets.setdefault(
            self._subset, replace(self._series, folder=folder)
        )
        pictures = {}
        with warn_and_continue("heatmaps"):
            pictures = series.add(self._epoch, update, alignments)
        if pictures and self._cfg.tensorboard_logdir and SummaryWriter is not None:
            with warn_and_continue("TensorBoard"):
                self._to_tensorboard(pictures, update)

    def _to_tensorboard(self, pictures: dict[int, Path], update: int) -> None:
        from PIL import Image

        with SummaryWriter(os.path.join(self._cfg.tensorboard_logdir, "alignments")) as writer:
            for sentence, path in pictures.items():
                with Image.open(path) as picture:
                    dots = np.asarray(picture.convert("L"))[None]
                folder = path.parent.parent.relative_to(self._series.folder)  # of later subsets
                tag = Path("alignment") / folder / f"sentence{sentence:04d}"
                writer.add_image(str(tag), dots, update)
