"""What fairseq-fixed 0.12.3.1 needs on today's Python and torch.

``apply`` is called once, when the package is imported. Each mend names what happens without it.
"""

import argparse
import collections
import functools
import logging
import os
import pickle
import sys
import typing
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from fairseq.trainer import Trainer
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

from fairseq_rnnsearch.data.corpus import check_parallel, check_text
from fairseq_rnnsearch.errors import UserError, install_excepthook


def apply() -> None:
    """Mend fairseq in this process."""
    quieten()
    install_excepthook()
    let_hydra_pass_errors_on()
    allow_plain_types_in_checkpoints()
    refuse_other_checkpoints_in_one_line()
    check_text_before_preprocessing()
    let_data_loading_processes_end_in_silence()
    let_patience_survive_a_resume()
    if not torch.cuda.is_available():
        let_torchrun_work_without_gpus()


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


def allow_plain_types_in_checkpoints() -> None:
    """Name the plain types that fairseq puts into files, so that ``weights_only`` can stay on."""
    dtype_classes = [getattr(np.dtypes, name) for name in np.dtypes.__all__]
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,  # options of fairseq's older models and optimizers
            # --eval-bleu keeps its counts as arrays
            np.ndarray,
            np.dtype,
            np._core.multiarray._reconstruct,
            np._core.multiarray.scalar,
            *dtype_classes,
            # several processes resume: rank 0 sends the loaded state through torch.save
            DictConfig,
            ListConfig,
            ContainerMetadata,
            Metadata,
            AnyNode,
            typing.Any,
            dict,
            list,
            int,
            collections.defaultdict,
            distributed_utils._TensorPlaceholder,
        ]
    )


def refuse_other_checkpoints_in_one_line() -> None:
    """One line instead of a traceback for a file that is no checkpoint, or more than one."""
    load = checkpoint_utils.load_checkpoint_to_cpu

    @functools.wraps(load)
    def load_or_explain(path, *args, **kwargs) -> dict:
        try:
            return load(path, *args, **kwargs)
        except pickle.UnpicklingError as problem:
            found = str(problem).partition("GLOBAL ")[2].split(" ")[0] or "an unreadable pickle"
            raise UserError(
                f"checkpoint {path} refused: it holds {found.rstrip('.')}, and only tensors and "
                "plain values are loaded, because anything else can run code"
            ) from problem
        except (EOFError, OSError, RuntimeError) as problem:
            if not os.path.exists(path):
                raise UserError(f"checkpoint {path} does not exist") from problem
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            raise UserError(
                f"checkpoint {path} cannot be read ({os.path.getsize(path)} bytes; {reason}): it "
                "may be truncated; an older checkpoint can be named with --path or --restore-file"
            ) from problem

    load_models = checkpoint_utils.load_model_ensemble_and_task

    @functools.wraps(load_models)
    def load_models_or_explain(*args, **kwargs) -> tuple:
        try:
            return load_models(*args, **kwargs)
        except OSError as problem:
            raise UserError(f"--path: {problem}") from problem  # "Model file not found: ..."

    checkpoint_utils.load_checkpoint_to_cpu = load_or_explain
    checkpoint_utils.load_model_ensemble_and_task = load_models_or_explain


def check_text_before_preprocessing() -> None:
    """Check the text files before fairseq-preprocess writes anything.

    It binarises sides with different line counts without a word, splits lines at stray carriage
    returns and dies unintelligibly of bytes that are not UTF-8.
    """
    preprocess = sys.modules.get("fairseq_cli.preprocess")
    if preprocess is None:
        return

    @functools.cache
    def check_all(*prefixes: str, languages: tuple[str, ...]) -> None:
        for prefix in prefixes:
            files = [Path(f"{prefix}.{language}") for language in languages]
            if len(files) == 2:
                check_parallel(*files)
            else:
                check_text(*files)

    def checked(position: int, function: Callable) -> Callable:
        @functools.wraps(function)
        def check_first(*args, **kwargs) -> object:
            options = kwargs.get("args") or args[position]
            prefixes = [options.trainpref, options.validpref, options.testpref]
            check_all(
                *[prefix for given in prefixes if given for prefix in given.split(",")],
                languages=tuple(
                    [options.source_lang] + [options.target_lang] * (not options.only_source)
                ),
            )
            return function(*args, **kwargs)

        return check_first

    preprocess._build_dictionary = checked(2, preprocess._build_dictionary)
    preprocess._make_all = checked(2, preprocess._make_all)


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


def let_patience_survive_a_resume() -> None:
    """Keep --patience's count in the checkpoint; fairseq begins anew whenever it is resumed."""
    save, load = Trainer.save_checkpoint, checkpoint_utils.load_checkpoint
    if getattr(load, "restores_patience", False):
        return

    def counter() -> dict | None:
        """fairseq keeps the count as attributes of a function."""
        program = sys.modules.get("fairseq_cli.train")
        return vars(program.should_stop_early) if program else None

    @functools.wraps(save)
    def save_with_count(self, filename, extra_state) -> None:
        return save(self, filename, {**extra_state, "patience": dict(counter() or {})})

    @functools.wraps(load)
    def load_with_count(cfg, trainer, **iterator_options) -> tuple:
        extra_state, iterator = load(cfg, trainer, **iterator_options)
        count = (extra_state or {}).get("patience", {})
        if counter() is not None and not (cfg.reset_meters or cfg.reset_optimizer):
            counter().update({name: count[name] for name in ("best", "num_runs") if name in count})
        return extra_state, iterator

    load_with_count.restores_patience = True
    Trainer.save_checkpoint, checkpoint_utils.load_checkpoint = save_with_count, load_with_count


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

    distributed_utils._infer_torch_distributed_launch_init = infer_torchrun
    distributed_utils.infer_init_method = infer_init_method
    distributed_fairseq_model.DistributedDataParallel = parallel_on_cpu
