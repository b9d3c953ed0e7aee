"""Names of parameters and options that older checkpoints and folders have."""

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, TypeVar

from fairseq_rnnsearch.errors import UserError, option_of

_Parameter = TypeVar("_Parameter")  # an array or a tensor
_OLDER = re.compile(r"^(encoder|decoder)\.network\.")

# options that are gone: the value with which a model is the same today, and who has the others
_REMOVED = {
    "unit": ("gated", "--user-dir recipes/ablations/arms trains such models"),
    "alignment_model": ("additive", "--user-dir recipes/ablations/arms trains such models"),
    "target_foresight": (False, "--user-dir recipes/hansards/foresight trains such models"),
    "train_alignment_model_only": (False, "--user-dir recipes/hansards/foresight has it"),
}


def current_names(parameters: Mapping[str, _Parameter]) -> dict[str, _Parameter]:
    """Return parameters under today's names; until d09b774 they began with "encoder.network."."""
    if "encoder.network.embedding.bias" not in parameters:  # of today, or not of this model
        return dict(parameters)
    return {_OLDER.sub(r"\1.", name): value for name, value in parameters.items()}


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
