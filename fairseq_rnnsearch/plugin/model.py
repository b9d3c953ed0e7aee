"""RNNsearch and RNNencdec as fairseq models. The mathematics is in ``network``."""

import logging
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqEncoderDecoderModel, register_model
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig, open_dict
from torch import Tensor

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.network import TranslationModel, initialize, networks_of
from fairseq_rnnsearch.network.model_options import ModelOptions
from fairseq_rnnsearch.network.precision import computing
from fairseq_rnnsearch.plugin.fairseq_networks import RNNSearchDecoder, RNNSearchEncoder
from fairseq_rnnsearch.runs.options import check_options
from fairseq_rnnsearch.runs.patches import PatchesFairseq, patch_fairseq
from fairseq_rnnsearch.runs.trainer import AlignmentTask

logger = logging.getLogger(__name__)

MODEL = "rnnsearch"


@dataclass
class RNNSearchConfig(FairseqDataclass, ModelOptions):
    """The model's options as fairseq reads them."""


def add_younger_options(cfg: RNNSearchConfig | DictConfig) -> None:
    """Add defaults for options that are newer than a checkpoint."""
    if isinstance(cfg, DictConfig):
        with open_dict(cfg):
            for option in fields(ModelOptions):
                cfg.setdefault(option.name, option.default)


@register_model(MODEL, dataclass=RNNSearchConfig)
class RNNSearchModel(PatchesFairseq, TranslationModel, FairseqEncoderDecoderModel):
    """RNNsearch, or RNNencdec with ``--fixed-context``."""

    def __init__(self, encoder: RNNSearchEncoder, decoder: RNNSearchDecoder) -> None:
        FairseqEncoderDecoderModel.__init__(self, encoder, decoder)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        *,
        target: Tensor | None = None,
        label_smoothing: float = 0.0,
        guides_attention: bool = True,
        **options,
    ) -> tuple:
        """Return the decoder's ``forward``, or, given the correct words, the cost of a batch.

        Criterions get the cost here, not from the decoder, because wrappers that share gradients
        among processes see only this function.

        Args:
            target: the correct words, ``(batch, target)``.
            guides_attention: whether the weights will be differentiated, too.

        Returns:
            With ``target``: the summed cost of all words but padding and their summed -log p, and
            ``{"attn": ...}`` as the decoder's ``forward`` returns it.
        """
        if target is None:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)
        words = src_tokens, prev_output_tokens, target
        if guides_attention or not torch.is_grad_enabled():
            cost, nll, alpha = self._cost(*words, label_smoothing)
        else:
            pads = [side.dictionary.pad() for side in (self.encoder, self.decoder, self.decoder)]
            with computing(self.decoder):
                backend = self.decoder.backend
            cost, nll, alpha = backend.training_cost(self._cost, self, words, pads, label_smoothing)
        return (cost, nll), {"attn": None if alpha is None else [alpha]}

    def _cost(
        self, source: Tensor, previous: Tensor, target: Tensor, label_smoothing: float
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.decoder.cost(previous, self.encoder(source), target, label_smoothing)

    @classmethod
    def build_model(cls, cfg: RNNSearchConfig, task) -> "RNNSearchModel":
        """Build from a configuration and the task's dictionaries."""
        patch_fairseq()
        add_younger_options(cfg)
        if isinstance(task, FairseqTask) and not isinstance(task, AlignmentTask):
            logger.warning(
                "%s instead of --task alignment_heatmap lacks the paper's batches and its "
                "limit of words, checks of the data, the fast search, heatmaps and "
                "alignments that do not depend on the batch",
                type(task).__name__,
            )
        words = task.source_dictionary, task.target_dictionary
        model = cls(*networks_of(cfg, *words, RNNSearchEncoder, RNNSearchDecoder))
        initialize(model, str(cfg.initialization))
        return model

    @classmethod
    def from_pretrained(cls, model_name_or_path: str, *args, **options) -> None:
        """Refuse: fairseq's function unpickles what it is given."""
        raise UserError("from_pretrained does not read this model: use fairseq_rnnsearch.load")

    def prepare_for_inference_(self, cfg: DictConfig) -> None:
        """Prepare for translation; fairseq calls this and does not train afterwards.

        Raises:
            UserError: as ``check_options``, and for dropout.
        """
        own_type = {"compute_dtype": self.encoder.compute_dtype}
        check_options({**cfg.common, **own_type}, ModelOptions)
        if cfg.generation.get("retain_dropout"):
            raise UserError("--retain-dropout: this model drops nothing out when it translates")
        super().prepare_for_inference_(cfg)
        self.prepare_to_translate()

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None) -> NamedTuple:
        """Load a checkpoint's parameters.

        Raises:
            UserError: as `TranslationModel.checked`.
        """
        state_dict = self.checked(state_dict)
        return super().load_state_dict(state_dict, strict, model_cfg, args)
