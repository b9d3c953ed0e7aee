"""Find the model that a name or a path means, and the checkpoints of a training.

rnnsearch-train lays a work folder out as ``WORK/checkpoints/checkpoint_best.pt`` beside
``WORK/data``, with a link ``WORK/checkpoint_best.pt`` to the checkpoint that translates. A recipe
with several models has ``WORK/trained-X/checkpoints/NAME/checkpoint_best.pt`` beside
``WORK/data-X``. A work folder may be copied or moved as a whole.
"""

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

from fairseq_rnnsearch.errors import UserError

CONFIG, PARAMETERS = "config.json", "model.safetensors"
_DEEPEST = 4  # folders from a work folder down to a checkpoint, itself included
MOST_CHECKPOINTS = 20
_PACKAGED = Path(__file__).parents[1] / "pretrained"

# fairseq's names of checkpoints, with what they count
_NAMES = {"update": r"checkpoint_\d+_(\d+)\.pt", "epoch": r"checkpoint(\d+)\.pt"}


def packaged() -> list[str]:
    """Return the names of the models included in the package, such as "en-fr"."""
    return sorted(path.parent.name for path in _PACKAGED.glob(f"*/{PARAMETERS}"))


def find_model(place: str | os.PathLike[str]) -> Path:
    """Return a model's folder (see ``models.folder``) or checkpoint.

    Args:
        place: a model of the package, such as "en-fr"; a model's folder, or its parameters in it;
            a checkpoint; or any other folder, which means its best checkpoint, or else its last.

    Raises:
        UserError: if no model is there, or a folder has checkpoints of several.
    """
    path = Path(place)
    if path.name == PARAMETERS:
        return path.parent
    if path.is_file() or os.path.lexists(path / PARAMETERS):
        return path
    if not path.exists():
        if str(place) in packaged():
            return _PACKAGED / place
        names = " and ".join(packaged()) or "no model"
        raise UserError(f"checkpoint {place} does not exist; the package contains {names}")
    for depth in range(_DEEPEST):
        for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
            models = sorted(path.glob("*/" * depth + name))
            if len(models) > 1:
                listed = ", ".join(map(str, models))
                raise UserError(f"{place} holds several models: name one of {listed}")
            if models:
                return models[0]
    raise UserError(f"{place} holds no model: neither {PARAMETERS} nor a checkpoint_best.pt")


def find_beside(checkpoint: str, name: str) -> Path | None:
    """Return the folder of that name in the work folder of a checkpoint, or None."""
    around = list(Path(checkpoint).absolute().parents)[:_DEEPEST]
    return next((folder / name for folder in around if (folder / name).is_dir()), None)


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
