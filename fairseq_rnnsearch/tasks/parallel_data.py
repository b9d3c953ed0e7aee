"""fairseq's translation data, checked and complete, in the paper's batches.

What it changes, each because fairseq would otherwise lose something in silence, is named at the
method that changes it.
"""

import contextlib
import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np
import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.data import (
    Dictionary,
    FairseqDataset,
    LanguagePairDataset,
    iterators,
)
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II

from fairseq_rnnsearch.compat.half_precision import innermost, scales_losses
from fairseq_rnnsearch.contracts import AnswersNonfinite, ChecksTraining, ExplainsUpdates
from fairseq_rnnsearch.data.batch_order import paper_batches
from fairseq_rnnsearch.data.binarised import check_split
from fairseq_rnnsearch.data.checksums import check_checksum
from fairseq_rnnsearch.data.dictionary_file import check_dictionary
from fairseq_rnnsearch.errors import UserError, reason
from fairseq_rnnsearch.tasks import vocabulary
from fairseq_rnnsearch.tasks.data_folder import check_languages, check_subset
from fairseq_rnnsearch.tasks.epoch_batches import InOrderIterator, resumed
from fairseq_rnnsearch.tasks.guided_alignment import GuidedAlignment, check_guidance
from fairseq_rnnsearch.tasks.memory_limit import (
    MemoryLimit,
    in_fairseqs_words,
    summed,
    training_memory,
)
from fairseq_rnnsearch.tasks.nonfinite import UpdateRecord, name_sentences
from fairseq_rnnsearch.wording import counted

logger = logging.getLogger(__name__)

ANY_LENGTH = 1_000_000
# what fairseq's iterators of batches are told as its tasks are
_OF_AN_ITERATOR = ("num_shards", "shard_id", "num_workers", "epoch", "skip_remainder_batch")


@dataclass
class ParallelDataConfig(TranslationConfig):
    """Options of the data beside those of ``--task translation``."""

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
    guided_alignment: Optional[str] = field(
        default=None,
        metadata={"help": "file of links that attention is trained to follow: a line for each "
                  "training pair, in the order of the data, of links i-j between words, the "
                  "source first, from 0 (Pharaoh format; several data folders: as many files, "
                  "with : between)"},
    )  # fmt: skip
    max_batch_memory: Optional[float] = field(
        default=None,
        metadata={"help": "GB that a batch may take by estimate; a larger one is computed in "
                  "parts, with the same result, and a sentence that alone takes more is refused "
                  "(default: half of the machine's or the GPU's; 0: any amount)"},
    )  # fmt: skip
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    restore_file: str = II("checkpoint.restore_file")


