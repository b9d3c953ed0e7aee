"""What fairseq saves and sends of a training, as plain values."""

import argparse
import functools

import numpy as np
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.logging.meters import AverageMeter, SumMeter
from omegaconf import DictConfig, OmegaConf


def keep_counts_as_lists() -> None:
    """Save the counts of ``--eval-bleu`` as lists; fairseq saves them as arrays of numpy.

    In files with arrays the reader has made lists of them.
    """
    for meter in (AverageMeter, SumMeter):
        _keep_as_lists(meter)


def _keep_as_lists(meter: type) -> None:
    state_dict, load_state_dict = meter.state_dict, meter.load_state_dict

    def with_lists(self) -> dict:
        return {
            name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            for name, value in state_dict(self).items()
        }

    def load_with_lists(self, state: dict) -> None:
        arrays = {name: np.array(v) for name, v in state.items() if isinstance(v, list)}
        load_state_dict(self, {**state, **arrays})

    meter.state_dict, meter.load_state_dict = with_lists, load_with_lists


def let_processes_share_a_checkpoint() -> None:
    """Let one process of a training tell the others what it has read.

    fairseq sends it as a file of torch's, which must hold plain values and the places of tensors.
    """
    broadcast = distributed_utils.broadcast_object
    allowed = {distributed_utils._TensorPlaceholder, argparse.Namespace}

    @functools.wraps(broadcast)
    def broadcast_plain(obj: object, *args, **kwargs) -> object:
        if isinstance(obj, dict) and isinstance(obj.get("cfg"), DictConfig):
            obj = {**obj, "cfg": OmegaConf.to_container(obj["cfg"])}
        # what the program itself has allowed before stays allowed after
        new = list(allowed - set(torch.serialization.get_safe_globals()))
        with torch.serialization.safe_globals(new):
            return broadcast(obj, *args, **kwargs)

    distributed_utils.broadcast_object = broadcast_plain
