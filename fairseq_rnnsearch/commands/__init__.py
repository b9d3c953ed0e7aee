"""Trained models in use: ``load``, its results, and the commands."""
