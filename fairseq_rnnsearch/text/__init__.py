"""Text and dictionaries before they reach a model; uses numpy, not fairseq or torch."""
