"""``from_pretrained``: fairseq's loading of a folder or an archive, with nothing that can run."""

import contextlib
import lzma
import os
import tarfile
import tempfile
import zlib
from pathlib import Path

from fairseq import hub_utils
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf

from fairseq_rnnsearch.data.model_folders import folder_of
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import open_plain
from fairseq_rnnsearch.runs import mends


def from_pretrained(
    model: type, model_name_or_path: str, *args, **options
) -> hub_utils.GeneratorHubInterface:
    """Load as fairseq does, from a folder, or from an archive that Python unpacks as data.

    The checkpoint's settings for subwords (``bpe``), tokenizer and search are ignored: they
    could name any local file or an address. Options of these names count.

    Args:
        model: the class whose ``hub_models()`` names archives.

    Raises:
        UserError: for a checkpoint or an archive that holds anything else.
    """
    has_checkpoint = any(Path(model_name_or_path).glob("*.pt"))
    if folder_of(model_name_or_path) and not has_checkpoint:
        raise UserError(
            f"{model_name_or_path} is a model as a folder, which fairseq cannot read; "
            "fairseq_rnnsearch.load opens it"
        )
    if not (os.path.exists(model_name_or_path) or "://" in str(model_name_or_path)):
        raise UserError(
            f"{model_name_or_path} does not exist; expected a folder with a checkpoint, or "
            "an archive of one"
        )
    with contextlib.ExitStack() as stack:
        if os.path.isfile(model_name_or_path):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            model_name_or_path = _unpacked(model_name_or_path, folder)
        with mends.reading_as_data():
            loaded = hub_utils.from_pretrained(
                model_name_or_path, *args, archive_map=model.hub_models(), **options
            )
        cfg = loaded["args"]
        OmegaConf.set_struct(cfg, False)
        for group in ("bpe", "tokenizer"):
            if group not in options:
                cfg[group] = None
        cfg.generation = OmegaConf.structured(GenerationConfig)
        given = options | (options.get("generation_args") or {})
        for name in cfg.generation.keys() & given.keys():
            cfg.generation[name] = given[name]
        # while an archive's folder is there, which may hold the codes of its subwords
        return hub_utils.GeneratorHubInterface(cfg, loaded["task"], loaded["models"])


def _unpacked(archive: str, folder: str) -> str:
    """Unpack an archive into a folder, and return the folder with the model."""
    try:
        with open_plain(archive) as file, tarfile.open(fileobj=file) as members:
            members.extractall(folder, filter="data")
            while members.fileobj.read(2**20):  # gzip compares its checksum at the file's end
                pass
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error) as problem:
        said = str(problem).partition(":\n")[0]
        raise UserError(f"{archive} cannot be unpacked ({said}): name a folder") from problem
    inside = os.listdir(folder)
    only = os.path.join(folder, inside[0]) if len(inside) == 1 else folder
    return only if os.path.isdir(only) else folder
