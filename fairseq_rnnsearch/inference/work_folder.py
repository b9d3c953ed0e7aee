"""Find a trained model, and the dictionaries that belong to it.

The recipes lay a work folder out as ``WORK/checkpoints/checkpoint_best.pt`` beside ``WORK/data``,
or with several models as ``WORK/trained-X/checkpoints/NAME/checkpoint_best.pt`` beside
``WORK/data-X``. A work folder may be copied or moved as a whole.
"""

from pathlib import Path

from fairseq.utils import split_paths

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.inference.model_folder import folder_of
from fairseq_rnnsearch.runs.checkpoints import read_checkpoint

DEEPEST = 4  # folders from a work folder down to a checkpoint, itself included


def checkpoint_of(path: str) -> str:
    """Return the checkpoint that a path means: a folder's best one, or else its last one.

    Raises:
        UserError: if a folder has checkpoints of several models.
    """
    folder = Path(path)
    if not folder.is_dir() or folder_of(path):
        return path
    for depth in range(DEEPEST):
        for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
            models = sorted(map(str, folder.glob("*/" * depth + name)))
            if len(models) > 1:
                raise UserError(f"{path} holds several models: name one of {', '.join(models)}")
            if models:
                return models[0]
    return path  # reading it checks what it holds


def data_of(checkpoint: str) -> str:
    """Return the data folder that a checkpoint was trained with, or one of its name beside it.

    Raises:
        UserError: if it is in neither place, or the checkpoint cannot be read.
    """
    trained_with = _data_named_in(checkpoint)
    named = Path(split_paths(trained_with)[0]) if trained_with else Path("data")
    if trained_with and named.is_dir():
        return trained_with
    for folder in list(Path(checkpoint).absolute().parents)[:DEEPEST]:
        if (folder / named.name).is_dir():
            return str(folder / named.name)
    raise UserError(
        f"checkpoint {checkpoint} was trained with the data in {str(named)!r}, which is neither "
        "there nor beside it: give the folder with its dictionaries as data (--data DIR)"
    )


def _data_named_in(checkpoint: str) -> str | None:
    """Return the option ``data`` of the training; the file is read without its tensors."""
    state = read_checkpoint(checkpoint)
    state = state if isinstance(state, dict) else {}
    options = state.get("args") if state.get("cfg") is None else state["cfg"].get("task")
    options = options if isinstance(options, dict) else vars(options or object)
    named = options.get("data")
    return named if isinstance(named, str) and named else None
