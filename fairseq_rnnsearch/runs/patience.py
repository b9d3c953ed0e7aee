"""The count of ``--patience``, which fairseq keeps as attributes of a function."""

import sys


def state() -> dict:
    """Return the best validation and the number since; an empty dict without any."""
    return dict(_count())


def load(count: dict) -> None:
    """Continue the count that ``state`` returned, and no other."""
    _count().clear()
    _count().update({name: count[name] for name in ("best", "num_runs") if name in count})


def _count() -> dict:
    program = sys.modules.get("fairseq_cli.train")
    return {} if program is None else vars(program.should_stop_early)
