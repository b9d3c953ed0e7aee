"""The paper's appendix A, one idea per module: its equations and their parameters.

These modules use the paper's symbols; the manual's glossary maps them to the names that users see.
Matrices are stored as in the paper, so that a product reads ``x @ W.T``, but for the embeddings E,
whose rows are words.
"""

from fairseq_rnnsearch.paper.equations.alignment_model import (
    AlignmentModel,
    alignment_weights,
    attend,
    context,
    first_state,
)
from fairseq_rnnsearch.paper.equations.deep_output import DeepOutput, OutputLayer, maxout
from fairseq_rnnsearch.paper.equations.exchangeable import Attention, Memory, Unit
from fairseq_rnnsearch.paper.equations.gated_unit import GatedUnit
from fairseq_rnnsearch.paper.equations.word_embedding import BiasedEmbedding

__all__ = [
    "AlignmentModel",
    "Attention",
    "BiasedEmbedding",
    "DeepOutput",
    "GatedUnit",
    "Memory",
    "OutputLayer",
    "Unit",
    "alignment_weights",
    "attend",
    "context",
    "first_state",
    "maxout",
]
