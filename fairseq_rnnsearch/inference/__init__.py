"""Decode batches with a trained model into hypotheses with alignment weights.

All searching and scoring goes through ``decode``, which the task and ``Translator`` call.
"""
