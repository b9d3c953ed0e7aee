"""Links between words, and unknown words: ``rnnsearch-evaluate COMMAND``.

    aer, symmetrise                       hard alignments against gold links
    alignments                            chosen alignments as pictures
    dictionary, replace-unk, no-unk       unknown words

`alignment_error_rate` and `symmetrisation` work on `links`, and `unknown_words` on texts and links.
The paper's tables and figures are made by ``python recipes/reporting``.
"""
