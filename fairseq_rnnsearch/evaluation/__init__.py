"""How good hard alignments are: link files in, precision, recall and AER out.

    python -m fairseq_rnnsearch.evaluation aer --gold GOLD --hypothesis LINKS
    python -m fairseq_rnnsearch.evaluation symmetrise --forward F --inverse G --method union

`links` reads the files, `symmetrisation` joins two directions, `alignment_error_rate` scores.
"""

from fairseq_rnnsearch.evaluation.alignment_error_rate import (
    Counts,
    bootstrap_interval,
    count_links,
    total,
)
from fairseq_rnnsearch.evaluation.links import (
    Link,
    LinkFile,
    SentenceLinks,
    SentencePairs,
    read_links,
    read_sentence_pairs,
    same_sentences,
)
from fairseq_rnnsearch.evaluation.symmetrisation import METHODS, symmetrise

__all__ = [
    "METHODS",
    "Counts",
    "Link",
    "LinkFile",
    "SentenceLinks",
    "SentencePairs",
    "bootstrap_interval",
    "count_links",
    "read_links",
    "read_sentence_pairs",
    "same_sentences",
    "symmetrise",
    "total",
]
