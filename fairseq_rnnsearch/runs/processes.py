"""Several processes: how they share a training, what the first decides for all, a joint end."""

import os
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import DictConfig

from fairseq_rnnsearch.errors import UserError

Decision = TypeVar("Decision")


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
        # fairseq would let GPUs that are there reach each other
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
