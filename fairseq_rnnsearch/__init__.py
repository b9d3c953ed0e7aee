"""RNNsearch (Bahdanau, Cho and Bengio, ICLR 2015) as a fairseq plugin.

    fairseq-train DATA --user-dir fairseq_rnnsearch --arch rnnsearch_50 \\
        --task alignment_heatmap --criterion alignment_heatmap --optimizer rnnsearch_adadelta

Importing the package registers the architectures, the task, the criterion and the optimizer;
``load`` gives a trained model to Python.
"""

__version__ = "0.1.0"

try:
    import fairseq  # noqa: F401
except ImportError as problem:
    raise ImportError(
        "fairseq_rnnsearch needs fairseq-fixed 0.12.3.1. With torch installed: pip install "
        "setuptools wheel cython numpy && pip install --no-build-isolation fairseq-fixed==0.12.3.1"
    ) from problem

from fairseq_rnnsearch import compat

compat.apply()

# each import registers a part with fairseq
from fairseq_rnnsearch import criterions, models, optim, tasks  # noqa: E402
from fairseq_rnnsearch.translator import Translation, Translator, load  # noqa: E402

__all__ = ["Translation", "Translator", "criterions", "load", "models", "optim", "tasks"]
