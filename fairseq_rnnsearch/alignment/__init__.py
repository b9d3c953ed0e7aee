"""Alignments: their pictures and pages (``figures``), and links of words (``evaluation``)."""
