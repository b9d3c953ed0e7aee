"""Data before it reaches a model, with numpy, without fairseq and torch."""
