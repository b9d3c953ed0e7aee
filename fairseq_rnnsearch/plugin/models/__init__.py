"""fairseq adapters of the networks: options, encoder, decoder, presets."""

import fairseq  # noqa: F401  (first, because this registers the parts)

from fairseq_rnnsearch.plugin.models import architectures
from fairseq_rnnsearch.plugin.models.rnnsearch import RNNSearchModel
from fairseq_rnnsearch.plugin.models.rnnsearch_config import RNNSearchConfig

__all__ = ["RNNSearchConfig", "RNNSearchModel", "architectures"]