class ParallelDataTask(TranslationTask, ExplainsUpdates):
    """Translation in which every sentence is trained on, validated and translated."""

    cfg: ParallelDataConfig

    def __init__(self, cfg: ParallelDataConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        if (cfg.max_train_words or 0) < 0:
            raise UserError(f"--max-train-words {cfg.max_train_words}: must be 0 (all) or more")
        self._training_data: FairseqDataset | None = None
        self.memory_limit = MemoryLimit(cfg.max_batch_memory)
        self._model = self._criterion = None
        self._update_record = UpdateRecord()

    # dictionaries and data

    @classmethod
    def setup_task(cls, cfg: ParallelDataConfig, **kwargs) -> "ParallelDataTask":
        """Load the dictionaries.

        Raises:
            UserError: as `check_languages`.
        """
        folder = utils.split_paths(cfg.data or "")[0]
        check_languages(folder, cfg.source_lang, cfg.target_lang)
        return super().setup_task(cfg, **kwargs)

    @classmethod
    def load_dictionary(cls, filename: str) -> Dictionary:
        """Load a dictionary as fairseq does, after a check; it remembers its file.

        Raises:
            UserError: as `check_dictionary`.
        """
        check_dictionary(filename)
        check_checksum(filename)
        return vocabulary.FileDictionary.load(filename)

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

        fairseq counts the special symbols as words and fills the dictionary up to a multiple of
        eight with made-up words, which the output layer would then have to learn to avoid.
        """
        if nwords > 0:
            nwords += Dictionary().nspecial
        return super().build_dictionary(filenames, workers, threshold, nwords, padding_factor=1)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load as fairseq does, with one line for data that is damaged or does not fit together."""
        self._check_files(split, epoch)
        try:
            super().load_dataset(split, epoch, combine, **kwargs)
        except (OSError, ValueError, AssertionError, LookupError, struct.error) as problem:
            raise UserError(
                f"cannot load the {split!r} data in {self.cfg.data}: {reason(problem)}. Make it "
                "again with fairseq-preprocess --user-dir ... --task alignment_heatmap"
            ) from problem
        if combine and split == self.cfg.train_subset:  # only training combines
            if self._training_data is None:  # else it is another epoch's data folder
                self._check_model()
            self._training_data = self.datasets[split]
            self._guide(epoch)
        if not len(self.datasets[split]):
            raise UserError(f"the {split!r} data in {self.cfg.data} has no sentences")

    def _check_model(self) -> None:
        """Let the model check what it is trained on, see ``contracts.ChecksTraining``."""
        if isinstance(self._model, ChecksTraining):
            named = self.cfg.restore_file != CheckpointConfig.restore_file
            self._model.check_training(
                has_links=bool(self._guidance),
                begins_from_model=bool(self.cfg.finetune_from_model) or named,
            )

    def _guide(self, epoch: int) -> None:
        """Give the training data the links of ``--guided-alignment``.

        Raises:
            UserError: as `GuidedAlignment`, and when there is not a file for each data folder.
        """
        files, folders = self._guidance, utils.split_paths(self.cfg.data)
        if not files:
            return
        if len(files) != len(folders):
            raise UserError(
                f"--guided-alignment names {counted(len(files), 'file')}, but there are "
                f"{counted(len(folders), 'data folder')}: give one for each, with : between"
            )
        if self.cfg.load_alignments:
            raise UserError("--guided-alignment and --load-alignments: give one of them")
        shard = (epoch - 1) % len(folders)
        name = f"the {self.cfg.train_subset!r} data in {folders[shard]}"
        links = GuidedAlignment(Path(files[shard]), self._training_data, name)
        self._training_data.align_dataset = links

    @property
    def _guidance(self) -> list[str]:
        return utils.split_paths(self.cfg.guided_alignment) if self.cfg.guided_alignment else []

    def _check_files(self, split: str, epoch: int) -> None:
        """Check the files of a split that fairseq will load."""
        folders = utils.split_paths(self.cfg.data)
        if split != self.cfg.train_subset:
            folders = folders[:1]
        folder = Path(folders[(epoch - 1) % len(folders)])
        source, target = self.cfg.source_lang, self.cfg.target_lang
        check_subset(folder, split, source, target, self.cfg.dataset_impl)
        check_split(folder, split, {source: len(self.src_dict), target: len(self.tgt_dict)})

    def build_dataset_for_inference(
        self, src_tokens: list[torch.Tensor], src_lengths: list[int], constraints=None
    ) -> LanguagePairDataset:
        """Make a data set as fairseq does, which forgets ``--left-pad-source``."""
        return LanguagePairDataset(
            src_tokens,
            src_lengths,
            self.source_dictionary,
            tgt_dict=self.target_dictionary,
            left_pad_source=self.cfg.left_pad_source,
            constraints=constraints,
        )

    # the state that a checkpoint keeps, and what an update leaves for the optimizer

    def state_dict(self) -> dict:
        """Return fairseq's state, and which words the model learns."""
        return {**super().state_dict(), vocabulary.STATE: vocabulary.describe(self._dictionaries)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Compare the words with the data's; checkpoints from before this have none.

        Raises:
            UserError: when the checkpoint was trained with other dictionaries.
        """
        state = dict(state_dict)
        vocabulary.check_words(state.pop(vocabulary.STATE, None), self._dictionaries)
        super().load_state_dict(state)

    @property
    def _dictionaries(self) -> dict[str, Dictionary]:
        return {"source": self.source_dictionary, "target": self.target_dictionary}

    # training

    def build_model(self, cfg, from_checkpoint: bool = False) -> BaseFairseqModel:
        """Build as fairseq does; training asks the model how much memory its data takes."""
        self._model = super().build_model(cfg, from_checkpoint)
        return self._model

    def build_criterion(self, cfg, from_checkpoint: bool = False) -> FairseqCriterion:
        """Build as fairseq does; see ``build_model``.

        Raises:
            UserError: as ``check_guidance``.
        """
        self._criterion = super().build_criterion(cfg, from_checkpoint)
        if self._guidance:
            check_guidance(self._model, self._criterion)
        return self._criterion

    def train_step(
        self, sample: dict, model, criterion, optimizer, update_num: int, ignore_grad: bool = False
    ) -> tuple[torch.Tensor, int, dict]:
        """Train as fairseq does, on a batch that takes much memory in parts.

        What the update was made of is kept, to name it if it is not finite.
        """
        if not ignore_grad:
            if update_num != self._update_record.update:
                self._update_record = UpdateRecord(update_num)
            self._update_record.add(sample, model, criterion)
        inside = innermost(optimizer)
        if isinstance(inside, AnswersNonfinite):
            inside.begin_update(self._update_record.explain, scales_losses(optimizer))
        step, results = super().train_step, []
        with in_fairseqs_words(sample):
            parts = self._parts(sample, model, criterion)
            for number, part in enumerate(parts, start=1):
                # processes that share a model exchange their gradients once for the whole batch
                waits = number < len(parts) and hasattr(model, "no_sync")
                with model.no_sync() if waits else contextlib.nullcontext():
                    results.append(step(part, model, criterion, optimizer, update_num, ignore_grad))
        return summed(results)

    def explain_update(self) -> str:
        """See ``contracts.ExplainsUpdates``."""
        return self._update_record.explain()

    def valid_step(self, sample: dict, model, criterion) -> tuple[torch.Tensor, int, dict]:
        """Validate as fairseq does, in parts too, and warn where the cost is not finite."""
        step = super().valid_step
        with in_fairseqs_words(sample):
            parts = self._parts(sample, model, criterion)
            loss, size, logged = summed([step(part, model, criterion) for part in parts])
        if not torch.isfinite(torch.as_tensor(loss)).all():
            numbers = name_sentences(sorted(sample["id"].tolist()))
            logger.warning("the validation cost is %s in a batch of %s", float(loss), numbers)
        return loss, size, logged

    def _parts(self, sample: dict, model, criterion) -> list[dict]:
        return self.memory_limit.parts_of(sample, model, criterion, self.source_dictionary.pad())

    def _check_memory(self) -> None:
        """Refuse data with a sentence that no training or validation can take, before it begins.

        Raises:
            UserError: as ``MemoryLimit.check``.
        """
        memory = training_memory(self._model, self._criterion)
        if memory is None:
            return
        device = next(self._model.parameters()).device
        for split, dataset in self.datasets.items():
            words = np.stack(_words(dataset))
            most = np.asarray(self.max_positions()) - 1
            if dataset is self._training_data and self.cfg.max_train_words:
                most = np.minimum(most, self.cfg.max_train_words)
            is_used = (words <= most[:, None]).all(axis=0)
            positions = np.where(is_used, words + 1, 0)
            self.memory_limit.check(memory, device, *positions, split)

    # batches

    def filter_indices_by_size(
        self,
        indices: np.ndarray,
        dataset: FairseqDataset,
        max_positions=None,
        ignore_invalid_inputs: bool = False,
    ) -> np.ndarray:
        """Filter as fairseq does, and by ``--max-train-words`` where the data are for training."""
        indices = super().filter_indices_by_size(
            indices, dataset, max_positions, ignore_invalid_inputs
        )
        if self._training_data is None or dataset is self._training_data:
            self._check_memory()  # of the validation data too
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
        data_buffer_size: int = 0,
        **options,
    ) -> iterators.EpochBatchIterator:
        """Return batches in which every sentence occurs.

        fairseq drops the end of a split whose size is no multiple of
        ``required_batch_size_multiple``, 8 by default; here that is always 1.
        """
        is_training = dataset is self._training_data
        if not is_training or self.cfg.batch_order == "fairseq":
            if dataset not in self.datasets.values():
                options["disable_iterator_cache"] = True  # typed sentences would pile up in it
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
            iterator.persistent_workers = False  # fairseq makes new ones all the same
            if is_training and self.cfg.rebuild_batches:
                iterator = resumed(iterator)
                self.dataset_to_epoch_iter[dataset] = iterator
            return iterator
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
        iterator = InOrderIterator(
            dataset=dataset,
            collate_fn=dataset.collater,
            batch_sampler=paper_batches(*_words(dataset), max_sentences, seed, candidates=kept),
            seed=seed,
            buffer_size=data_buffer_size,
            **{name: options[name] for name in _OF_AN_ITERATOR if name in options},
        )
        self.dataset_to_epoch_iter[dataset] = iterator
        return iterator


def _words(dataset: LanguagePairDataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the words of each source and target sentence, end symbols not counted."""
    return np.asarray(dataset.src_sizes) - 1, np.asarray(dataset.tgt_sizes) - 1
