"""Registration of this package's parts with fairseq.

Importing the package neither imports nor changes fairseq. If fairseq is loaded already, the parts
are registered at once, otherwise as soon as somebody imports it.
"""

from fairseq_rnnsearch.import_hook import when_imported


def register_with_fairseq() -> None:
    """Register the architectures, the task, the criterion and the optimizer, now or later."""
    when_imported("fairseq", _register)


def _register() -> None:
    # each import registers a part with fairseq
    from fairseq_rnnsearch.plugin import criterions, models, optim, tasks  # noqa: F401
    from fairseq_rnnsearch.runs import mends

    # it fills in defaults before it calls anything of a --user-dir without tasks/
    when_imported("fairseq_cli.hydra_train", mends.mend_fairseq)
