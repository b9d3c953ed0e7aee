"""``rnnsearch-train``: from sentence pairs to a trained model, its translations and its scores.

``pairs`` reads text, and ``split`` splits it. ``settings`` has the options, ``train_options`` turns
them into fairseq's, and ``estimate`` says what they take. ``steps`` runs each step of ``stages``
once; ``subwords`` and ``averaging`` are two of them, and ``progress`` shows how a training goes.
"""
