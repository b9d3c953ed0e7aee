"""The paper's optimizer."""

import fairseq  # noqa: F401  (first, because this registers the parts)

from fairseq_rnnsearch.plugin.optim.adadelta import RNNSearchAdadelta, RNNSearchAdadeltaConfig

__all__ = ["RNNSearchAdadelta", "RNNSearchAdadeltaConfig"]
