"""``rnnsearch-train``: from sentence pairs to a trained model, its translations and its scores.

``pairs`` reads text, ``split`` splits it, ``settings`` has the options, ``steps`` runs each step of
``stages`` once, and ``progress`` shows how a training goes.
"""
