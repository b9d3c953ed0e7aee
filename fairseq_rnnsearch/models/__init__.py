"""fairseq adapters of the networks: configuration, encoder, decoder, presets."""

import fairseq  # noqa: F401  (first, because it lets the parts be registered)

from fairseq_rnnsearch.models import architectures
from fairseq_rnnsearch.models.rnnsearch import RNNSearchConfig, RNNSearchModel

__all__ = ["RNNSearchConfig", "RNNSearchModel", "architectures"]
