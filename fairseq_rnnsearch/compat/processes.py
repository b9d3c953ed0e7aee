"""Several processes: without GPUs, what the first decides for all, and when one of them is lost."""

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TypeVar

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from fairseq.trainer import Trainer
from torch.distributed import distributed_c10d

from fairseq_rnnsearch.compat.checkpoints import first_sentence
from fairseq_rnnsearch.errors import UserError

Decision = TypeVar("Decision")

# How long gloo waits for a machine that has fallen silent; torch waits for half an hour. The others
# wait meanwhile for the process that saves and draws. A process that dies is noticed at once.
SILENCE = timedelta(minutes=10)

_LOST = re.compile(r"gloo|nccl|Connection (closed|reset)|Broken pipe|Timed out|timeout", re.I)


def let_torchrun_start_one_training() -> None:
    """``torchrun --nproc_per_node 2 $(which fairseq-train) ... --cpu`` with gloo, for example.

    fairseq counts GPUs to find the number of processes. Where there is one or none, it starts
    independent copies that all write to the same folder.
    """
    call, init = distributed_utils.call_main, distributed_utils.distributed_init
    parallel = distributed_fairseq_model.DistributedDataParallel

    @functools.wraps(call)
    def call_as_started(cfg, main, **kwargs) -> None:
        uses_gpus = torch.cuda.is_available() and not cfg.common.cpu
        (_share_gpus if uses_gpus else _share_without_gpus)(cfg.distributed_training)
        return call(cfg, main, **kwargs)

    @functools.wraps(init)
    def init_where_told(cfg) -> int:
        with _no_gpu() if cfg.common.cpu else contextlib.nullcontext():
            return init(cfg)

    def parallel_where_told(
        module, device_ids=None, output_device=None, **kwargs
    ) -> torch.nn.Module:
        if next(module.parameters()).device.type == "cpu":
            device_ids = output_device = None
        return parallel(module=module, device_ids=device_ids, output_device=output_device, **kwargs)

    distributed_c10d.default_pg_timeout = SILENCE
    distributed_utils.call_main = call_as_started
    distributed_utils.distributed_init = init_where_told
    distributed_fairseq_model.DistributedDataParallel = parallel_where_told


def _started_by_torchrun(cfg) -> int:
    """How many processes torchrun has started, unless the options say how they find each other."""
    named = all(name in os.environ for name in ("MASTER_ADDR", "MASTER_PORT", "RANK"))
    if not named or cfg.distributed_init_method is not None:
        return 1
    return int(os.environ.get("WORLD_SIZE", "1"))


def _share_without_gpus(cfg) -> None:
    """
    Args:
        cfg: the options of distributed training, which are changed.

    Raises:
        UserError: when fairseq would have to start the processes, which it does for GPUs alone.
    """
    processes = _started_by_torchrun(cfg)
    if processes > 1:
        cfg.distributed_init_method = "env://"
        cfg.distributed_world_size = processes
        cfg.distributed_rank = int(os.environ["RANK"])
        cfg.device_id = 0
        cfg.distributed_backend = "gloo"
        cfg.distributed_no_spawn = True
    elif not cfg.distributed_no_spawn:
        asked = cfg.distributed_world_size
        # by default it is the number of GPUs, which --cpu does not use
        if cfg.distributed_init_method or asked not in (1, torch.cuda.device_count()):
            raise UserError(
                f"--distributed-world-size {asked} needs as many GPUs, and none is used: start the "
                f"processes with torchrun --nproc_per_node {asked} and add --cpu"
            )
        cfg.distributed_world_size = 1


def _share_gpus(cfg) -> None:
    """
    Raises:
        UserError: when there are fewer GPUs than processes.
    """
    processes = _started_by_torchrun(cfg)
    here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if processes > 1:
        if here > gpus:
            raise UserError(
                f"torchrun has started {here} processes on a machine with {gpus} GPU(s): give "
                f"--nproc_per_node {gpus}, or train without GPUs (--cpu)"
            )
        cfg.distributed_world_size = processes  # fairseq then asks torchrun for the rest


@contextlib.contextmanager
def _no_gpu() -> Iterator[None]:
    """Keep fairseq from trying out whether GPUs reach each other; with gloo they would not."""
    is_available, torch.cuda.is_available = torch.cuda.is_available, lambda: False
    try:
        yield
    finally:
        torch.cuda.is_available = is_available


def decided_by_first(trainer: Trainer, decide: Callable[[], Decision]) -> Decision:
    """What the first process decides, in all of them; where it refuses, all end."""
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


def refuse_in_all(mistake: UserError | None, process: int) -> None:
    """End each process with a mistake that they have all found; the first one says it."""
    if process == 0:
        raise mistake
    time.sleep(2)  # torchrun ends the first because of this one
    raise SystemExit(1)


def naming_lost_processes(function: Callable) -> Callable:
    """One line instead of a traceback in each process that waits in vain for another."""

    @functools.wraps(function)
    def call_or_name(*args, **options) -> object:
        try:
            return function(*args, **options)
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

    return call_or_name


def name_lost_processes() -> None:
    """Between a training's beginning and its end, whatever it is doing."""
    distributed_utils.distributed_main = naming_lost_processes(distributed_utils.distributed_main)
