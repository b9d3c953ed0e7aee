"""fairseq's translation data, checked and complete, in the paper's batches.

Each override says what fairseq would otherwise lose silently.
"""

import functools
import logging
from collections.abc import Sequence
from pathlib import Path

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
from fairseq.tasks.translation import TranslationTask

from fairseq_rnnsearch.decoding import length_limit
from fairseq_rnnsearch.decoding.length_limit import FAIRSEQ_LIMIT, LengthLimit
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.paper.batch_order import paper_batches
from fairseq_rnnsearch.plugin.data_folder import check_folders, check_languages
from fairseq_rnnsearch.plugin.epoch_batches import InOrderIterator, ResumedIterator
from fairseq_rnnsearch.plugin.task_options import AlignmentHeatmapConfig
from fairseq_rnnsearch.runs.checkpoint import OwnFields
from fairseq_rnnsearch.runs.patches import PatchesFairseq, patch_fairseq
from fairseq_rnnsearch.text import compatibility
from fairseq_rnnsearch.text.checksums import check_checksum, check_split
from fairseq_rnnsearch.text.corpus import check_text
from fairseq_rnnsearch.text.dictionary_file import read_dictionary

logger = logging.getLogger(__name__)

# options that fairseq's task passes on to its batch iterator
_OF_AN_ITERATOR = (
    *("num_shards", "shard_id", "num_workers", "epoch"),
    *("skip_remainder_batch", "grouped_shuffling"),
)


