"""Beam search: fairseq's in single steps, and the authors'."""

from fairseq_rnnsearch.search.authors import AuthorsBeamSearch, AuthorsSequenceGenerator
from fairseq_rnnsearch.search.generator import StepwiseGenerator

__all__ = ["AuthorsBeamSearch", "AuthorsSequenceGenerator", "StepwiseGenerator"]
