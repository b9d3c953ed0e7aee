"""Convert a checkpoint to a model folder, and back."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import DictConfig

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.models.find import find_model
from fairseq_rnnsearch.models.folder import ModelConfig, read_folder, write_folder
from fairseq_rnnsearch.models.quality import validation_of
from fairseq_rnnsearch.models.trained_models import read_models
from fairseq_rnnsearch.network import ModelOptions, TranslationModel, networks_of
from fairseq_rnnsearch.network.translation_model import custom_module
from fairseq_rnnsearch.plugin.model import RNNSearchModel, add_younger_options
from fairseq_rnnsearch.runs.checkpoint import OwnFields, checkpoint_of_model
from fairseq_rnnsearch.runs.checkpoint_file import write_whole
from fairseq_rnnsearch.text import compatibility
from fairseq_rnnsearch.text.plain_text import PlainText


def to_folder(
    checkpoint: str,
    data: str | None,
    out: Path,
    weights: str = "float32",
    card: str | None = None,
    licence: str = "",
    user_dir: str | None = None,
    examples: Sequence[str] = (),
) -> None:
    """Write a model's folder from a checkpoint, or from another folder; see `write_folder`.

    Raises:
        UserError: if the checkpoint or folder is missing, unusable, or of another kind of model.
    """
    found = find_model(checkpoint)
    if found.is_dir():
        folder, read = found, read_folder(found)
        model, dictionaries = read.model, read.dictionaries
        config = read.config._replace(
            licence=licence or read.config.licence, examples=examples or read.config.examples
        )
    else:
        changes = {"data": data} if data else {}
        trained = read_models([str(found)], changes, "cpu", "float32", user_dir)
        [model], dictionaries = trained.models, trained.dictionaries
        cfg, folder = trained.options, trained.data
        add_younger_options(cfg)
        _refuse_other_parts(model, cfg, dictionaries)
        config = ModelConfig(
            cfg["_name"],
            {option.name: cfg[option.name] for option in fields(ModelOptions)},
            trained.languages,
            trained.left_pad_source,
            trained.length_limit,
            licence,
            examples,
            validation=validation_of(found),
        )
    for language in config.languages:
        PlainText.of(folder, language)  # refuses what no reader of the new folder could use
    write_folder(out, model, config, dictionaries, folder, weights=weights, card=card)


def _refuse_other_parts(model: TranslationModel, cfg: DictConfig, dictionaries: tuple) -> None:
    """Refuse a model that its options do not describe; a folder stores only options."""
    part = custom_module(model)
    if part is None:
        encoder, decoder = networks_of(cfg, *dictionaries)
        other = _sizes(encoder).items() ^ _sizes(model.encoder).items()
        other |= _sizes(decoder).items() ^ _sizes(model.decoder).items()
        part = f"{min(other)[0]}, which its options do not give" if other else None
    if part:
        raise UserError(
            f"the checkpoint holds a model with a custom module ({part}); a folder takes "
            "RNNsearch and RNNencdec as they are"
        )


def _sizes(network: torch.nn.Module) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in network.state_dict().items()}


def to_checkpoint(model: str, out: Path) -> None:
    """Write a checkpoint from a model's folder; its data folder is the model's.

    Raises:
        UserError: if the folder does not hold a model, or is unusable.
    """
    folder = find_model(model)
    read = read_folder(folder)
    config, (source, target) = read.config, read.dictionaries
    source_lang, target_lang = config.languages
    architecture = config.architecture  # only a name: the options say everything
    if ARCH_MODEL_REGISTRY.get(architecture) is not RNNSearchModel:
        architecture = "rnnsearch_50"
    task = {
        "_name": "alignment_heatmap",
        "data": str(folder),
        "source_lang": source_lang,
        "target_lang": target_lang,
        "left_pad_source": config.left_pad_source,
    }
    state = checkpoint_of_model(
        read.model.state_dict(),
        config.options | {"_name": architecture},
        task,
        OwnFields(
            length_limit=list(config.length_limit),
            dictionaries=compatibility.describe(
                {"source": source, "target": target}, config.languages, folder
            ),
        ),
    )
    write_whole(state, str(out))
