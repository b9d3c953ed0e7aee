"""What fairseq says, and how errors are shown."""

import logging
import os
import warnings

import torch


def quieten() -> None:
    """Keep fairseq's debugging output and deprecation warnings from burying its messages."""
    warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.")
    warnings.filterwarnings("ignore", message=r"(?s)\s*'[^']*' is validated against ConfigStore")
    warnings.filterwarnings("ignore", message=r"`torch\.cuda\.amp\.", category=FutureWarning)
    warnings.filterwarnings("ignore", message=r"'pin_memory' argument is set as true")
    warnings.filterwarnings("ignore", message=r".*lr_scheduler\.step\(\).*before.*optimizer\.step")
    # a module of fairseq's sets the root logger to DEBUG while it is imported
    if logging.root.level == logging.DEBUG and os.environ.get("LOGLEVEL", "").upper() != "DEBUG":
        logging.root.setLevel(logging.INFO)
    # four lines for every typed sentence of fairseq-interactive
    logging.getLogger("fairseq.tasks.fairseq_task").setLevel(logging.WARNING)


def let_hydra_pass_errors_on() -> None:
    """Let `UserError` reach the hook that shows it; fairseq-hydra-train prints a traceback."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")


def let_data_loading_processes_end_in_silence() -> None:
    """Keep `can only test a child process` off standard error.

    A data-loading process inherits what is left of the iterators before it; when they are
    cleared away there, they ask after processes that are not its own.
    """
    iterator = torch.utils.data.dataloader._MultiProcessingDataLoaderIter
    shut_down = iterator.__del__
    if getattr(shut_down, "minds_its_process", False):
        return

    def shut_down_own_workers(self) -> None:
        workers = getattr(self, "_workers", [])
        if all(worker._parent_pid == os.getpid() for worker in workers):
            shut_down(self)

    shut_down_own_workers.minds_its_process = True
    iterator.__del__ = shut_down_own_workers
