"""``rnnsearch-train``: from sentence pairs to a trained model, its translations and its scores.

``pairs`` reads and splits text. ``settings`` has the options, and fairseq's for them.
``steps`` runs each step of ``stages`` once; ``subwords`` is one of them. ``progress`` says what a
training takes, and how it goes.
"""
