"""Checks for option values that fairseq accepts and then crashes on or ignores."""

import contextlib
import json
import numbers
import os
from argparse import Namespace
from collections.abc import Callable
from importlib.util import find_spec

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig, OmegaConf, open_dict

from fairseq_rnnsearch.arguments import LARGEST_LENPEN
from fairseq_rnnsearch.errors import UserError, option_of
from fairseq_rnnsearch.runs.evaluated_options import read_overrides

# Positions of a sentence: the recurrences set no limit, but fairseq requires one from the task and
# the models.
ANY_LENGTH = 1_000_000

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
_NOT_IN_THE_PAPERS_ORDER = ("curriculum", "grouped_shuffling")
_FOLDERS = ("results_path", "destdir", "tensorboard_logdir")


def fill_presets(add_defaults: Callable[[DictConfig], None], cfg: DictConfig) -> None:
    """Let the preset that ``model._name`` names fill what a file leaves out, then the defaults.

    fairseq fills in the defaults first, and the preset then takes them for the user's choice.
    """
    groups = {name: _group(cfg, name) for name in ("model", "task")}
    arch = groups["model"].get("_name")
    if hasattr(ARCH_MODEL_REGISTRY.get(arch), "check_training"):  # a model of this package
        dataclasses = {
            "model": MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]],
            "task": TASK_DATACLASS_REGISTRY.get(groups["task"].get("_name")),
        }
        given = {k: v for group in groups.values() for k, v in group.items() if v is not None}
        filled = Namespace(**given)
        ARCH_CONFIG_REGISTRY[arch](filled)
        for group, dataclass in dataclasses.items():
            known = getattr(dataclass, "__dataclass_fields__", ())
            preset = {k: v for k, v in vars(filled).items() if k not in given and k in known}
            if preset:
                with open_dict(cfg):
                    cfg[group] = groups[group] | preset
    add_defaults(cfg)


def _group(cfg: DictConfig, name: str) -> dict:
    """Return a group of options; a file may give its name alone."""
    group = cfg.get(name)
    if isinstance(group, str):
        return {"_name": group}
    return OmegaConf.to_container(group) if OmegaConf.is_dict(group) else {}


def check_configuration(cfg: DictConfig) -> None:
    """Check the options of a command, which fairseq keeps in groups.

    Raises:
        UserError: as ``check_options``, and for overrides that are no values.
    """
    groups = [group for group in OmegaConf.to_container(cfg).values() if isinstance(group, dict)]
    given = {k: v for group in groups for k, v in group.items() if not _is_reference(v)}
    if cfg.get("model") is not None:  # only training has one
        given["arch"] = None
    check_options(Namespace(**given))
    if "arch" in given and cfg.get("optimizer") is not None and cfg.get("lr_scheduler") is None:
        raise UserError("lr_scheduler: none is named; give lr_scheduler._name, such as fixed")


