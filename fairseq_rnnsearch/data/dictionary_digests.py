"""Digests of a checkpoint's dictionaries, to compare with those of data and texts."""

import hashlib
from typing import Any

from fairseq_rnnsearch.data.dictionary_file import file_of
from fairseq_rnnsearch.errors import UserError

STATE = "dictionaries"


def describe(dictionaries: dict[str, Any]) -> dict[str, dict]:
    """Return each side's number of symbols and a digest of them, in order.

    Args:
        dictionaries: fairseq's, or those of ``dictionary_file``, by side.
    """
    return {
        side: {"symbols": len(words), "sha256": _digest(words)}
        for side, words in dictionaries.items()
    }


def check(trained: object, dictionaries: dict[str, Any]) -> None:
    """Compare with what `describe` returned when the checkpoint was written.

    Args:
        trained: from the checkpoint; None in older ones.

    Raises:
        UserError: if a side has other symbols, or the same in another order.
    """
    if not isinstance(trained, dict):
        return
    for side, words in dictionaries.items():
        description = trained.get(side)
        if not isinstance(description, dict) or description.get("sha256") == _digest(words):
            continue
        count = description.get("symbols")
        difference = "other words or another order" if count == len(words) else f"{count} symbols"
        raise UserError(
            f"the {side} dictionary has {len(words)} symbols{file_of(words)}, but the checkpoint "
            f"was trained with {difference}: give the data folder (or dict files) that it was "
            "trained with, and the same languages"
        )


def _digest(dictionary: Any) -> str:
    return hashlib.sha256("\n".join(dictionary.symbols).encode("utf-8", "replace")).hexdigest()
