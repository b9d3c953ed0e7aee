"""Several processes: how they share a training, what the first decides for all, a joint end."""

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import NoReturn, TypeVar

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import DictConfig

from fairseq_rnnsearch.errors import UserError, counted, first_sentence

Decision = TypeVar("Decision")

# How long gloo waits for a machine that has fallen silent; torch waits for half an hour. The others
# wait meanwhile for the process that saves and draws. They notice at once when a process dies.
SILENCE = timedelta(minutes=10)

_LOST = re.compile(r"gloo|nccl|Connection (closed|reset)|Broken pipe|Timed out|timeout", re.I)


def share_and_call(call_main: Callable, cfg: DictConfig, main: Callable, **options) -> None:
    """Share the work among the started processes, and report a lost one."""
    _share(cfg)
    with naming_lost_processes():
        call_main(cfg, main, **options)


@contextlib.contextmanager
def naming_lost_processes() -> Iterator[None]:
    """Report in one line that a process waits in vain for another.

    Raises:
        UserError: instead of torch's error.
    """
    try:
        yield
    except RuntimeError as problem:
        processes = distributed_utils.get_global_world_size()
        lost = isinstance(problem, torch.distributed.DistError) or _LOST.search(str(problem))
        if processes == 1 or not lost:
            raise
        raise UserError(
            f"process {distributed_utils.get_global_rank()} of {processes} stops, because "
            f"another has ended or does not answer ({first_sentence(problem)}); the same "
            "command goes on from the last checkpoint"
        ) from problem


def _share(cfg) -> None:
    """Let ``torchrun --nproc_per_node 2 $(which fairseq-train) ... --cpu`` start one training.

    fairseq counts GPUs to find the number of processes. With one or none, it starts independent
    copies that all write to the same folder.

    Args:
        cfg: the configuration, whose options of distributed training are changed.

    Raises:
        UserError: if there are fewer GPUs than requested.
    """
    if torch.cuda.is_available() and not cfg.common.cpu:
        _share_gpus(cfg.distributed_training)
        return
    options = cfg.distributed_training
    _share_without_gpus(options)
    if options.ddp_backend in ("c10d", "pytorch_ddp"):
        options.ddp_backend = "legacy_ddp"  # fairseq names GPUs to torch's, where none is used
    if options.distributed_init_method is not None and options.distributed_no_spawn:
        # fairseq would wait for GPUs to reach each other where there are some, and wait for longer
        torch.distributed.init_process_group(
            options.distributed_backend,
            options.distributed_init_method,
            SILENCE,
            options.distributed_world_size,
            options.distributed_rank,
        )


def join_group() -> None:
    """Make fairseq's group of all processes while all are there, and wait for `SILENCE` at most.

    fairseq makes it when it first needs it. If a process has ended by then, for example because its
    machine lacks the data, the others wait for it; once they are connected, they notice at once.
    """
    if torch.distributed.is_initialized():
        group = torch.distributed.new_group(timeout=SILENCE)
        distributed_utils.get_global_group._global_group = group


def _started_by_torchrun(options) -> int:
    """Return how many processes torchrun has started, or 1 with ``--distributed-init-method``."""
    named = all(name in os.environ for name in ("MASTER_ADDR", "MASTER_PORT", "RANK"))
    if not named or options.distributed_init_method is not None:
        return 1
    return int(os.environ.get("WORLD_SIZE", "1"))


def _check_asked(options, processes: int) -> None:
    """Refuse another ``--distributed-world-size`` than torchrun's; the default says nothing."""
    asked = options.distributed_world_size
    if asked not in (processes, max(1, torch.cuda.device_count())):
        raise UserError(
            f"--distributed-world-size {asked}, but torchrun has started {processes} processes"
        )


def _share_without_gpus(options) -> None:
    processes = _started_by_torchrun(options)
    if processes > 1:
        _check_asked(options, processes)
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


def _share_gpus(options) -> None:
    processes = _started_by_torchrun(options)
    here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if processes > 1:
        if here > gpus:
            raise UserError(
                f"torchrun has started {counted(here, 'process', 'processes')} on a machine with"
                f" {counted(gpus, 'GPU')}: give --nproc_per_node {gpus}, or train without GPUs"
                " (--cpu)"
            )
        _check_asked(options, processes)
        options.distributed_world_size = processes  # fairseq then asks torchrun for the rest


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