def check_options(options: Namespace) -> None:
    """Refuse values that fairseq accepts and then crashes on or ignores.

    Raises:
        UserError: naming the first option with an invalid value.
    """
    given = vars(options)
    for least, names in _LEAST.items():
        for name in names:
            values = given.get(name)
            for value in values if isinstance(values, list | tuple) else [values]:
                if isinstance(value, numbers.Real) and not value >= least:
                    raise UserError(f"{option_of(name)} {value}: must be {least} or more")
    beam, nbest = given.get("beam"), given.get("nbest")
    if isinstance(beam, int) and isinstance(nbest, int) and nbest > beam:
        raise UserError(f"--nbest {nbest}: must be at most --beam, which is {beam}")
    share = given.get("sampling_topp", -1)
    if isinstance(share, numbers.Real) and share > 1:
        raise UserError(f"--sampling-topp {share}: must be a share of the probability, at most 1")
    lenpen = given.get("lenpen", 1)
    if isinstance(lenpen, numbers.Real) and not abs(lenpen) <= LARGEST_LENPEN:
        raise UserError(
            f"--lenpen {lenpen}: must be between -{LARGEST_LENPEN} and {LARGEST_LENPEN}"
        )
    if given.get("batch_order") == "paper":
        for name in _NOT_IN_THE_PAPERS_ORDER:
            if given.get(name):
                raise UserError(
                    f"{option_of(name)}: the paper's batch order has its own; leave it out, or "
                    "choose --batch-order fairseq"
                )
    shards, processes = given.get("num_shards"), given.get("distributed_world_size")
    if isinstance(shards, int) and shards not in (1, processes):
        raise UserError("--num-shards: fairseq ignores it; give each process a part of the text")
    if given.get("num_batch_buckets"):
        raise UserError("--num-batch-buckets: fairseq's does not work with numpy 2; leave it out")
    if given.get("best_checkpoint_metric") == "bleu" and given.get("eval_bleu") is False:
        raise UserError("--best-checkpoint-metric bleu needs --eval-bleu")
    if bool(given.get("lm_path")) != bool(given.get("lm_weight")):
        raise UserError("--lm-path and --lm-weight: one without the other does nothing")
    if "cost_scale" in given and given.get("sentence_avg"):
        raise UserError("--sentence-avg: this criterion's own option is --cost-scale sentence")
    trains = "arch" in given
    subset, validates = given.get("train_subset"), not given.get("disable_validation")
    if trains and validates and subset in str(given.get("valid_subset")).split(","):
        raise UserError(
            f"--train-subset {subset} is one of --valid-subset {given['valid_subset']}; fairseq "
            "would go through both at once: name another --valid-subset, or give a copy of the "
            "data's files another name"
        )
    for name in (*_FOLDERS, *["save_dir"] * trains):
        path = given.get(name)
        if path and os.path.lexists(path) and not os.path.isdir(path):
            raise UserError(f"{option_of(name)} {path}: is not a folder; name another")
    for name in ("eval_bleu_args", "eval_bleu_detok_args"):
        _check_json(name, "{}" if given.get(name) is None else given[name])
    for name in ("model_overrides", "optimizer_overrides"):
        read_overrides(given.get(name) or "{}")
    if given.get("tpu") and not find_spec("torch_xla"):
        asked = "--bf16 is fairseq's option for TPUs, and" if given.get("bf16") else "--tpu"
        knows = given.get("bf16") and "compute_dtype" in given  # an option of our models alone
        advice = "; --compute-dtype bfloat16 is this plugin's" if knows else ""
        raise UserError(f"{asked} needs the package torch_xla, which is not installed{advice}")
    if given.get("write_checkpoints_asynchronously"):
        raise UserError(
            "--write-checkpoints-asynchronously: a checkpoint is whole and on the disk before"
            " training goes on; leave it out"
        )


def check_validation(given: Namespace) -> None:
    """Refuse options of fairseq-validate that do nothing.

    Raises:
        UserError: naming the first of them.
    """
    for name, value in vars(given).items():
        if name.startswith("heatmap_"):
            raise UserError(
                f"{option_of(name)} {value}: fairseq-validate draws nothing; rnnsearch-align draws "
                "the alignments of given translations"
            )


def _check_json(name: str, given: str) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(json.loads(given), dict):
            return
    raise UserError(
        f"{option_of(name)} {given!r:.100}: must be names and values in JSON, such as "
        "'{\"beam\": 5}'"
    )


def refuse_half_precision(cfg: DictConfig) -> None:
    """Refuse fairseq's options for narrow types if a model has its own option.

    Args:
        cfg: fairseq's whole configuration.

    Raises:
        UserError: naming the option and ``--compute-dtype``.
    """
    # fairseq adds the short option to the long one
    for name in ("memory_efficient_fp16", "fp16", "memory_efficient_bf16", "bf16", "amp"):
        if cfg.common[name]:
            raise UserError(
                f"{option_of(name)}: this model computes in narrow types by its own option, "
                "--compute-dtype bfloat16"
            )


def _is_reference(value: object) -> bool:
    """Tell whether a configuration value refers to another one."""
    return isinstance(value, str) and value.startswith("${")
