"""Find a trained model in a folder.

rnnsearch-train lays a work folder out as ``WORK/checkpoints/checkpoint_best.pt`` beside
``WORK/data``, with a link ``WORK/checkpoint_best.pt`` to the checkpoint that translates. A recipe
with several models has ``WORK/trained-X/checkpoints/NAME/checkpoint_best.pt`` beside
``WORK/data-X``. A work folder may be copied or moved as a whole.
"""

from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.models.folder import CONFIG
from fairseq_rnnsearch.models.model_folders import PARAMETERS, folder_of, packaged

DEEPEST = 4  # folders from a work folder down to a checkpoint, itself included


def checkpoint_of(path: str) -> str:
    """Return the checkpoint that a path means: a folder's best one, or else its last one.

    Raises:
        UserError: if nothing is there, or a folder has checkpoints of several models.
    """
    folder = Path(path)
    if folder_of(path) or folder.is_file():
        return path
    if not folder.exists():
        names = " and ".join(packaged()) or "no model"
        raise UserError(f"checkpoint {path} does not exist; the package contains {names}")
    for depth in range(DEEPEST):
        for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
            models = sorted(map(str, folder.glob("*/" * depth + name)))
            if len(models) > 1:
                raise UserError(f"{path} holds several models: name one of {', '.join(models)}")
            if models:
                return models[0]
    if (folder / CONFIG).exists():
        raise UserError(f"{path} is not a complete model: it lacks {PARAMETERS}")
    return path  # reading it checks what it holds
