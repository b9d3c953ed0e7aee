"""The translation task: training, validation and translation, with visible attention.

``parallel_data`` reads the data and makes the batches.
"""

import copy
import json
import logging
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.data import Dictionary, FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.models import BaseFairseqModel
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task
from omegaconf import DictConfig
from torch import Tensor

from fairseq_rnnsearch.decoding.batches import naming_the_batch
from fairseq_rnnsearch.decoding.decode import decode, has_alignment
from fairseq_rnnsearch.decoding.length_limit import FAIRSEQ_LIMIT
from fairseq_rnnsearch.decoding.search.beam_search import longest_translation
from fairseq_rnnsearch.errors import UserError, option_of, pluralize
from fairseq_rnnsearch.plugin import generators
from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterion
from fairseq_rnnsearch.plugin.first_batch import check_kernels
from fairseq_rnnsearch.plugin.guided_alignment import GuidedAlignment, check_guidance
from fairseq_rnnsearch.plugin.heatmaps import Heatmaps
from fairseq_rnnsearch.plugin.nonfinite import UpdateRecord, name_sentences
from fairseq_rnnsearch.plugin.parallel_data import ParallelDataTask
from fairseq_rnnsearch.plugin.source_words import SourceWords
from fairseq_rnnsearch.plugin.task_options import AlignmentHeatmapConfig
from fairseq_rnnsearch.runs.checkpoint import check_registered
from fairseq_rnnsearch.runs.options import check_options
from fairseq_rnnsearch.runs.programs import in_printed_words, printed_alignment
from fairseq_rnnsearch.runs.trainer import NonfiniteHandler

logger = logging.getLogger(__name__)


