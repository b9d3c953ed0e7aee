"""Reading checkpoints: safely, and what is wrong with one in a line."""

import argparse
import collections
import functools
import os
import pickle
import typing

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from fairseq_rnnsearch.errors import UserError


def allow_plain_types_in_checkpoints() -> None:
    """Name the plain types that fairseq puts into files, so that ``weights_only`` can stay on."""
    dtype_classes = [getattr(np.dtypes, name) for name in np.dtypes.__all__]
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,  # options of fairseq's older models and optimizers
            # --eval-bleu keeps its counts as arrays
            np.ndarray,
            np.dtype,
            np._core.multiarray._reconstruct,
            np._core.multiarray.scalar,
            *dtype_classes,
            # several processes resume: rank 0 sends the loaded state through torch.save
            DictConfig,
            ListConfig,
            ContainerMetadata,
            Metadata,
            AnyNode,
            typing.Any,
            dict,
            list,
            int,
            collections.defaultdict,
            distributed_utils._TensorPlaceholder,
        ]
    )


def refuse_other_checkpoints_in_one_line() -> None:
    """One line instead of a traceback for a file that is no checkpoint, or more than one."""
    load = checkpoint_utils.load_checkpoint_to_cpu

    @functools.wraps(load)
    def load_or_explain(path, *args, **kwargs) -> dict:
        try:
            return load(path, *args, **kwargs)
        except pickle.UnpicklingError as problem:
            found = str(problem).partition("GLOBAL ")[2].split(" ")[0] or "an unreadable pickle"
            raise UserError(
                f"checkpoint {path} refused: it holds {found.rstrip('.')}, and only tensors and "
                "plain values are loaded, because anything else can run code"
            ) from problem
        except (EOFError, OSError, RuntimeError) as problem:
            if not os.path.exists(path):
                raise UserError(f"checkpoint {path} does not exist") from problem
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            raise UserError(
                f"checkpoint {path} cannot be read ({os.path.getsize(path)} bytes; {reason}): it "
                "may be truncated; an older checkpoint can be named with --path or --restore-file"
            ) from problem

    load_models = checkpoint_utils.load_model_ensemble_and_task

    @functools.wraps(load_models)
    def load_models_or_explain(*args, **kwargs) -> tuple:
        try:
            return load_models(*args, **kwargs)
        except OSError as problem:
            raise UserError(f"--path: {problem}") from problem  # "Model file not found: ..."

    checkpoint_utils.load_checkpoint_to_cpu = load_or_explain
    checkpoint_utils.load_model_ensemble_and_task = load_models_or_explain
