"""The paper as pure functions of tensors: appendix A, one idea per module.

Paper symbols are used inside these modules; the README's glossary joins them to the names that
users see. All weights are stored as in the paper, so that a product reads ``x @ W.T``.
"""

from fairseq_rnnsearch.equations.alignment_model import (
    alignment_weights,
    context,
    energies,
)
from fairseq_rnnsearch.equations.deep_output import maxout, maxout_input
from fairseq_rnnsearch.equations.gated_unit import gated_unit

__all__ = [
    "alignment_weights",
    "context",
    "energies",
    "gated_unit",
    "maxout",
    "maxout_input",
]
