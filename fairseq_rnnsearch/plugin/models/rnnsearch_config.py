"""The model's options as fairseq reads them."""

from dataclasses import dataclass, fields

from fairseq.dataclass import FairseqDataclass
from omegaconf import DictConfig, open_dict

from fairseq_rnnsearch.network.model_options import ModelOptions


@dataclass
class RNNSearchConfig(FairseqDataclass, ModelOptions):
    """fairseq's configuration of the model."""


def add_younger_options(cfg: RNNSearchConfig | DictConfig) -> None:
    """Add defaults for options that are newer than a checkpoint."""
    if isinstance(cfg, DictConfig):
        with open_dict(cfg):
            for option in fields(ModelOptions):
                cfg.setdefault(option.name, option.default)
