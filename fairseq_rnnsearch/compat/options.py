"""Values of fairseq's own options that it accepts, to die of them or to do nothing in silence."""

import argparse
import functools
import numbers
import os
from argparse import Namespace
from importlib.util import find_spec
from types import SimpleNamespace

import torch
from fairseq import options as fairseq_options
from fairseq.dataclass import initialize
from omegaconf import DictConfig, OmegaConf

from fairseq_rnnsearch.arguments import LARGEST_LENPEN
from fairseq_rnnsearch.compat.evaluated_options import fairseq_modules
from fairseq_rnnsearch.errors import OneLineParser, UserError

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


class CheckingParser(OneLineParser):
    """Refuses them as soon as they are read."""

    def parse_known_args(self, args=None, namespace=None) -> tuple[Namespace, list[str]]:
        parsed, others = super().parse_known_args(args, namespace)
        check_options(parsed)
        return parsed, others


def check_options_first() -> None:
    """Refuse such values, and what is no option, before a command begins.

    Commands read their options with the parsers that `fairseq.options` makes; fairseq-hydra-train
    composes a configuration, to which the plugin's defaults are added.
    """
    add_defaults = initialize.add_defaults

    @functools.wraps(add_defaults)
    def check_and_add_defaults(cfg: DictConfig) -> None:
        groups = [
            group for group in OmegaConf.to_container(cfg).values() if isinstance(group, dict)
        ]
        given = {k: v for group in groups for k, v in group.items() if not _is_reference(v)}
        check_options(Namespace(**given, arch=None))
        add_defaults(cfg)

    fairseq_options.argparse = SimpleNamespace(**vars(argparse))
    fairseq_options.argparse.ArgumentParser = CheckingParser
    for _, module in fairseq_modules():
        if getattr(module, "add_defaults", None) is add_defaults:
            module.add_defaults = check_and_add_defaults


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
    if isinstance(lenpen, numbers.Real) and not abs(lenpen) <= LARGEST_LENPEN:
        raise UserError(
            f"--lenpen {lenpen}: must be between -{LARGEST_LENPEN} and {LARGEST_LENPEN}"
        )
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
    if getattr(options, "write_checkpoints_asynchronously", False) and not find_spec("iopath"):
        # fairseq says so, trains nothing and ends with status 0
        raise UserError("--write-checkpoints-asynchronously needs the package iopath: install it")


def _is_reference(value: object) -> bool:
    """Whether a value of a configuration stands for another one's."""
    return isinstance(value, str) and value.startswith("${")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
