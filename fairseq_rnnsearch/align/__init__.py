"""Score and join word links: ``rnnsearch-evaluate aer`` and ``symmetrise``.

`alignment_error_rate` and `symmetrisation` work on `links`.
"""
