"""Checkpoints that are on the disk, whole, under their names; or not at all.

fairseq renames a checkpoint into place without flushing it, and writes the copies,
``checkpoint_last.pt`` and ``checkpoint_best.pt``, where the previous ones are: a process or a
machine that dies meanwhile leaves a truncated file, and no other by that name.
"""

import functools
import logging
import os
import shutil

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_rnnsearch import files
from fairseq_rnnsearch.files import replacing

logger = logging.getLogger(__name__)


def write_checkpoints_whole() -> None:
    """Write, copy and flush under a temporary name in the same folder, then rename."""
    save = checkpoint_utils.torch_persistent_save
    copy = PathManager.copy

    @functools.wraps(save)
    def save_whole(obj: dict, filename: str, async_write: bool = False) -> None:
        if async_write or not _is_local(filename):
            return save(obj, filename, async_write)
        with replacing(filename, durable=True) as unfinished, open(unfinished, "wb") as file:
            try:
                torch.save(obj, file)
            except RuntimeError as problem:
                # torch speaks of a wrong position in the file after "No space left on device"
                raise problem.__context__ if _is_of_the_disk(problem) else problem from None

    @functools.wraps(copy)
    def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        if not (_is_local(src_path) and _is_local(dst_path)):
            return copy(src_path, dst_path, overwrite)
        with replacing(dst_path, durable=True) as unfinished:
            shutil.copyfile(src_path, unfinished)
        return True

    checkpoint_utils.torch_persistent_save = save_whole
    PathManager.copy = staticmethod(copy_whole)


def _is_of_the_disk(problem: BaseException) -> bool:
    return isinstance(problem.__context__, OSError)


def _is_local(path: str) -> bool:
    """Whether a path is a file of this machine: fairseq also writes to object stores."""
    return "://" not in os.fspath(path)


def remove_unfinished(folder: str) -> None:
    """Remove what runs that are no more were writing in ``--save-dir``; the folders in it have
    owners of their own.
    """
    if removed := files.remove_unfinished(folder):
        logger.info(f"Removed {removed} unfinished files of an interrupted run in {folder}")
