"""Trained models in people's hands: ``load`` and its results, folders, and the commands."""
