"""Options: presets in files, and values that fairseq would ignore or run as code."""

import ast
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig, OmegaConf, open_dict

from fairseq_rnnsearch.checks import in_range
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.network import TranslationModel

# Positions of a sentence: the recurrences set no limit, but fairseq requires one from the task and
# the models.
ANY_LENGTH = 1_000_000

# fairseq's own options; those of this package have their checks in their fields' metadata
_LEAST = {
    1: (
        *("beam", "nbest", "batch_size", "batch_size_valid", "max_tokens", "max_tokens_valid"),
        *("update_freq", "workers", "save_interval", "validate_interval", "log_interval"),
    ),
    0: (
        *("num_workers", "max_update", "max_epoch", "clip_norm", "lr", "max_len_a", "max_len_b"),
        *("min_len", "prefix_size", "thresholdsrc", "thresholdtgt", "save_interval_updates"),
        *("validate_interval_updates", "stop_time_hours", "weight_decay"),
        "buffer_size",
    ),
}


def fill_presets(add_defaults: Callable[[DictConfig], None], cfg: DictConfig) -> None:
    """Let the preset that ``model._name`` names fill what a file leaves out, then the defaults.

    fairseq fills in the defaults first, and the preset then takes them for the user's choice.
    """
    groups = {name: _group(cfg, name) for name in ("model", "task")}
    arch = groups["model"].get("_name")
    if issubclass(ARCH_MODEL_REGISTRY.get(arch, object), TranslationModel):
        given = {k: v for group in groups.values() for k, v in group.items() if v is not None}
        filled = Namespace(**given)
        ARCH_CONFIG_REGISTRY[arch](filled)
        names = {group: options.get("_name") for group, options in groups.items()}
        for group, dataclass in _dataclasses(names).items():
            known = {field.name for field in fields(dataclass)}
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


def _dataclasses(names: Mapping[str, Any]) -> dict[str, type]:
    """Return the dataclasses of the parts with these names: of the model, the task and so on."""
    registries = {group: one["dataclass_registry"] for group, one in REGISTRIES.items()}
    registries |= {"model": MODEL_DATACLASS_REGISTRY, "task": TASK_DATACLASS_REGISTRY}
    names = {**names, "model": ARCH_MODEL_NAME_REGISTRY.get(names["model"], names["model"])}
    return {g: registry[names[g]] for g, registry in registries.items() if names.get(g) in registry}


def check_configuration(cfg: DictConfig | Namespace) -> None:
    """Check the options of a command, which fairseq keeps in groups or, for some commands, in one.

    Raises:
        UserError: as ``check_options``.
    """
    if isinstance(cfg, Namespace):
        given = vars(cfg)
        names = {**given, "model": given.get("arch")}
    else:
        container = OmegaConf.to_container(cfg)
        groups = {name: group for name, group in container.items() if isinstance(group, dict)}
        names = {"model": None} | {name: group.get("_name") for name, group in groups.items()}
        # a value may refer to another one
        values = [pair for group in groups.values() for pair in group.items()]
        given = {name: value for name, value in values if not str(value).startswith("${")}
        if cfg.get("model") is not None:  # only training has one
            given["arch"] = None
    check_options(given, *_dataclasses(names).values())


def check_options(given: Mapping[str, Any], *parts: type) -> None:
    """Refuse values that fairseq accepts and then ignores, or that lead to other results.

    Args:
        given: the options by name.
        parts: dataclasses of options, whose fields have their checks in their metadata, see
            ``checks.Check``.

    Raises:
        UserError: naming the first option with an invalid value.
    """
    for least, names in _LEAST.items():
        for name in names:
            in_range(least)(name, given)
    for field in (field for part in parts for field in fields(part)):
        if check := field.metadata.get("check"):
            check(field.name, given)
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
    value = read_value(text)
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
        return left + right if is_sum else left * right
    return ast.literal_eval(node)
