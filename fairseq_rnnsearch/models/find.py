"""Find a trained model by a name of the package, or in a folder.

A model is a folder, see ``models.folder``, or a checkpoint of fairseq-train. rnnsearch-train lays a
work folder out as ``WORK/checkpoints/checkpoint_best.pt`` beside ``WORK/data``, with a link
``WORK/checkpoint_best.pt`` to the checkpoint that translates. A recipe with several models has
``WORK/trained-X/checkpoints/NAME/checkpoint_best.pt`` beside ``WORK/data-X``. A work folder may be
copied or moved as a whole.
"""

import os
from pathlib import Path

from fairseq_rnnsearch.errors import UserError

CONFIG, PARAMETERS = "config.json", "model.safetensors"
_PACKAGED = Path(__file__).parents[1] / "pretrained"
_DEEPEST = 4  # folders from a work folder down to a checkpoint, itself included


def packaged() -> list[str]:
    """Return the names of the models included in the package, such as "en-fr"."""
    return sorted(path.parent.name for path in _PACKAGED.glob(f"*/{PARAMETERS}"))


def folder_of(path: str | os.PathLike[str]) -> Path | None:
    """Return the model folder that a path or an included model's name means, or None.

    The path may also be that of its parameters.
    """
    if Path(path).name == PARAMETERS:
        return Path(path).parent
    if os.path.lexists(Path(path) / PARAMETERS):
        return Path(path)
    if not Path(path).exists() and str(path) in packaged():
        return _PACKAGED / path
    return None


def find_model(place: str) -> str:
    """Return the model that a place means: of a work folder the best checkpoint, or else the last.

    Raises:
        UserError: if nothing is there, or a folder has checkpoints of several models.
    """
    folder = Path(place)
    if folder_of(place) or folder.is_file():
        return place
    if not folder.exists():
        names = " and ".join(packaged()) or "no model"
        raise UserError(f"checkpoint {place} does not exist; the package contains {names}")
    for depth in range(_DEEPEST):
        for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
            models = sorted(map(str, folder.glob("*/" * depth + name)))
            if len(models) > 1:
                raise UserError(f"{place} holds several models: name one of {', '.join(models)}")
            if models:
                return models[0]
    if (folder / CONFIG).exists():
        raise UserError(f"{place} is not a complete model: it lacks {PARAMETERS}")
    return place  # reading it checks what it holds


def find_beside(checkpoint: str, name: str) -> Path | None:
    """Return the folder of that name in the work folder of a checkpoint, or None."""
    around = list(Path(checkpoint).absolute().parents)[:_DEEPEST]
    return next((folder / name for folder in around if (folder / name).is_dir()), None)
