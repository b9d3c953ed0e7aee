"""From a trained model and a batch to hypotheses with their alignment weights.

``decode`` is the one way to search and to score; the task and ``Translator`` both call it.
"""
