"""``rnnsearch-train``: from sentence pairs to a trained model, its translations and its scores.

``pairs`` reads text, ``split`` parts it, ``settings`` has what can be chosen, ``steps`` does each
step of ``stages`` once, and ``progress`` shows how a training goes.
"""
