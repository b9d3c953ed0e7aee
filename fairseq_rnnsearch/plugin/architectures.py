"""Presets: differences from the configuration's defaults, which are the paper's sizes.

A number in a preset's name is the longest training sentence in tokens, in the paper words, as in
RNNsearch-30 and RNNsearch-50; the ``alignment_heatmap`` task drops longer pairs.
"""

from argparse import Namespace
from functools import partial

from fairseq.models import register_model_architecture

from fairseq_rnnsearch.plugin.model import MODEL

_PRESETS = {
    "rnnsearch_50": {"max_train_words": 50},
    "rnnsearch_30": {"max_train_words": 30},
    "rnnencdec_50": {"fixed_context": True, "max_train_words": 50},
    "rnnencdec_30": {"fixed_context": True, "max_train_words": 30},
    "rnnsearch_tiny": {  # for the quickstart: minutes on a laptop
        "encoder_embed_dim": 64,
        "encoder_hidden_size": 128,
        "decoder_embed_dim": 64,
        "decoder_hidden_size": 128,
        "attention_size": 128,
        "maxout_size": 64,
    },
}


def _unless_typed(args: Namespace, **preset) -> None:
    """Set options; ``RNNSearchModel`` warns if the task has no ``max_train_words``."""
    for name, value in preset.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)


for _name, _preset in _PRESETS.items():
    register_model_architecture(MODEL, _name)(partial(_unless_typed, **_preset))
