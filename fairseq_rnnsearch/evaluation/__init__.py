"""Files in, tables and figures out: `python -m fairseq_rnnsearch.evaluation COMMAND`.

    report                              the paper's evaluation in report.md and report.html
    bleu, training, lengths,            its parts: Tables 1 and 2, Figures 2 and 3, Table 3
    alignments, examples
    aer, symmetrise                     hard alignments against gold links

The commands are in `commands/`. What they compute is here: `bleu`, `lengths`, `training_log` and
`examples` for the report, which `results` lays out as `tables` beside the values of `paper`,
`report` puts in order, and `document` and `page` write; `links` reads files of links,
`symmetrisation` joins two directions, `alignment_error_rate` scores them.
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
