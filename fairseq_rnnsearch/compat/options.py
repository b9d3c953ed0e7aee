"""Values of fairseq's own options that it accepts, to die of them or to do nothing in silence."""

import functools
import numbers
import os
from argparse import Namespace

import torch
from fairseq import options as fairseq_options

from fairseq_rnnsearch.errors import UserError

_LEAST = {
    1: (
        *("beam", "nbest", "batch_size", "batch_size_valid", "max_tokens", "max_tokens_valid"),
        *("update_freq", "workers", "max_source_positions", "max_target_positions"),
        *("save_interval", "validate_interval", "log_interval"),
    ),
    0: (
        *("num_workers", "max_update", "max_epoch", "clip_norm", "lr", "max_len_a", "max_len_b"),
        *("min_len", "prefix_size", "thresholdsrc", "thresholdtgt", "save_interval_updates"),
        *("validate_interval_updates", "stop_time_hours", "weight_decay"),
        "buffer_size",
    ),
}
_FOLDERS = ("results_path", "destdir", "tensorboard_logdir")


def check_options_first() -> None:
    """Refuse such values before a command begins; fairseq-preprocess has a hook of its own."""
    parse = fairseq_options.parse_args_and_arch

    @functools.wraps(parse)
    def parse_and_check(*args, **kwargs) -> Namespace | tuple:
        parsed = parse(*args, **kwargs)
        check_options(parsed[0] if isinstance(parsed, tuple) else parsed)
        return parsed

    fairseq_options.parse_args_and_arch = parse_and_check


def check_options(options: Namespace) -> None:
    """
    Raises:
        UserError: naming the first option whose value is none.
    """
    for least, names in _LEAST.items():
        for name in names:
            given = getattr(options, name, None)
            for value in given if isinstance(given, list | tuple) else [given]:
                if isinstance(value, numbers.Real) and not value >= least:
                    raise UserError(f"{_option(name)} {value}: must be {least} or more")
    lenpen = getattr(options, "lenpen", 1)
    if not abs(lenpen) < float("inf"):
        raise UserError(f"--lenpen {lenpen}: must be a finite number")
    trains = hasattr(options, "arch")
    for name in (*_FOLDERS, *["save_dir"] * trains):
        path = getattr(options, name, None)
        if path and os.path.lexists(path) and not os.path.isdir(path):
            raise UserError(f"{_option(name)} {path}: is no folder; name another")
    if log_file := getattr(options, "log_file", None):
        try:
            open(log_file, "a").close()
        except OSError as problem:
            reason = problem.strerror
            raise UserError(f"--log-file {log_file} cannot be written: {reason}") from problem
    on_cpu = getattr(options, "cpu", False) or not torch.cuda.is_available()
    if trains and on_cpu and getattr(options, "fp16", False):
        raise UserError("--fp16 needs a GPU; on a CPU take --compute-dtype bfloat16")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
