"""RNNsearch (Bahdanau, Cho and Bengio, ICLR 2015) as a fairseq plugin.

    fairseq-train DATA --user-dir fairseq_rnnsearch --arch rnnsearch_50 \\
        --task alignment_heatmap --criterion alignment_heatmap --optimizer rnnsearch_adadelta

Importing the package registers the architectures, the task, the criterion and the optimizer with
fairseq, and changes nothing else. If fairseq is not imported yet, this waits until somebody imports
it. ``load`` gives a trained model to Python; ``check`` compares other code with the authors'
numbers.
"""

from typing import TYPE_CHECKING

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.import_hook import when_imported

if TYPE_CHECKING:
    from fairseq_rnnsearch.commands.loading import load
    from fairseq_rnnsearch.commands.translator import Translation, Translator
    from fairseq_rnnsearch.conformance import check

__version__ = "0.1.0"
__all__ = ["Translation", "Translator", "UserError", "check", "load"]


def _register() -> None:
    # each import registers a part with fairseq
    from fairseq_rnnsearch.plugin import adadelta, architectures, criterion, task  # noqa: F401
    from fairseq_rnnsearch.runs import patches

    # it fills in defaults before it calls a --user-dir that has no tasks/
    when_imported("fairseq_cli.hydra_train", patches.patch_fairseq)


when_imported("fairseq", _register)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import what needs torch or numpy on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "check":
        from fairseq_rnnsearch import conformance

        return conformance.check
    from fairseq_rnnsearch.commands import loading, translator

    return vars(loading if name == "load" else translator)[name]
