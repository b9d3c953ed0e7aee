"""Beam search in single steps, and the authors' search, on lists; scores of given words by torch.

``torch_steps`` and ``scorer`` need torch.
"""

from fairseq_rnnsearch.decoding.search.authors_search import authors_search
from fairseq_rnnsearch.decoding.search.beam_search import Options, search

__all__ = ["Options", "authors_search", "search"]
