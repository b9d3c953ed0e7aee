"""The checkpoints of a training that a page shows."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from fairseq_rnnsearch.errors import UserError

MOST_CHECKPOINTS = 20

# fairseq's names of checkpoints, with what they count
_NAMES = {"update": r"checkpoint_\d+_(\d+)\.pt", "epoch": r"checkpoint(\d+)\.pt"}


def checkpoints_of(folder: Path, most: int) -> dict[str, Path]:
    """Return at most so many checkpoints of a training by their names, "update 100" or "epoch 3".

    They are in order. Those of updates (``--save-interval-updates``) are preferred to those of
    epochs.

    Raises:
        UserError: if the folder has fewer than two of a kind.
    """
    for unit, name in _NAMES.items():
        matches = ((re.fullmatch(name, path.name), path) for path in folder.glob("*.pt"))
        by_number = {int(match[1]): path for match, path in matches if match}
        if len(by_number) > 1:
            chosen = evenly_in_log_scale(sorted(by_number), most)
            return {f"{unit} {number}": by_number[number] for number in chosen}
    raise UserError(
        f"--training {folder}: must be a folder with two checkpoints of updates or epochs; "
        "train with --save-interval-updates, or without --no-epoch-checkpoints"
    )


def evenly_in_log_scale(numbers: Sequence[int], most: int) -> list[int]:
    """Choose at most so many of increasing numbers, evenly on a logarithmic scale."""
    if len(numbers) <= most:
        return list(numbers)
    first, last = math.log(numbers[0]), math.log(numbers[-1])
    wanted = (first + (last - first) * place / max(most - 1, 1) for place in range(most))
    return sorted({min(numbers, key=lambda one: abs(math.log(one) - want)) for want in wanted})