class ParallelDataTask(PatchesFairseq, TranslationTask):
    """Translation with complete data: each sentence occurs in a batch."""

    cfg: AlignmentHeatmapConfig

    def __init__(
        self, cfg: AlignmentHeatmapConfig, src_dict: Dictionary, tgt_dict: Dictionary
    ) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self._training_data: FairseqDataset | None = None
        self.batches_in_an_update = 1  # per process; the trainer sets it
        self.length_limit = FAIRSEQ_LIMIT
        self._first_model: object = None  # an ensemble's: what its checkpoint records

    # dictionaries and data

    @classmethod
    def setup_task(cls, cfg: AlignmentHeatmapConfig, **kwargs) -> "ParallelDataTask":
        """Load the dictionaries.

        Raises:
            UserError: as `check_languages`.
        """
        patch_fairseq()
        folder = utils.split_paths(cfg.data or "")[0]
        check_languages(folder, cfg.source_lang, cfg.target_lang)
        return super().setup_task(cfg, **kwargs)

    @classmethod
    def load_dictionary(cls, filename: str) -> Dictionary:
        """Check and load a dictionary as fairseq does; it remembers its file.

        Raises:
            UserError: as `read_dictionary`.
        """
        patch_fairseq()
        read_dictionary(Path(filename))
        check_checksum(filename)
        dictionary = super().load_dictionary(filename)
        dictionary.path = filename  # for messages
        return dictionary

    @classmethod
    def build_dictionary(
        cls,
        filenames: Sequence[str],
        workers: int = 1,
        threshold: int = -1,
        nwords: int = -1,
        padding_factor: int = 1,
    ) -> Dictionary:
        """Build a shortlist of ``nwords`` words plus fairseq's four special symbols.

        fairseq counts the special symbols as words and pads the dictionary to a multiple of eight
        with made-up words, which the output layer would have to learn to avoid.
        """
        patch_fairseq()
        check_text(*map(Path, filenames))
        if nwords > 0:
            nwords += Dictionary().nspecial
        return super().build_dictionary(filenames, workers, threshold, nwords, padding_factor=1)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load as fairseq does, after a check of the files."""
        if combine and split == self.cfg.train_subset and self._training_data is None:
            check_folders(self.cfg)
        folders = utils.split_paths(self.cfg.data)
        folder = (
            folders[(epoch - 1) % len(folders)] if split == self.cfg.train_subset else folders[0]
        )
        check_split(Path(folder), split, (self.cfg.source_lang, self.cfg.target_lang))
        super().load_dataset(split, epoch, combine, **kwargs)
        if combine and split == self.cfg.train_subset:  # only training combines
            data = self._training_data = self.datasets[split]
            if len(data):  # epochs may read other folders: keep the largest limit
                limit = length_limit.measured(data.src_sizes, data.tgt_sizes)
                self.length_limit = length_limit.largest(self.length_limit, limit)
        if not len(self.datasets[split]):
            raise UserError(f"the {split!r} data in {self.cfg.data} has no sentences")

    def build_dataset_for_inference(
        self, src_tokens: list[torch.Tensor], src_lengths: list[int], constraints=None
    ) -> LanguagePairDataset:
        """Make a data set as fairseq does, but respect ``--left-pad-source``."""
        return LanguagePairDataset(
            src_tokens,
            src_lengths,
            self.source_dictionary,
            tgt_dict=self.target_dictionary,
            left_pad_source=self.cfg.left_pad_source,
            constraints=constraints,
        )

    # the state that a checkpoint keeps

    def state_dict(self) -> dict:
        """Return fairseq's state, what is known of the words, and the length limit."""
        own = OwnFields(dictionaries=self._description, length_limit=list(self.length_limit))
        return super().state_dict() | own.written()

    def load_state_dict(self, state_dict: dict) -> None:
        """Compare the checkpoint's dictionaries with the data's, and an ensemble's models.

        Raises:
            UserError: if the checkpoint was trained with other dictionaries, or a model before it
                with other languages or from other text; old checkpoints do not say.
        """
        own = OwnFields.of(state_dict)
        trained = own.dictionaries
        here, where = compatibility.describe(self._dictionaries), self.cfg.data or "the data"
        said = "the checkpoint was trained with", compatibility.ADVICE
        compatibility.check(here, trained, where, *said, complete=False)
        if isinstance(self._first_model, dict):
            said = "the first model", "another has"
            compatibility.check(self._first_model, trained, *said, complete=False)
        self._first_model = self._first_model or trained
        limit = LengthLimit(*(own.length_limit or FAIRSEQ_LIMIT))
        self.length_limit = length_limit.largest(self.length_limit, limit)
        ours = own.written()
        super().load_state_dict({k: v for k, v in state_dict.items() if k not in ours})

    @functools.cached_property
    def _description(self) -> compatibility.Sides:
        folder = Path(utils.split_paths(self.cfg.data)[0]) if self.cfg.data else None
        languages = self.cfg.source_lang, self.cfg.target_lang
        return compatibility.describe(self._dictionaries, languages, folder)

    @property
    def _dictionaries(self) -> dict[str, Dictionary]:
        return {"source": self.source_dictionary, "target": self.target_dictionary}

    # batches

    def filter_indices_by_size(
        self,
        indices: np.ndarray,
        dataset: FairseqDataset,
        max_positions=None,
        ignore_invalid_inputs: bool = False,
    ) -> np.ndarray:
        """Filter as fairseq does, and training data also by ``--max-train-words``."""
        indices = super().filter_indices_by_size(
            indices, dataset, max_positions, ignore_invalid_inputs
        )
        if dataset is not self._training_data or not self.cfg.max_train_words:
            return indices
        is_short = np.maximum(*word_counts(dataset)) <= self.cfg.max_train_words
        chosen = indices[is_short[indices]]
        logger.info(
            "%d of %d training pairs have at most %d tokens on either side; others are dropped",
            len(chosen),
            len(indices),
            self.cfg.max_train_words,
        )
        if not len(chosen):
            raise UserError(
                f"no training pair has at most {self.cfg.max_train_words} tokens on either side: "
                "raise --max-train-words (0 keeps all)"
            )
        return chosen

    def get_batch_iterator(
        self,
        dataset: FairseqDataset,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        max_positions=None,
        ignore_invalid_inputs: bool = False,
        required_batch_size_multiple: int = 1,
        seed: int = 1,
        data_buffer_size: int = 0,
        **options,
    ) -> iterators.EpochBatchIterator:
        """Return batches that contain every sentence.

        fairseq drops the end of a split whose size is not a multiple of
        ``required_batch_size_multiple``, 8 by default; here that is always 1.
        """
        # each epoch may have data of its own, of which fairseq says so; typed sentences pile up too
        is_kept = dataset in self.datasets.values() and not options.get("disable_iterator_cache")
        options["disable_iterator_cache"] = not is_kept
        kept = self.dataset_to_epoch_iter.get(dataset) if is_kept else None
        if isinstance(kept, ResumedIterator) and not options.get("update_epoch_batch_itr"):
            return kept  # from an earlier epoch
        if dataset is not self._training_data:
            iterator = super().get_batch_iterator(
                dataset,
                max_tokens,
                max_sentences,
                max_positions,
                ignore_invalid_inputs,
                seed=seed,
                data_buffer_size=data_buffer_size,
                **options,
            )
            iterator.persistent_workers = False  # see runs.signals
            return iterator
        limits = dataset, max_positions, ignore_invalid_inputs
        if self.cfg.batch_order == "paper":
            if max_sentences is None or max_tokens is not None:
                raise UserError(
                    "the paper's batch order counts sentences: give --batch-size (paper: 80) and "
                    "no --max-tokens, or choose --batch-order fairseq"
                )
            chosen = self.filter_indices_by_size(np.arange(len(dataset)), *limits)
            kind, lengths = InOrderIterator, word_counts(dataset)
            group = 20 * self.batches_in_an_update * options.get("num_shards", 1)
            batches = paper_batches(*lengths, max_sentences, seed, candidates=chosen, group=group)
        else:

            def batches(dataset: FairseqDataset, epoch: int) -> Sequence[Sequence[int]]:
                """Make an epoch's batches from seed and epoch alone, so that a run can resume."""
                with data_utils.numpy_seed(seed + epoch):
                    indices = dataset.ordered_indices()
                chosen = self.filter_indices_by_size(indices, *limits)
                return dataset.batch_by_size(chosen, max_tokens, max_sentences)

            kind = ResumedIterator
        iterator = kind(
            dataset=dataset,
            collate_fn=dataset.collater,
            batch_sampler=batches,
            seed=seed,
            buffer_size=data_buffer_size,
            **{name: options[name] for name in _OF_AN_ITERATOR if name in options},
        )
        if is_kept:
            self.dataset_to_epoch_iter[dataset] = iterator
        return iterator


def word_counts(dataset: LanguagePairDataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of words of each source and target sentence, end symbols not counted."""
    return np.asarray(dataset.src_sizes) - 1, np.asarray(dataset.tgt_sizes) - 1
