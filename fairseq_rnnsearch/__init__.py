"""RNNsearch (Bahdanau, Cho and Bengio, ICLR 2015) as a fairseq plugin.

    fairseq-train DATA --user-dir fairseq_rnnsearch --arch rnnsearch_50 \\
        --task alignment_heatmap --criterion alignment_heatmap --optimizer rnnsearch_adadelta

Importing the package registers the architectures, the task, the criterion and the optimizer with
fairseq, as soon as that is imported, and changes nothing else (see ``registration``). ``load``
gives a trained model to Python; ``check`` compares other code with the authors' numbers.
"""

from typing import TYPE_CHECKING

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.plugin.registration import register_with_fairseq

if TYPE_CHECKING:
    from fairseq_rnnsearch.conformance import check
    from fairseq_rnnsearch.inference.loading import load
    from fairseq_rnnsearch.inference.translator import Translation, Translator

__version__ = "0.1.0"
__all__ = ["Translation", "Translator", "UserError", "check", "load"]

register_with_fairseq()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import what needs torch or numpy on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "check":
        from fairseq_rnnsearch import conformance

        return conformance.check
    from fairseq_rnnsearch.inference import loading, translator

    return vars(loading if name == "load" else translator)[name]
