"""The beginning and end of fairseq's programs: options, processes, and final work."""

import atexit
import contextlib
import functools
import io
import itertools
import logging
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta

import torch
from fairseq.distributed import utils as distributed_utils
from omegaconf import DictConfig

from fairseq_rnnsearch.command_line import StandardOutput
from fairseq_rnnsearch.data.line_batches import line_batches
from fairseq_rnnsearch.errors import UserError, counted, first_sentence
from fairseq_rnnsearch.runs.messages import open_log_file
from fairseq_rnnsearch.runs.options import check_configuration, check_options, check_validation

# How long gloo waits for a machine that has fallen silent; torch waits for half an hour. The others
# wait meanwhile for the process that saves and draws. They notice at once when a process dies.
SILENCE = timedelta(minutes=10)

_LOST = re.compile(r"gloo|nccl|Connection (closed|reset)|Broken pipe|Timed out|timeout", re.I)

# functions that the running program calls at its end
_ends: ContextVar[list[Callable[[], None]] | None] = ContextVar("ends", default=None)


def checked(main: Callable) -> Callable:
    """Wrap a program's ``main``: check its options first, do the remaining work last.

    Text is UTF-8 in any locale, and shown as text on a terminal.
    """

    @functools.wraps(main)
    def run(cfg: DictConfig | Namespace, *args, **options) -> None:
        join_group()
        check = check_options if isinstance(cfg, Namespace) else check_configuration
        check(cfg)
        check_validation(options.get("override_args") or Namespace())
        _speak_utf8()
        open_log_file((cfg if isinstance(cfg, Namespace) else cfg.common).log_file)
        finishing: list[Callable[[], None]] = []
        token = _ends.set(finishing)
        try:
            with naming_lost_processes():
                main(cfg, *args, **options)
        finally:
            _ends.reset(token)
            for finish in finishing:
                finish()

    return run


def _speak_utf8() -> None:
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    # a terminal may get words of any dictionary, as translations and in messages
    if sys.stdout.isatty():
        sys.stdout = StandardOutput(sys.stdout, is_foreign=True)
    for handler in logging.root.handlers:
        if type(handler) is logging.StreamHandler and handler.stream.isatty():
            handler.setStream(StandardOutput(handler.stream, is_foreign=True))


def read_checked(path: str, buffer_size: int) -> Iterator[list[str]]:
    """Yield lines to translate as fairseq-interactive's ``buffered_read`` does.

    Raises:
        UserError: as ``line_batches``, after the lines before.
    """
    return line_batches(path, itertools.repeat(buffer_size), fills=True, has_symbols=True)


def share_and_call(call_main: Callable, cfg: DictConfig, main: Callable, **options) -> None:
    """Share the work among the started processes, and report a lost one."""
    _share(cfg)
    with naming_lost_processes():
        call_main(cfg, main, **options)


def at_the_end(finish: Callable[[], None]) -> None:
    """Call a function when the running program has ended, in whatever way.

    fairseq-generate and fairseq-interactive do not tell a task that they end. Without a program,
    the function is called when Python ends.
    """
    finishing = _ends.get()
    if finishing is None:
        atexit.register(finish)
    else:
        finishing.append(finish)


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


# --- several processes --------------------------------------------------------------------------


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


def _share_without_gpus(options) -> None:
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
        options.distributed_world_size = processes  # fairseq then asks torchrun for the rest
