"""Make checkpoints of models, and write checkpoints that appear whole or not at all.

fairseq renames a checkpoint into place without flushing it, and writes the copies,
``checkpoint_last.pt`` and ``checkpoint_best.pt``, over the previous ones: a process or a machine
that dies meanwhile leaves only a truncated file.
"""

import logging
import shutil

import torch
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf

from fairseq_rnnsearch.errors import counted
from fairseq_rnnsearch.files import remove_unfinished, replacing

logger = logging.getLogger(__name__)


def checkpoint_of_model(parameters: dict, options: dict, task: dict, task_state: dict) -> dict:
    """Return a checkpoint that holds a model but no training to resume.

    Args:
        options, task: those of the model and of the task, each with its ``_name``.
    """
    cfg = OmegaConf.to_container(OmegaConf.structured(FairseqConfig), enum_to_str=True)
    cfg["checkpoint"]["best_checkpoint_metric"] = "nll_loss"
    history = {"optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}
    return {
        "args": None,
        "cfg": cfg | {"model": options, "task": task, "criterion": {"_name": "alignment_heatmap"}},
        "model": parameters,
        "criterion": None,
        "optimizer_history": [history | {"num_updates": 0}],
        "task_state": task_state,
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }


def write_whole(state: dict, path: str) -> None:
    """Write a checkpoint under a temporary name in the same folder, flush it, and rename it."""
    with replacing(path, durable=True) as unfinished, open(unfinished, "wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as problem:
            # after "No space left on device", torch complains of a wrong position in the file
            of_the_disk = isinstance(problem.__context__, OSError)
            raise problem.__context__ if of_the_disk else problem from None


def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Write as ``write_whole`` does; this replaces fairseq's ``PathManager.copy``."""
    with replacing(dst_path, durable=True) as unfinished:
        shutil.copyfile(src_path, unfinished)
    return True


def clean_save_dir(folder: str) -> None:
    """Remove what dead runs left unfinished in ``--save-dir``.

    The folders in it have owners of their own.
    """
    if removed := remove_unfinished(folder):
        logger.info(
            f"Removed {counted(removed, 'unfinished file')} of an interrupted run in {folder}"
        )
