"""fairseq adapters of the networks: configuration, encoder, decoder, presets."""

from fairseq_rnnsearch.models import architectures
from fairseq_rnnsearch.models.rnnsearch import RNNSearchConfig, RNNSearchModel

__all__ = ["RNNSearchConfig", "RNNSearchModel", "architectures"]
