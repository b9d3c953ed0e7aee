"""Beam search in single steps, the authors' search, and scores of given words; without fairseq."""

from fairseq_rnnsearch.decoding.search.authors_search import (
    AuthorsLimits,
    AuthorsSearch,
    SecondAttempts,
)
from fairseq_rnnsearch.decoding.search.beam_search import BeamSearch, Limits, search_in_steps
from fairseq_rnnsearch.decoding.search.scorer import Scorer

__all__ = [
    "AuthorsLimits",
    "AuthorsSearch",
    "BeamSearch",
    "Limits",
    "Scorer",
    "SecondAttempts",
    "search_in_steps",
]
