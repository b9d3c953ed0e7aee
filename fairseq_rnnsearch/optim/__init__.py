"""The paper's optimizer."""

from fairseq_rnnsearch.optim.adadelta import RNNSearchAdadelta, RNNSearchAdadeltaConfig

__all__ = ["RNNSearchAdadelta", "RNNSearchAdadeltaConfig"]
