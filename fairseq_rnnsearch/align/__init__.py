"""Links between words, judged and joined: ``rnnsearch-evaluate aer`` and ``symmetrise``.

`alignment_error_rate`, `agreement` and `symmetrisation` work on `links`.
"""
