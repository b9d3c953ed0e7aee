"""fairseq's translation task with the authors' search and visible attention."""

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
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.distributed.utils import get_global_rank
from fairseq.logging.progress_bar import SummaryWriter
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task
from omegaconf import II
from torch import Tensor

from fairseq_rnnsearch.compat.interactive import current_session
from fairseq_rnnsearch.compat.programs import at_the_end
from fairseq_rnnsearch.contracts import CollectsAlignments, ShowsAlignment, TakesSteps
from fairseq_rnnsearch.errors import UserError, training_goes_on
from fairseq_rnnsearch.figures import Alignment, parse_formats, parse_samples, text_heatmap
from fairseq_rnnsearch.figures.alignment import SOURCE_END_CHOICES, bpe_piece
from fairseq_rnnsearch.figures.late_gallery import LateGallery
from fairseq_rnnsearch.figures.series import Series
from fairseq_rnnsearch.figures.styles import STYLES, Look, title_of
from fairseq_rnnsearch.search import AuthorsSequenceGenerator, StepwiseGenerator
from fairseq_rnnsearch.tasks.hypothesis_alignment import (
    empty_hypothesis,
    hypothesis_alignment,
    words_only,
)
from fairseq_rnnsearch.tasks.memory_limit import rows_of, search_memory, target_positions
from fairseq_rnnsearch.tasks.parallel_data import ParallelDataConfig, ParallelDataTask
from fairseq_rnnsearch.tasks.source_words import SourceWords
from fairseq_rnnsearch.tasks.validation_alignments import ValidationAlignments


@dataclass
class AlignmentHeatmapConfig(ParallelDataConfig):
    """Options of search and of what is shown, beside those of the data."""

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
    heatmap_terminal: bool = field(
        default=False, metadata={"help": "fairseq-interactive: show each alignment in the terminal"}
    )
    heatmap_keep: int = field(
        default=50,
        metadata={"help": "validations whose pictures are kept in training; older ones are thinned "
                  "out evenly (0: all are kept)"},
    )  # fmt: skip
    save_dir: str = II("checkpoint.save_dir")
    path: Optional[str] = II("common_eval.path")
    tensorboard_logdir: Optional[str] = II("common.tensorboard_logdir")


@register_task("alignment_heatmap", dataclass=AlignmentHeatmapConfig)
class AlignmentHeatmapTask(ParallelDataTask, CollectsAlignments):
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
        self._words = SourceWords(
            (src_dict, tgt_dict),
            (cfg.source_lang, cfg.target_lang),
            Path(utils.split_paths(cfg.data or "")[0]),
        )
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

    # translation

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
        print_alignment = getattr(args, "print_alignment", None)
        translates = self._training_data is None  # and does not validate with --eval-bleu
        wants_alignment = (
            print_alignment
            or getattr(args, "replace_unk", None) is not None
            or (translates and (self.cfg.heatmap_dir or self.cfg.heatmap_terminal))
        )
        if wants_alignment and not any(has_alignment(model) for model in models):
            raise UserError(
                "--print-alignment, --replace-unk and heatmaps need a model with attention; "
                "RNNencdec reads its source through one vector and has no alignment"
            )
        if translates and self.cfg.heatmap_dir and self._gallery is None:
            self._gallery = LateGallery(
                Path(self.cfg.heatmap_dir), self._formats, self._look(list(self.datasets))
            )
            at_the_end(self._gallery.finish)
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
        generator.print_alignment = print_alignment
        return self._checked(generator, models) if translates else generator

    def _checked(
        self, generator: SequenceGenerator | SequenceScorer, models: Sequence[torch.nn.Module]
    ) -> SequenceGenerator | SequenceScorer:
        """Return the generator, after a check that it can translate each sentence of the data.

        A warning tells when it knows few of their words.

        Raises:
            UserError: as ``MemoryLimit.check``.
        """
        scores = isinstance(generator, SequenceScorer)
        self._words.count_data(self.datasets.values(), with_target=scores)
        memory = search_memory(generator, models)
        for split, dataset in self.datasets.items() if memory else ():
            source, target = np.asarray(dataset.src_sizes), dataset.tgt_sizes
            target = target_positions(generator, source, target)
            device = next(models[0].parameters()).device
            self.memory_limit.check(memory, device, source, target, split)
        return generator

    def inference_step(
        self, generator, models, sample: dict, prefix_tokens=None, constraints=None
    ) -> list[list[dict]]:
        """Translate or score one batch, with alignments that can be printed and looked up.

        Every hypothesis' ``attention`` is ``(source, target)``, padding included. What would take
        much memory is translated in parts. A sentence without words has a translation without
        words, and is not searched for one.

        Raises:
            UserError: for a sentence that alone takes more than ``--max-batch-memory``.
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
        parts = self._search_parts(generator, models, sample)
        if len(parts) > 1:
            padding, hypotheses = self.source_dictionary.pad(), []
            for rows in parts:
                given = (x if x is None else x[rows] for x in (prefix_tokens, constraints))
                part = rows_of(sample, rows, padding)
                hypotheses += self.inference_step(generator, models, part, *given)
            return hypotheses
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

    def _search_parts(
        self, generator: SequenceGenerator | SequenceScorer, models: Sequence, sample: dict
    ) -> list[slice]:
        """Return the rows that are translated together; they stay as wide as the batch is."""
        memory, words = search_memory(generator, models), sample["net_input"]["src_tokens"]
        rows, source = words.shape
        target = sample.get("target")
        target = target_positions(generator, source, None if target is None else target.size(1))
        device = words.device
        if memory is None or self.memory_limit.allows(memory, device, rows, source, target):
            return [slice(0, rows)]
        longest = words.ne(self.source_dictionary.pad()).sum(dim=1).argmax()
        number = int(sample["id"][longest]) if "id" in sample else int(longest)
        self.memory_limit.check(memory, device, [source], [target], first=number)
        return self.memory_limit.parts(memory, device, [source] * rows, [int(target)] * rows)

    def _show(self, sentence: int, source: Tensor, hypothesis: dict) -> None:
        """Draw a best translation's alignment, where that is asked for."""
        is_drawn = self._gallery is not None and sentence in self._samples
        if not is_drawn and not self.cfg.heatmap_terminal:
            return
        alignment = self._alignment_of_words(
            sentence,
            source,
            hypothesis["tokens"],
            hypothesis["attention"].T,
            score=float(hypothesis["score"]) / math.log(2),
            probabilities=hypothesis["positional_scores"].double().exp().tolist(),
        )
        if is_drawn:
            self._gallery.add(alignment)
        session = current_session()
        if self.cfg.heatmap_terminal and session and alignment.has_words:
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
        probabilities: Sequence[float] | None = None,
    ) -> Alignment:
        """Return padded words and weights ``(target, source)`` as ``--heatmap-*`` ask for them."""
        source, target = source.cpu(), target.cpu()
        is_source, is_target = source.ne(self.src_dict.pad()), target.ne(self.tgt_dict.pad())
        alignment = Alignment(
            self._words.labels(sentence, source[is_source], current_session(), self.datasets),
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
        """See ``contracts.CollectsAlignments``."""
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


def has_alignment(model: torch.nn.Module) -> bool:
    """Tell whether a model has attention; fairseq's own do not say it and are taken to."""
    return model.decoder.has_alignment if isinstance(model.decoder, ShowsAlignment) else True
