"""An arm: RNNsearch with one ingredient changed, as an architecture of fairseq."""

from collections.abc import Callable
from functools import partial

import torch
from fairseq.models import register_model
from torch import nn

from fairseq_rnnsearch.network import Decoder, Encoder, initialize
from fairseq_rnnsearch.plugin.model import RNNSearchConfig, RNNSearchModel

Start = Callable[[nn.Module], None]
Change = Callable[[Encoder, Decoder, Start], None]


def arm(change: Change) -> Change:
    """Register RNNsearch with this change under the function's name."""

    @register_model(change.__name__, dataclass=RNNSearchConfig)
    class Arm(RNNSearchModel):
        @classmethod
        def build_model(cls, cfg: RNNSearchConfig, task) -> RNNSearchModel:
            model = super().build_model(cfg, task)
            start = partial(initialize, initialization=str(cfg.initialization))
            with torch.no_grad():
                change(model.encoder, model.decoder, start)
            return model

    return change
