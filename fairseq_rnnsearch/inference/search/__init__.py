"""Beam search: fairseq's in single steps, and the authors'."""

import fairseq  # noqa: F401  (first, because this registers the parts)

from fairseq_rnnsearch.inference.search.authors_search import (
    AuthorsBeamSearch,
    AuthorsSequenceGenerator,
)
from fairseq_rnnsearch.inference.search.generator import StepwiseGenerator
from fairseq_rnnsearch.inference.search.posterior_scorer import PosteriorScorer

__all__ = ["AuthorsBeamSearch", "AuthorsSequenceGenerator", "PosteriorScorer", "StepwiseGenerator"]
