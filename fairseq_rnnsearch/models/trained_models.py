"""Models of fairseq-train's checkpoints, and the data folder that belongs to them."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data.data_utils import infer_language_pair
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import import_user_module, split_paths

from fairseq_rnnsearch.decoding.length_limit import FAIRSEQ_LIMIT
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.models.find import find_beside
from fairseq_rnnsearch.models.folder import LoadedModels
from fairseq_rnnsearch.network import TranslationModel
from fairseq_rnnsearch.runs import patches
from fairseq_rnnsearch.runs.checkpoint import (
    check_registered,
    naming_checkpoint,
    read_checkpoint,
    to_fairseq_state,
)
from fairseq_rnnsearch.text.compatibility import Sides, check, describe


def read_models(
    paths: Sequence[str],
    changes: dict[str, str],
    device: str | torch.device,
    compute_dtype: str | None = None,
    user_dir: str | Path | None = None,
    texts: dict[str, Any] | None = None,
) -> LoadedModels:
    """Read checkpoints, on a device and ready to translate.

    Args:
        changes: ``data``, ``source_lang`` and ``target_lang``, if they are not the checkpoints'.
        compute_dtype: in place of the models' own. With "float32" parameters are as stored.
        user_dir: fairseq's ``--user-dir``, the folder that registers a model of one's own.
        texts: the tokenisation, where it is not that of the data.

    Raises:
        UserError: if a checkpoint or the data is missing or unusable, or they do not fit together.
    """
    models: list[torch.nn.Module] = []
    its_task, described, given_data = None, [], changes.get("data")
    if user_dir is not None:
        import_user_module(Namespace(user_dir=user_dir))
    with patches.reading_as_data():
        for path in paths:
            state = read_checkpoint(path)
            data = given_data or _data_of(state, path, changes.get("data"))
            changes = {"data": data} | changes
            if len(paths) > 1 and isinstance(state, dict):
                described.append(_description(state, data, changes, texts or {}))
                check(described[0], described[-1], paths[0], f"{path} has")
            state = to_fairseq_state(state, path, changes)
            with naming_checkpoint(path):
                check_registered(state.get("cfg") and state["cfg"].model)
            loaded, cfg, its_task = checkpoint_utils.load_model_ensemble_and_task(
                [path], changes, its_task, state=state
            )
            models += loaded
    if not isinstance(its_task, TranslationTask):
        raise UserError(
            f"checkpoint {', '.join(paths)}: was trained with --task {cfg.task._name}, "
            "and must be of a translation"
        )
    for model in models:
        model.to(device)  # move first: the preparation depends on the device
        if compute_dtype and isinstance(model, TranslationModel):
            model.compute_in(compute_dtype)
        elif compute_dtype not in (None, "float32"):
            raise UserError(
                f"compute_dtype {compute_dtype}: the checkpoint holds a {type(model).__name__}, "
                "which computes in float32"
            )
        model.prepare_for_inference_(cfg)
    return LoadedModels(
        models,
        (its_task.source_dictionary, its_task.target_dictionary),
        (its_task.cfg.source_lang, its_task.cfg.target_lang),
        Path(split_paths(cfg.task.data)[0]),
        cfg.task.get("left_pad_source", False),
        getattr(its_task, "length_limit", FAIRSEQ_LIMIT),
        cfg.model,
    )


def _data_of(state: Any, checkpoint: str, otherwise: str | None) -> str:
    """Return the data folder that a checkpoint was trained with, or one of its name beside it.

    Args:
        otherwise: where it is in neither place, such as the folder of another model.

    Raises:
        UserError: if it is in neither place, or the checkpoint is none of fairseq's.
    """
    if not isinstance(state, dict) or {"args", "cfg"}.isdisjoint(state):
        raise UserError(f"checkpoint {checkpoint} holds no options of a training; is it fairseq's?")
    trained_with = _task_option(state, "data")
    named = Path(split_paths(trained_with)[0]) if trained_with else Path("data")
    if trained_with and named.is_dir():
        return trained_with
    if beside := find_beside(checkpoint, named.name) or otherwise:
        return str(beside)
    raise UserError(
        f"checkpoint {checkpoint} was trained with the data in {str(named)!r}, which is neither "
        "there nor beside it: give the folder with its dictionaries as data (--data DIR)"
    )


def _description(
    state: dict[str, Any], data: str, changes: dict[str, str], texts: dict[str, Any]
) -> Sides:
    """Describe a checkpoint's languages and, by its data folder, how its text was prepared."""
    folder = split_paths(data)[0]
    names = ("source_lang", "target_lang")
    languages = [changes.get(name) or _task_option(state, name) for name in names]
    if None in languages:
        languages = infer_language_pair(folder)
    return describe({}, languages, Path(folder), **texts) if None not in languages else {}


def _task_option(state: dict[str, Any], name: str) -> str | None:
    """Return an option of the training's task."""
    options = state.get("args") if state.get("cfg") is None else state["cfg"].get("task")
    options = options if isinstance(options, dict) else vars(options or object)
    value = options.get(name)
    return value if isinstance(value, str) and value else None
