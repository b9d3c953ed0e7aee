"""What this package replaces in fairseq, torch and Python while fairseq's commands run.

``PATCHES`` is the whole list. Importing the package replaces nothing. `patch_fairseq` applies the
list once in a process. The task, the model, the criterion and the optimizer call it in the method
that a command calls first: ``add_args``, when fairseq scans ``tasks/`` of the ``--user-dir``; with
a ``--user-dir`` of one's own without that folder, ``load_dictionary``, ``build_dictionary``,
``setup_task`` or ``build_model``.
`reading_as_data` applies the part that ``load`` needs for as long as it reads a checkpoint.
"""

import atexit
import contextlib
import functools
import logging
import os
import sys
import threading
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from fairseq import checkpoint_utils, file_io, utils
from fairseq.data import indexed_dataset
from fairseq.distributed import utils as distributed_utils
from torch.utils.data import dataloader

from fairseq_rnnsearch.errors import shown_in_one_line
from fairseq_rnnsearch.import_hook import when_imported
from fairseq_rnnsearch.runs import (
    checkpoint,
    checkpoint_file,
    options,
    preprocessing,
    processes,
    programs,
    resuming,
    signals,
    trainer,
)


@dataclass(frozen=True)
class Patch:
    """A replaced attribute.

    Attributes:
        owner: a class or module, or the name of a module, which is never imported for it.
        name: the attribute.
        replacement: returns the new attribute, given the original.
        without: what happens without it.
    """

    owner: object
    name: str
    replacement: Callable[[Any], Any]
    without: str


def _around(function: Callable) -> Callable[[Callable], Callable]:
    """Return a replacement that calls a function with the original and its arguments."""
    return lambda there: functools.wraps(there)(functools.partial(function, there))


# fairseq's modules that evaluate options, even those from a checkpoint
_EVALUATING = (
    *(f"fairseq.optim.{name}" for name in "adam cpu_adam adamax adafactor fused_lamb".split()),
    *(f"fairseq.models.{name}" for name in "fconv fconv_lm fconv_self_att hubert.hubert".split()),
    *(f"fairseq.models.wav2vec.{name}" for name in ("wav2vec", "wav2vec2")),
    *("fairseq.models.lightconv_lm", "fairseq.models.transformer_lm", "fairseq.criterions.ctc"),
    "fairseq.models.speech_to_text.s2t_wav_transformer",
    *("fairseq.data.audio.raw_audio_dataset", "fairseq.data.codedataset", "fairseq.utils"),
    *("fairseq_cli.validate", "fairseq_cli.eval_lm"),
)
_PROGRAMS = ("train", "generate", "interactive", "validate")

READING = (
    *(
        Patch(name, "eval", lambda _: options.read_value, "options are run as Python")
        for name in _EVALUATING
    ),
    Patch(
        *(checkpoint_utils, "load_checkpoint_to_cpu", lambda _: checkpoint.load_as_data),
        without="a damaged checkpoint is used",
    ),
    Patch(
        *(checkpoint_utils, "load_model_ensemble_and_task"),
        _around(checkpoint.load_models_or_explain),
        without="a checkpoint that does not fit ends in a traceback that does not name it",
    ),
)

