"""The authors' beam search, inside fairseq's generator."""

from fairseq_rnnsearch.search.authors import AuthorsBeamSearch, AuthorsSequenceGenerator

__all__ = ["AuthorsBeamSearch", "AuthorsSequenceGenerator"]
