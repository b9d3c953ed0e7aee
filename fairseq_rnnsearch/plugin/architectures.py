"""Presets: differences from the configuration's defaults, which are the paper's sizes.

A number in a preset's name is the longest training sentence in tokens, in the paper words, as in
RNNsearch-30 and RNNsearch-50; the ``alignment_heatmap`` task drops longer pairs.
"""

from argparse import Namespace

from fairseq.models import register_model_architecture

from fairseq_rnnsearch.plugin.model import MODEL


def _unless_typed(args: Namespace, **defaults) -> None:
    """Set options; ``RNNSearchModel`` warns if the task has none of ``max_train_words``."""
    for name, value in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)


@register_model_architecture(MODEL, "rnnsearch_50")
def rnnsearch_50(args: Namespace) -> None:
    _unless_typed(args, max_train_words=50)


@register_model_architecture(MODEL, "rnnsearch_30")
def rnnsearch_30(args: Namespace) -> None:
    _unless_typed(args, max_train_words=30)


@register_model_architecture(MODEL, "rnnencdec_50")
def rnnencdec_50(args: Namespace) -> None:
    _unless_typed(args, fixed_context=True, max_train_words=50)


@register_model_architecture(MODEL, "rnnencdec_30")
def rnnencdec_30(args: Namespace) -> None:
    _unless_typed(args, fixed_context=True, max_train_words=30)


@register_model_architecture(MODEL, "rnnsearch_tiny")
def rnnsearch_tiny(args: Namespace) -> None:
    """Choose sizes for the quickstart: minutes on a laptop."""
    _unless_typed(
        args,
        encoder_embed_dim=64,
        encoder_hidden_size=128,
        decoder_embed_dim=64,
        decoder_hidden_size=128,
        attention_size=128,
        maxout_size=64,
    )