PATCHES = (
    *READING,
    Patch(
        *(sys, "excepthook", shown_in_one_line),
        without="a user's mistake ends in a traceback instead of one line",
    ),
    *(
        Patch(
            *(f"fairseq_cli.{name}", "main", programs.checked),
            without="values that make no sense end in a traceback or do nothing silently",
        )
        for name in _PROGRAMS
    ),
    *(
        Patch(
            *(f"fairseq_cli.{name}", "add_defaults", _around(options.fill_presets)),
            without="fairseq-hydra-train ignores the preset that a file names",
        )
        for name in ("hydra_train", "train")
    ),
    Patch(
        *("fairseq_cli.interactive", "buffered_read", lambda _: programs.read_checked),
        without="a byte that is not UTF-8 ends fairseq-interactive without its line and with the "
        "translations of the lines before it",
    ),
    Patch(
        *(distributed_utils, "call_main", _around(processes.share_and_call)),
        without="torchrun without GPUs starts copies that write to one folder",
    ),
    Patch(
        *("fairseq_cli.preprocess", "main", _around(preprocessing.check_and_preprocess)),
        without="fairseq-preprocess binarises sides with different line counts silently",
    ),
    Patch(
        *(
            indexed_dataset.MMapIndexedDatasetBuilder,
            "finalize",
            preprocessing.avoid_int32_overflow,
        ),
        without="several processes that binarise more than 2 GiB write an index of places below 0",
    ),
    Patch(
        *("fairseq_cli.train", "Trainer", lambda _: trainer.ResumableTrainer),
        without="a resumed training forgets counts and schedules, a cost that is no number is "
        "trained on, and processes may train different things (see runs/trainer.py)",
    ),
    Patch(
        *("fairseq_cli.train", "validate_and_save", _around(signals.checkpoint_then_stop)),
        without="SIGTERM, Ctrl-C and SIGUSR1 lose the updates since the last checkpoint",
    ),
    Patch(
        *(checkpoint_utils, "verify_checkpoint_directory", _around(resuming.lock_and_verify)),
        without="two trainings in one folder overwrite each other's checkpoints",
    ),
    Patch(
        *(checkpoint_utils, "load_checkpoint", _around(resuming.start_or_resume)),
        without="a missing or damaged checkpoint_last.pt means training from scratch; patience, "
        "schedules and finished runs begin anew",
    ),
    Patch(
        *(utils, "replace_unk", _around(programs.replace_unknown_words)),
        without="--replace-unk is a traceback",
    ),
    Patch(
        *(utils, "load_align_dict", lambda _: programs.read_replacements),
        without="--replace-unk without a file's name looks for a file; others are read in the "
        "locale's encoding",
    ),
    Patch(
        *(file_io.PathManager, "copy", lambda _: staticmethod(checkpoint_file.copy_whole)),
        without="a machine that dies while checkpoint_last.pt is written leaves half of it",
    ),
    Patch(
        *(dataloader, "_MultiProcessingDataLoaderIter", lambda _: signals.EndingIterator),
        without="signals end the processes that load data before the training has saved, and each "
        "lets a program wait for 5 s at its end",
    ),
)

_MISSING = object()
_one_reader = threading.RLock()
_is_reading = ContextVar("whether this thread is within reading_as_data", default=False)


def patch_fairseq() -> None:
    """Apply ``PATCHES``, once per process, for a fairseq command."""
    if not _is_reading.get():
        _patch_once()


class PatchesFairseq:
    """A part of fairseq's that a command first asks for its options."""

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the options to a command line's parser, after `patch_fairseq`."""
        patch_fairseq()
        super().add_args(parser)


@functools.cache
def _patch_once() -> None:
    _quieten()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # hydra then leaves errors to the excepthook
    for patch in PATCHES:
        act = functools.partial(_apply, patch)
        if isinstance(patch.owner, str):
            when_imported(patch.owner, act)
        else:
            act()
    atexit.register(signals.expect_killed_processes)


@contextlib.contextmanager
def reading_as_data() -> Iterator[None]:
    """Read checkpoints as data within another program, and restore fairseq afterwards."""
    with _one_reader:
        is_patched = _patch_once.cache_info().currsize > 0
        replaced = [] if is_patched else [(patch, *_apply(patch)) for patch in READING]
        token = _is_reading.set(True)
        try:
            yield
        finally:
            _is_reading.reset(token)
            for patch, owner, original in replaced:
                if original is not _MISSING:
                    setattr(owner, patch.name, original)
                elif owner is not None:
                    delattr(owner, patch.name)


def _apply(patch: Patch) -> tuple[object, object]:
    """Replace an attribute; return its owner and the original."""
    owner = sys.modules.get(patch.owner) if isinstance(patch.owner, str) else patch.owner
    if owner is None:
        return None, _MISSING
    original = vars(owner).get(patch.name, _MISSING)
    setattr(owner, patch.name, patch.replacement(getattr(owner, patch.name, None)))
    return owner, original


def _quieten() -> None:
    """Keep fairseq's debugging output and deprecation warnings from burying its messages."""
    warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.")
    for message, category in (
        (r"(?s)\s*'[^']*' is validated against ConfigStore", UserWarning),
        (r"`torch\.cuda\.amp\.", FutureWarning),
        (r"amp_C fused kernels unavailable", UserWarning),  # in each update on a GPU
        (r"'pin_memory' argument is set as true", UserWarning),
        (r".*lr_scheduler\.step\(\).*before.*optimizer\.step", UserWarning),
        (r"Distributed is already initialized", UserWarning),  # processes.py has done it
    ):
        warnings.filterwarnings("ignore", message=message, category=category)
    # one of fairseq's modules sets the root logger to DEBUG on import
    if logging.root.level == logging.DEBUG and os.environ.get("LOGLEVEL", "").upper() != "DEBUG":
        logging.root.setLevel(logging.INFO)
    # four lines for every typed sentence of fairseq-interactive
    logging.getLogger("fairseq.tasks.fairseq_task").setLevel(logging.WARNING)
    # it prints all gradients, and says no more than our message
    logging.getLogger("fairseq.nan_detector").setLevel(logging.WARNING)