@register_task("alignment_heatmap", dataclass=AlignmentHeatmapConfig)
class AlignmentHeatmapTask(ParallelDataTask):
    """Translation by fairseq's search or the authors', with soft alignments to look at.

    It reports unusable data before training, and sentences that went wrong during it.
    """

    def __init__(
        self, cfg: AlignmentHeatmapConfig, src_dict: Dictionary, tgt_dict: Dictionary
    ) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self._model = self._criterion = None
        self._update_record = UpdateRecord()
        self._words = SourceWords(
            (src_dict, tgt_dict), (cfg.source_lang, cfg.target_lang), cfg.data
        )
        self._kernels_are_checked = self._has_cut = self._translates = False
        self._heatmaps = Heatmaps(cfg, (src_dict, tgt_dict), self._words, self.datasets)

    # data

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load parallel data, and add the links to training data."""
        super().load_dataset(split, epoch, combine, **kwargs)
        if self.datasets[split] is self._training_data:
            if isinstance(self._criterion, AlignmentHeatmapCriterion):
                self._criterion.check_training(self._model)
            if self.cfg.guided_alignment:
                self._guide(epoch)
            elif self.cfg.load_alignments:
                self._check_alignments()

    def _guide(self, epoch: int) -> None:
        """Give the training data the links of ``--guided-alignment``.

        Raises:
            UserError: as `GuidedAlignment`, unless there is one file per data folder.
        """
        files, folders = map(utils.split_paths, (self.cfg.guided_alignment, self.cfg.data))
        if len(files) != len(folders):
            raise UserError(
                f"--guided-alignment names {pluralize(len(files), 'file')}, but there are "
                f"{pluralize(len(folders), 'data folder')}: give one for each, with : between"
            )
        shard = (epoch - 1) % len(folders)
        name = f"the {self.cfg.train_subset!r} data in {folders[shard]}"
        sides = self._words.has_pieces, self._words.tokenizers
        links = GuidedAlignment(Path(files[shard]), self._training_data, name, *sides)
        self._training_data.align_dataset = links

    def _check_alignments(self) -> None:
        """Refuse alignments that do not belong to all pairs: fairseq reads those of train alone."""
        links, name = self._training_data.align_dataset, self.cfg.train_subset
        if links is None:
            raise UserError(
                f"--load-alignments: the {name!r} data has no alignments "
                "(fairseq-preprocess --align-suffix)"
            )
        if len(links) != len(self._training_data):
            raise UserError(
                f"--load-alignments: the {name!r} data has {pluralize(len(links), 'alignment')} and"
                f" {pluralize(len(self._training_data), 'pair')}, with those of {name}1 and so on; "
                "--guided-alignment takes a file with a line for each"
            )

    # models and updates

    def build_model(self, cfg, from_checkpoint: bool = False) -> BaseFairseqModel:
        """Build as fairseq does; the model checks its training data later.

        Raises:
            UserError: as ``check_registered``.
        """
        check_registered(cfg)
        if self.cfg.eval_bleu:  # of batches with tokens, of which sacrebleu warns each time
            logging.getLogger("sacrebleu").setLevel(logging.ERROR)
        self._model = super().build_model(cfg, from_checkpoint)
        return self._model

    def build_criterion(self, cfg, from_checkpoint: bool = False) -> FairseqCriterion:
        """Build as fairseq does; see ``build_model``.

        Raises:
            UserError: as ``check_guidance``.
        """
        self._criterion = super().build_criterion(cfg, from_checkpoint)
        option = "--guided-alignment" if self.cfg.guided_alignment else "--load-alignments"
        if self.cfg.guided_alignment or self.cfg.load_alignments:
            check_guidance(self._model, self._criterion, option)
        return self._criterion

    def train_step(
        self, sample: dict, model, criterion, optimizer, update_num: int, ignore_grad: bool = False
    ) -> tuple[torch.Tensor, int, dict]:
        """Train as fairseq does.

        The update's batches are kept, to name the sentences if it is not finite. The first batch
        tests the kernels, see ``check_kernels``.
        """
        if not self._kernels_are_checked:
            with naming_the_batch(sample):
                check_kernels(model, criterion, sample)
            self._kernels_are_checked = True
        if not ignore_grad:
            if update_num != self._update_record.update:
                self._update_record = UpdateRecord(update_num)
            self._update_record.add(sample, model, criterion)
        if isinstance(optimizer, NonfiniteHandler):
            optimizer.begin_update(self._update_record.explain)
        with naming_the_batch(sample):
            return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def explain_update(self) -> str:
        """Describe what is not finite in the current update."""
        return self._update_record.explain()

    # validation

    def begin_valid_epoch(self, epoch: int, model) -> None:
        """Begin to collect alignments, for a folder named after the epoch.

        The search of ``--eval-bleu`` gets the limit of length. fairseq builds it before the
        training data is there, which determines the limit.
        """
        super().begin_valid_epoch(epoch, model)
        if self.cfg.eval_bleu:
            options = Namespace(**json.loads(self.cfg.eval_bleu_args))
            self.sequence_generator = self.build_generator([model], options)
        self._heatmaps.begin_validation(epoch)

    def get_batch_iterator(self, dataset: FairseqDataset, *args, **options) -> EpochBatchIterator:
        """Return batches as ``ParallelDataTask`` does, and note which validation set begins."""
        self._heatmaps.begin_subset(dataset)
        return super().get_batch_iterator(dataset, *args, **options)

    def valid_step(self, sample: dict, model, criterion) -> tuple[torch.Tensor, int, dict]:
        """Validate as fairseq does, and warn if the cost is not finite."""
        with naming_the_batch(sample):
            loss, size, logged = super().valid_step(sample, model, criterion)
        if not torch.isfinite(torch.as_tensor(loss)).all():
            numbers = name_sentences(sorted(sample["id"].tolist()))
            logger.warning("the validation cost is %s in a batch of %s", float(loss), numbers)
        return loss, size, logged

    def collect_alignments(
        self, ids: Tensor, source: Tensor, target: Tensor, attention: Tensor
    ) -> None:
        """Keep a batch's alignments to draw, see ``runs.trainer.AlignmentTask``."""
        self._heatmaps.collect(ids, source, target, attention)

    def post_validate(self, model, stats: dict, agg) -> None:
        """Draw the alignments that the criterion has collected."""
        self._heatmaps.draw_validation(stats["num_updates"])

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

        Before translating, it warns if many words in the data are unknown.

        Raises:
            UserError: if the options want alignments from a model without attention, combine the
                authors' search with one that is not beam search, need references where there are
                none, or choose a search that does not work or heatmaps that are not drawn.
        """
        self._translates = isinstance(args, DictConfig)  # --eval-bleu gives a Namespace
        draws = self._translates and self.datasets and self.cfg.heatmap_dir
        prints, replaces = (getattr(args, x, None) for x in ("print_alignment", "replace_unk"))
        needs_alignment = bool(prints or draws) or replaces is not None
        if needs_alignment and not any(has_alignment(model) for model in models):
            raise UserError(
                "--print-alignment, --replace-unk and heatmaps need a model with attention; "
                "RNNencdec reads its source through one vector and has no alignment"
            )
        if needs_alignment:  # fairseq's models give it for --print-alignment alone
            for part in (part for model in models for part in model.modules()):
                if hasattr(part, "need_attn"):
                    part.need_attn = True
        if getattr(args, "score_reference", False):
            generator = (seq_gen_cls or SequenceScorer)(self.target_dictionary)
        else:
            self._check_search_options(args)
            # fairseq's default length limit, if the command has it, is replaced by the model's
            if (getattr(args, "max_len_a", 0), getattr(args, "max_len_b", 200)) == FAIRSEQ_LIMIT:
                args = copy.deepcopy(args)
                args.max_len_a, args.max_len_b = self.length_limit
            if seq_gen_cls is None and self.cfg.authors_search:
                seq_gen_cls = generators.AuthorsSequenceGenerator
            generator = super().build_generator(
                models,
                args,
                seq_gen_cls or generators.StepwiseGenerator,
                extra_gen_cls_kwargs,
                **options,
            )
            if self.cfg.forbid_unk:
                generator.unk_penalty = torch.inf
        # the generator belongs to one caller, the task may serve several
        generator.print_alignment = getattr(args, "print_alignment", None)
        generator.needs_alignment = needs_alignment
        # with --replace-unk, fairseq-generate prints the source as it stands in the data
        is_resolved = isinstance(self.cfg, DictConfig)  # a program's, with --post-process
        option = getattr(self.cfg, "post_process", None) if is_resolved else None
        generator.post_process = None if replaces is not None and self.datasets else option, option
        if self._translates:
            scores = isinstance(generator, SequenceScorer)
            self._words.count_data(self.datasets.values(), with_target=scores)
            self._heatmaps.begin_translations()
        return generator

    def _check_search_options(self, args: Namespace | DictConfig) -> None:
        """Refuse options of a search that do not work here, or not together."""
        given = args if isinstance(args, DictConfig) else vars(args)
        own = {"authors_search": self.cfg.authors_search}
        check_options({**given, **own}, AlignmentHeatmapConfig)
        for name, default in (("diverse_beam_groups", -1), ("diverse_beam_strength", 0.5)):
            if getattr(args, name, default) != default:
                raise UserError(
                    f"{option_of(name)}: fairseq's diverse search extends translations past their "
                    "end; --nbest and --sampling give several translations"
                )
        if getattr(args, "constraints", None) and self.datasets:
            raise UserError(
                "--constraints: binarised data has none; fairseq-interactive reads them, each"
                " after a tab behind its sentence"
            )

    def _in_printed_words(self, generator: Any, source: Tensor, hypothesis: dict) -> Tensor:
        """Return a hypothesis' weights between the words that ``--post-process`` prints."""
        options = getattr(generator, "post_process", (None, None))
        if options == (None, None):
            return hypothesis["weights"]
        words = source[source.ne(self.source_dictionary.pad())], hypothesis["tokens"]
        dictionaries = self.source_dictionary, self.target_dictionary
        symbols = (
            [dictionary[word] for word in side[:-1]]
            for dictionary, side in zip(dictionaries, words, strict=True)
        )
        return in_printed_words(hypothesis["weights"], [*zip(symbols, options, strict=True)])

    def inference_step(
        self, generator, models, sample: dict, prefix_tokens=None, constraints=None
    ) -> list[list[dict]]:
        """Translate or score one batch, with alignments to print, look up and draw.

        Every hypothesis' ``attention`` is ``(source, target)``, padding included.

        Raises:
            UserError: if alignments are needed and the models give none.
        """
        pad, eos = self.source_dictionary.pad(), self.target_dictionary.eos()
        scores = isinstance(generator, SequenceScorer)
        beams = decode(
            generator, models, sample, pad, eos, prefix_tokens, constraints, scores=scores
        )
        is_needed = beams and getattr(generator, "needs_alignment", False)
        if is_needed and all(one["weights"] is None for beam in beams for one in beam):
            raise UserError(
                "--print-alignment, --replace-unk and heatmaps need alignment weights, and this "
                "model gives none"
            )
        asked = getattr(generator, "print_alignment", None)
        is_typed = "id" not in sample  # by fairseq-interactive
        for source, beam in zip(sample["net_input"]["src_tokens"], beams, strict=True):
            for hypothesis in beam:
                if (weights := hypothesis["weights"]) is not None:
                    weights = self._in_printed_words(generator, source, hypothesis)
                    hypothesis["alignment"] = printed_alignment(weights, asked, is_typed)
        self._heatmaps.add_translations(sample, beams)
        if not (self._has_cut or scores or self.cfg.authors_search) and self._translates:
            source = sample["net_input"]["src_lengths"].cpu().numpy()
            lengths = np.array([len(best["tokens"]) - 1 for best, *_ in beams])  # without the ends
            if (cut := lengths == longest_translation(generator, source)).any():
                self._has_cut = True  # which is said once
                logger.warning(
                    "a translation was cut after %s, the limit of length of its sentence "
                    "(--max-len-a, --max-len-b), and others may be",
                    pluralize(int(lengths[cut][0]), "token"),
                )
        return beams
