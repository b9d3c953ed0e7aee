"""Options of models that this version no longer has, in older checkpoints and folders."""

from collections.abc import MutableMapping
from typing import Any

from fairseq_rnnsearch.errors import UserError, option_of

# the value with which a model is the same today, and who has the others
_REMOVED = {
    "unit": ("gated", "--user-dir recipes/ablations/arms trains such models"),
    "alignment_model": ("additive", "--user-dir recipes/ablations/arms trains such models"),
    "target_foresight": (False, "--user-dir recipes/hansards/foresight trains such models"),
    "train_alignment_model_only": (False, "--user-dir recipes/hansards/foresight has it"),
}


def drop_removed(options: MutableMapping[str, Any]) -> None:
    """Drop options that change nothing.

    Raises:
        UserError: for one that does.
    """
    for name, (neutral, instead) in _REMOVED.items():
        value = options.pop(name, neutral)
        if str(value) != str(neutral):
            raise UserError(
                f"{option_of(name)} {value}: commit d09b774 was the last that reads this model; "
                f"{instead}"
            )
