"""Which paths and names mean a model as a folder, see ``models.folder``."""

import os
from pathlib import Path

PARAMETERS = "model.safetensors"
_PACKAGED = Path(__file__).parents[1] / "pretrained"


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
