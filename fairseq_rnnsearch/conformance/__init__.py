"""Checks whether code computes what the authors' program computes; names what it does instead.

    rnnsearch-check mymodel.py:step

``authors_numbers`` has the program's numbers, ``given_code`` runs the code that is checked, and
``verdict`` compares. Where they differ, ``catalogue`` knows what implementations do, and
``variant_model`` computes it. Needs NumPy; torch only for code that takes torch's tensors.
"""

from fairseq_rnnsearch.conformance.verdict import Report, check

__all__ = ["Report", "check"]
