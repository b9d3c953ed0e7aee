"""Several processes: without GPUs, and when one of them is lost."""

import functools
import os
import re
from datetime import timedelta
from types import ModuleType

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from torch.distributed import distributed_c10d

from fairseq_rnnsearch.compat.checkpoints import first_sentence
from fairseq_rnnsearch.errors import UserError

# How long gloo waits for a machine that has fallen silent; torch waits for half an hour. The others
# wait meanwhile for the process that saves and draws. A process that dies is noticed at once.
SILENCE = timedelta(minutes=10)

_LOST = re.compile(r"gloo|nccl|Connection (closed|reset)|Broken pipe|Timed out|timeout", re.I)


def let_torchrun_work_without_gpus() -> None:
    """``torchrun --nproc_per_node 2 $(which fairseq-train) ... --cpu`` with gloo.

    fairseq counts GPUs to find the number of processes, and otherwise starts independent copies
    that all write to the same folder.
    """

    def infer_torchrun(cfg) -> None:
        cfg.distributed_init_method = "env://"
        cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
        cfg.distributed_rank = int(os.environ["RANK"])
        cfg.device_id = 0
        cfg.distributed_backend = "gloo"
        cfg.distributed_no_spawn = True

    infer = distributed_utils.infer_init_method

    @functools.wraps(infer)
    def infer_init_method(cfg, force_distributed=False) -> None:
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        if cfg.distributed_init_method is None and processes > 1:
            cfg.distributed_world_size = processes
        elif cfg.distributed_world_size > 1 and not cfg.distributed_no_spawn:
            raise UserError(
                f"--distributed-world-size {cfg.distributed_world_size} needs as many GPUs, and "
                "there are none: start the processes with torchrun --nproc_per_node "
                f"{cfg.distributed_world_size} and add --cpu"
            )
        return infer(cfg, force_distributed)

    parallel = distributed_fairseq_model.DistributedDataParallel

    def parallel_on_cpu(module, device_ids=None, output_device=None, **kwargs) -> torch.nn.Module:
        return parallel(module=module, **kwargs)

    distributed_c10d.default_pg_timeout = SILENCE
    distributed_utils._infer_torch_distributed_launch_init = infer_torchrun
    distributed_utils.infer_init_method = infer_init_method
    distributed_fairseq_model.DistributedDataParallel = parallel_on_cpu


def name_lost_processes(program: ModuleType) -> None:
    """One line instead of a traceback in each process that waits in vain for another.

    Args:
        program: ``fairseq_cli.train``.
    """
    train = program.train

    @functools.wraps(train)
    def train_or_name(cfg, *args, **options) -> tuple[list, bool]:
        try:
            return train(cfg, *args, **options)
        except RuntimeError as problem:
            processes = distributed_utils.get_global_world_size()
            if processes == 1 or not _LOST.search(str(problem)):
                raise
            raise UserError(
                f"process {distributed_utils.get_global_rank()} of {processes} stops, because "
                f"another has ended or does not answer ({first_sentence(problem)}); the same "
                "command goes on from the last checkpoint"
            ) from problem

    program.train = train_or_name
