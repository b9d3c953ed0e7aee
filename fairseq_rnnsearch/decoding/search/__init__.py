"""Beam search in single steps, and the authors' search, on lists; ``torch_steps`` needs torch."""

from fairseq_rnnsearch.decoding.search.authors_search import authors_search
from fairseq_rnnsearch.decoding.search.beam_search import Options, search

__all__ = ["Options", "authors_search", "search"]
