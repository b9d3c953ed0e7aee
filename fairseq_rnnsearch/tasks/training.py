"""Training and validation, of batches that take any memory, on data that may have links."""

import contextlib
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np
import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.models import BaseFairseqModel
from omegaconf import II

from fairseq_rnnsearch.compat.half_precision import innermost, scales_losses
from fairseq_rnnsearch.contracts import AnswersNonfinite, ChecksTraining, ExplainsUpdates
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.tasks.guided_alignment import GuidedAlignment, check_guidance
from fairseq_rnnsearch.tasks.memory_limit import (
    MemoryLimit,
    in_fairseqs_words,
    readings,
    summed,
    training_memory,
)
from fairseq_rnnsearch.tasks.nonfinite import UpdateRecord, name_sentences
from fairseq_rnnsearch.tasks.parallel_data import ParallelDataConfig, ParallelDataTask, word_counts
from fairseq_rnnsearch.wording import counted

logger = logging.getLogger(__name__)


@dataclass
class TrainingConfig(ParallelDataConfig):
    """Options of training, beside those of the data."""

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


class TrainingTask(ParallelDataTask, ExplainsUpdates):
    """Translation that says beforehand what it cannot train on, and afterwards what went wrong."""

    cfg: TrainingConfig

    def __init__(self, cfg: TrainingConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.memory_limit = MemoryLimit(cfg.max_batch_memory)
        self._model = self._criterion = None
        self._update_record = UpdateRecord()

    # data

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load as any parallel data; those of training are checked and get their links."""
        is_first = self._training_data is None  # not yet another epoch's data folder
        super().load_dataset(split, epoch, combine, **kwargs)
        if self.datasets[split] is self._training_data:
            if is_first:
                self._check_model()
            self._guide(epoch)

    def _check_model(self) -> None:
        """Let the model check what it is trained on, see ``contracts.ChecksTraining``."""
        if isinstance(self._model, ChecksTraining):
            named = self.cfg.restore_file != CheckpointConfig.restore_file
            self._model.check_training(
                has_links=bool(self._guidance),
                begins_from_model=bool(self.cfg.finetune_from_model) or named,
                readings=readings(self._criterion),
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

    # models and updates

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

    def filter_indices_by_size(
        self, indices: np.ndarray, dataset: FairseqDataset, *given, **options
    ) -> np.ndarray:
        """Filter as for any parallel data, after a check that there is the memory for them."""
        if self._training_data is None or dataset is self._training_data:
            self._check_memory()  # of the validation data too
        return super().filter_indices_by_size(indices, dataset, *given, **options)

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
            words = np.stack(word_counts(dataset))
            most = np.asarray(self.max_positions()) - 1
            if dataset is self._training_data and self.cfg.max_train_words:
                most = np.minimum(most, self.cfg.max_train_words)
            is_used = (words <= most[:, None]).all(axis=0)
            positions = np.where(is_used, words + 1, 0)
            self.memory_limit.check(memory, device, *positions, split)
