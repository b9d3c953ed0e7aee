"""Options: presets in files, values that fairseq would ignore, and those that it would run."""

import ast
import numbers
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig, OmegaConf, open_dict

from fairseq_rnnsearch.errors import UserError, option_of

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
# "[(512, 3)] * 20" is a value of an option; no model has more layers
_MOST_ITEMS = 10_000
_NOT_IN_THE_PAPERS_ORDER = ("curriculum", "grouped_shuffling")


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
        UserError: as ``check_options``.
    """
    groups = [group for group in OmegaConf.to_container(cfg).values() if isinstance(group, dict)]
    given = {k: v for group in groups for k, v in group.items() if not _is_reference(v)}
    if cfg.get("model") is not None:  # only training has one
        given["arch"] = None
    check_options(Namespace(**given))


def check_options(options: Namespace) -> None:
    """Refuse values that fairseq accepts and then ignores, or that lead to other results.

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
    if given.get("batch_order") == "paper":
        for name in _NOT_IN_THE_PAPERS_ORDER:
            if given.get(name):
                raise UserError(
                    f"{option_of(name)}: the paper's batch order has its own; leave it out, or "
                    "choose --batch-order fairseq"
                )
    if "cost_scale" in given and given.get("sentence_avg"):
        raise UserError("--sentence-avg: this criterion's own option is --cost-scale sentence")
    subset, validates = given.get("train_subset"), not given.get("disable_validation")
    if "arch" in given and validates and subset in str(given.get("valid_subset")).split(","):
        raise UserError(
            f"--train-subset {subset} is one of --valid-subset {given['valid_subset']}; fairseq "
            "would go through both at once: name another --valid-subset, or give a copy of the "
            "data's files another name"
        )
    for name in ("model_overrides", "optimizer_overrides"):
        read_overrides(given.get(name) or "{}")
    if given.get("write_checkpoints_asynchronously"):
        raise UserError(
            "--write-checkpoints-asynchronously: a checkpoint is whole and on the disk before"
            " training goes on; leave it out"
        )


def read_overrides(text: str) -> dict[str, Any]:
    """Return the value of ``--model-overrides`` or ``--optimizer-overrides``.

    Raises:
        UserError: when it is no dictionary of plain values.
    """
    try:
        value = read_value(text)
    except UserError:
        value = None
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise UserError(
            f"--model-overrides or --optimizer-overrides {text!r:.100}: must be a dictionary of "
            "names and plain values, such as \"{'dropout': 0.1}\""
        )
    return value


def read_value(text: str) -> Any:
    """Return the value of a Python literal, or of a sum of lists, which may be repeated.

    fairseq runs ``--adam-betas``, the layers of some models and other options as Python, even those
    in the configuration of a checkpoint: a checkpoint of plain values could still run code.

    Raises:
        TypeError: for anything but a string, as ``eval``; fairseq relies on it.
        UserError: for a string that is anything else.
    """
    if not isinstance(text, str):
        raise TypeError(f"a string is evaluated, not {text!r}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as problem:
        raise UserError(
            f"the option value {text!r:.100} is not a value: fairseq would run it as Python; "
            "valid: numbers, strings, True, False, None, lists, tuples and dictionaries of them"
        ) from problem


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        left, right, is_sum = _value(node.left), _value(node.right), isinstance(node.op, ast.Add)
        kinds = list | tuple, list | tuple if is_sum else int
        if not (isinstance(left, kinds[0]) and isinstance(right, kinds[1])):
            raise ValueError("only lists are added, and repeated")
        if (len(left) + len(right) if is_sum else len(left) * right) > _MOST_ITEMS:
            raise ValueError("too long")
        return left + right if is_sum else left * right
    return ast.literal_eval(node)


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
