"""Search for translations, and scores of given ones, over batches of sentences.

``decode`` is the one way to both; ``search`` has the searches.
"""
