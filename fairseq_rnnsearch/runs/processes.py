"""Several processes: sharing a training, the first one's decisions, a common end.

Before the first update they agree on what they train. Gradients from processes with different
dictionaries, sentences or options would still be added up, and mean nothing; with different numbers
of batches, one process waits for the others in vain.
"""

import hashlib
import os
import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import DictConfig

from fairseq_rnnsearch import __version__
from fairseq_rnnsearch.errors import UserError, option_of
from fairseq_rnnsearch.text.compatibility import describe

Decision = TypeVar("Decision")
_SECTIONS = (
    *("task", "model", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset"),
    "checkpoint",  # saving validates, which processes do together
)
# options that may differ between machines
_OF_A_MACHINE = {
    *("data", "num_workers", "num_workers_valid", "data_buffer_size", "save_dir"),
    "restore_file",  # the first process chooses for all
    *("heatmap_dir", "tensorboard_logdir", "guided_alignment"),
}
_SENTENCES = 1000  # sentences of the training data to compare, evenly spread


def share_and_call(call_main: Callable, cfg: DictConfig, main: Callable, **options) -> None:
    """Let ``torchrun --nproc_per_node 2 $(which fairseq-train) ... --cpu`` start one training.

    fairseq counts GPUs to find the number of processes. With one or none, it starts independent
    copies that all write to the same folder.

    Args:
        call_main: fairseq's function; the other arguments are its own.
    """
    distributed = cfg.distributed_training
    if not torch.cuda.is_available() or cfg.common.cpu:
        _share_without_gpus(distributed)
    elif (processes := _started_by_torchrun(distributed)) > 1:
        distributed.distributed_world_size = processes  # fairseq then asks torchrun for the rest
    call_main(cfg, main, **options)


def _started_by_torchrun(options: DictConfig) -> int:
    """Return how many processes torchrun has started, or 1 with ``--distributed-init-method``."""
    named = all(name in os.environ for name in ("MASTER_ADDR", "MASTER_PORT", "RANK"))
    if not named or options.distributed_init_method is not None:
        return 1
    return int(os.environ.get("WORLD_SIZE", "1"))


def _share_without_gpus(options: DictConfig) -> None:
    """Change the options of distributed training so that no GPU is asked for.

    Raises:
        UserError: if the processes are as many as GPUs, of which none is used.
    """
    processes = _started_by_torchrun(options)
    if processes > 1:
        options.distributed_init_method = "env://"
        options.distributed_world_size = processes
        options.distributed_rank = int(os.environ["RANK"])
        options.device_id = 0
        options.distributed_backend = "gloo"
        options.distributed_no_spawn = True
    elif not options.distributed_no_spawn:
        asked = options.distributed_world_size
        # by default it is the number of GPUs, which --cpu does not use
        if options.distributed_init_method or asked not in (1, torch.cuda.device_count()):
            raise UserError(
                f"--distributed-world-size {asked} needs as many GPUs, and none is used: start the "
                f"processes with torchrun --nproc_per_node {asked} and add --cpu"
            )
        options.distributed_world_size = 1
    if options.ddp_backend in ("c10d", "pytorch_ddp"):
        options.ddp_backend = "legacy_ddp"  # fairseq names GPUs to torch's, where none is used
    if options.distributed_init_method is not None and options.distributed_no_spawn:
        # fairseq would otherwise set up communication between GPUs
        torch.distributed.init_process_group(
            options.distributed_backend,
            options.distributed_init_method,
            world_size=options.distributed_world_size,
            rank=options.distributed_rank,
        )


def decided_by_first(trainer: Trainer, decide: Callable[[], Decision]) -> Decision:
    """Return the first process's decision in all processes; if it refuses, all end."""
    decisions, mistake = [], None
    if trainer.data_parallel_rank == 0:
        try:
            decisions = [decide()]
        except UserError as problem:
            mistake = problem
    if trainer.data_parallel_world_size > 1:
        decisions = distributed_utils.broadcast_object(
            decisions,
            src_rank=0,
            group=trainer.data_parallel_process_group,
            dist_device=trainer.device,
        )
    if not decisions:
        refuse_in_all(mistake, trainer.data_parallel_rank)
    return decisions[0]


def refuse_in_all(mistake: UserError | None, process: int) -> NoReturn:
    """End every process because of a mistake that all have found; the first one reports it."""
    if process == 0:
        raise mistake
    time.sleep(2)  # torchrun ends the first because of this one
    raise SystemExit(1)


# --- agreement -----------------------------------------------------------------------------------


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
        shared = options.keys() - _OF_A_MACHINE
        facts |= {option_of(name): str(options[name]) for name in shared}
    task = trainer.task
    sides = {"source": task.source_dictionary, "target": task.target_dictionary}
    known = {side: words for side, words in sides.items() if isinstance(words, Dictionary)}
    facts |= {f"the {side} dictionary": one for side, one in describe(known).items()}
    for name, data in task.datasets.items():
        if isinstance(data, FairseqDataset):
            facts[f"the data of {name}"] = _sample(data)
    return facts


def _sample(data: FairseqDataset) -> str:
    """Return a digest of the number of sentences, and of the words of some of them."""
    chosen = np.unique(np.linspace(0, len(data) - 1, _SENTENCES).astype(int)) if len(data) else []
    sentences = [[part.tolist() for part in _tensors(data[int(i)])] for i in chosen]
    return hashlib.sha256(repr((len(data), sentences)).encode()).hexdigest()[:12]


def _tensors(sentence: Any) -> list[torch.Tensor]:
    values = sentence.values() if isinstance(sentence, dict) else [sentence]
    return [value for value in values if isinstance(value, torch.Tensor)]
