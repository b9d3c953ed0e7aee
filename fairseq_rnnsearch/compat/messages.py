"""What fairseq says, and how errors are shown."""

import logging
import os
import warnings


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
