"""Training and validation, on data that may have links."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.data import Dictionary
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.models import BaseFairseqModel
from omegaconf import II

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.inference.batches import naming_the_batch
from fairseq_rnnsearch.plugin.criterions.alignment_heatmap import (
    AlignmentHeatmapCriterion,
    CostingModel,
)
from fairseq_rnnsearch.plugin.tasks.guided_alignment import GuidedAlignment, check_guidance
from fairseq_rnnsearch.plugin.tasks.nonfinite import UpdateRecord, name_sentences
from fairseq_rnnsearch.plugin.tasks.parallel_data import ParallelDataConfig, ParallelDataTask
from fairseq_rnnsearch.runs.trainer import DecidingOptimizer
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
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    restore_file: str = II("checkpoint.restore_file")


class TrainingTask(ParallelDataTask):
    """Translation that says beforehand what it cannot train on, and afterwards what went wrong."""

    cfg: TrainingConfig

    def __init__(self, cfg: TrainingConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
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
        """Let the model check what it is trained on, see ``RNNSearchModel.check_training``."""
        if isinstance(self._model, CostingModel):
            named = self.cfg.restore_file != CheckpointConfig.restore_file
            ours = isinstance(self._criterion, AlignmentHeatmapCriterion)
            readings = self._criterion.readings() if ours else 1
            self._model.check_training(
                has_links=bool(self._guidance),
                begins_from_model=bool(self.cfg.finetune_from_model) or named,
                readings=readings,
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
        """Build as fairseq does; the model is asked later what it can be trained on."""
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
        """Train as fairseq does.

        What the update was made of is kept, to name it if it is not finite.
        """
        if not ignore_grad:
            if update_num != self._update_record.update:
                self._update_record = UpdateRecord(update_num)
            self._update_record.add(sample, model, criterion)
        if isinstance(optimizer, DecidingOptimizer):
            optimizer.begin_update(self._update_record.explain)
        with naming_the_batch(sample):
            return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def explain_update(self) -> str:
        """Say in words what is not finite in the update that is being made."""
        return self._update_record.explain()

    def valid_step(self, sample: dict, model, criterion) -> tuple[torch.Tensor, int, dict]:
        """Validate as fairseq does, and warn where the cost is not finite."""
        with naming_the_batch(sample):
            loss, size, logged = super().valid_step(sample, model, criterion)
        if not torch.isfinite(torch.as_tensor(loss)).all():
            numbers = name_sentences(sorted(sample["id"].tolist()))
            logger.warning("the validation cost is %s in a batch of %s", float(loss), numbers)
        return loss, size, logged
