"""Before the first update, check that all processes of a training agree.

Gradients from processes with different dictionaries, sentences or options would still be added up,
and mean nothing; with different numbers of batches, one process waits for the others in vain.
"""

import hashlib
from argparse import Namespace
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer

from fairseq_rnnsearch import __version__
from fairseq_rnnsearch.errors import UserError, option_of
from fairseq_rnnsearch.runs.processes import refuse_in_all

_SECTIONS = ("task", "model", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset")
_SECTIONS += ("checkpoint",)  # saving validates, which processes do together
# These may differ between machines.
_OF_A_MACHINE = {"data", "num_workers", "num_workers_valid", "data_buffer_size", "save_dir"}
_OF_A_MACHINE |= {"restore_file"}  # the first process chooses for all
_OF_A_MACHINE |= {"heatmap_dir", "tensorboard_logdir", "guided_alignment"}
_SENTENCES = 1000  # of the training data are read to compare them, evenly spread


def check_equal(trainer: Trainer, iterator: EpochBatchIterator) -> None:
    """Compare what each process is about to train.

    Raises:
        UserError: in the first process, naming the difference; the others end too.
    """
    if trainer.data_parallel_world_size == 1:
        return
    everywhere: list[dict[str, Any]] = [{}] * trainer.data_parallel_world_size
    torch.distributed.all_gather_object(everywhere, _facts(trainer, iterator))
    first = everywhere[0]
    for process, facts in enumerate(everywhere):
        for name in sorted(first.keys() | facts.keys()):
            if facts.get(name) != first.get(name):
                mistake = UserError(
                    f"the processes do not train the same: {name} is {facts.get(name)} in process "
                    f"{process} and {first.get(name)} in process 0; give all of them the same "
                    "command, data and versions"
                )
                refuse_in_all(mistake, distributed_utils.get_global_rank())


def _facts(trainer: Trainer, iterator: EpochBatchIterator) -> dict[str, Any]:
    """Return what must be equal, by the names that a message shows."""
    facts: dict[str, Any] = {
        "the version of torch": torch.__version__,
        "the version of fairseq_rnnsearch": __version__,
        "--seed": trainer.cfg.common.seed,
        "the number of batches of an epoch": len(iterator),
    }
    for section in _SECTIONS:
        options = trainer.cfg[section] or {}
        # a Namespace for fairseq's models from before its dataclasses
        options = vars(options) if isinstance(options, Namespace) else dict(options)
        for name, value in options.items():
            if name not in _OF_A_MACHINE:
                facts[option_of(name)] = str(value)
    task = trainer.task
    for side, dictionary in (
        ("source", task.source_dictionary),
        ("target", task.target_dictionary),
    ):
        if isinstance(dictionary, Dictionary):
            facts[f"the {side} dictionary"] = _digest("\n".join(dictionary.symbols).encode())
    for name, data in task.datasets.items():
        if isinstance(data, FairseqDataset):
            facts[f"the data of {name}"] = _digest(_sample(data))
    return facts


def _sample(data: FairseqDataset) -> bytes:
    """Return the number of sentences, and the words of some of them."""
    chosen = np.unique(np.linspace(0, len(data) - 1, _SENTENCES).astype(int)) if len(data) else []
    sentences = [[part.tolist() for part in _tensors(data[int(i)])] for i in chosen]
    return repr((len(data), sentences)).encode()


def _tensors(sentence: Any) -> list[torch.Tensor]:
    values = sentence.values() if isinstance(sentence, dict) else [sentence]
    return [value for value in values if isinstance(value, torch.Tensor)]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
