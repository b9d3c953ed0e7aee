"""Decisions that the first process of a training makes for all, and a joint end."""

import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer

from fairseq_rnnsearch.errors import UserError

Decision = TypeVar("Decision")


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
