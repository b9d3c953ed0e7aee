"""Translating and aligning from Python.

    from fairseq_rnnsearch import load

    model = load("checkpoints/checkpoint_best.pt", "data-bin")
    translation = model.translate("A man rides a horse.")
    print(translation.text, translation.weights.shape)
    translation.plot("horse.png")
    model.align("A man rides a horse.", "Un homme monte à cheval.").plot()

Text is tokenised, split into subwords and put together again as the data folder's
``preprocessing.json`` says (see ``text.plain_text``). In a notebook a translation shows its
heatmap.
"""

import contextlib
import functools
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_rnnsearch.checks import LoadedDtype
from fairseq_rnnsearch.commands.translation import one_at_a_time
from fairseq_rnnsearch.commands.translator import Translator
from fairseq_rnnsearch.decoding.engine_networks import EngineNetworks, network_of
from fairseq_rnnsearch.decoding.length_limit import largest
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.models.find import find_model
from fairseq_rnnsearch.models.folder import LoadedModels, ModelFolder, read_folder
from fairseq_rnnsearch.models.quality import validation_of, warning_of
from fairseq_rnnsearch.text.compatibility import check, describe
from fairseq_rnnsearch.text.plain_text import PlainText
from fairseq_rnnsearch.text.tokenizers import Tokenizer

if TYPE_CHECKING:
    import torch

    from fairseq_rnnsearch.commands.torch_networks import TorchNetworks

logger = logging.getLogger(__name__)


def load(
    checkpoint: str | Path | Sequence[str | Path],
    data: str | Path | None = None,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    tokenizer: Tokenizer | None = None,
    lowercase: bool | None = None,
    bpe_codes: str | Path | None = None,
    device: "str | torch.device" = "cpu",
    compute_dtype: LoadedDtype | None = None,
    user_dir: str | Path | None = None,
) -> Translator:
    """Load a trained model.

    Args:
        checkpoint: a model included in the package, such as "en-fr", a folder that
            ``rnnsearch-export`` wrote, or a file from fairseq-train; several form an ensemble. Any
            other folder, such as a recipe's, means its best checkpoint, or else its last.
        data: the folder with the training's dictionaries (default: the one that the checkpoint
            names, or one of that name beside the checkpoint).
        source_lang, target_lang: default: the checkpoint's, or else those in the names of the
            data's files.
        tokenizer, lowercase, bpe_codes: the tokenisation, instead of that in the folder's
            ``preprocessing.json``; see ``PlainText``.
        device: where to compute, such as "cuda".
        compute_dtype: the type of the operands of matrix products (default: float32; a checkpoint
            that was trained in bfloat16 computes so on a CPU with instructions for it, and its
            scores differ a little between processors).
        user_dir: fairseq's ``--user-dir``, for a checkpoint of a model of your own: the folder that
            registers it; folders of models need none.

    Threads may load, and may use one ``Translator`` or several, at the same time: each call has its
    own options and gets the same result as alone, up to the rounding of sums. Only pictures are
    drawn one at a time. A model must not be changed (moved, trained) meanwhile.

    Raises:
        UserError: if a checkpoint or folder is missing or unusable.
    """
    several = [checkpoint] if isinstance(checkpoint, str | Path) else checkpoint
    found = [find_model(place) for place in several]
    # messages name a folder as the user did, such as en-fr
    names = [
        str(place if path.is_dir() else path) for place, path in zip(several, found, strict=True)
    ]
    changes = {"data": data, "source_lang": source_lang, "target_lang": target_lang}
    changes = {name: str(value) for name, value in changes.items() if value is not None}
    texts = {"tokenizer": tokenizer, "lowercase": lowercase, "bpe_codes": bpe_codes}
    if any(path.is_dir() for path in found):
        folders = _read_folders(found, names, changes, texts)
        first, limits = folders[0], [folder.config.length_limit for folder in folders]
        trained = LoadedModels(
            [],
            first.dictionaries,
            first.config.languages,
            first.path,
            first.config.left_pad_source,
            largest(*limits),
        )
        validations = [folder.config.validation for folder in folders]
        networks = _as_networks(folders, trained, device, compute_dtype)
    elif compute_dtype == "int8":
        raise UserError("compute_dtype int8: only for a folder of rnnsearch-export --weights int8")
    else:
        with one_at_a_time:
            with _quiet_import():
                from fairseq_rnnsearch.models.trained_models import read_models
            trained = read_models(names, changes, device, compute_dtype, user_dir, texts)
        validations = [validation_of(path) for path in found]
        networks = _as_modules(trained)
    for name, validation in zip(names, validations, strict=True):
        if warning := warning_of(validation):
            _warn_once(f"{name}: {warning}")
    return Translator(
        networks,
        *trained.dictionaries,
        *(PlainText.of(trained.data, language, **texts) for language in trained.languages),
        length_limit=trained.length_limit,
        name=":".join(names),
        validation=validations[0],
    )


@functools.cache
def _warn_once(message: str) -> None:
    logger.warning(message)


@contextlib.contextmanager
def _quiet_import() -> Iterator[None]:
    """Import fairseq without its advice and torch's deprecation warnings.

    Restore the root logger's level, which fairseq's modules lower.
    """
    level, handlers = logging.root.level, logging.root.handlers[:]
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)  # such as "Please install tensorboardX"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`torch\.jit\.")
            yield
    finally:
        logging.disable(disabled)
        logging.root.setLevel(level)
        logging.root.handlers[:] = handlers


def _read_folders(
    paths: Sequence[Path],
    names: Sequence[str],
    changes: dict[str, str],
    texts: dict[str, Any],
) -> list[ModelFolder]:
    """Read models from folders of `rnnsearch-export`, which include their data."""
    folders = [read_folder(path) for path in paths]
    first = folders[0]
    source_lang, target_lang = first.config.languages
    own = {"source_lang": source_lang, "target_lang": target_lang}
    for name, value in changes.items():
        if own.get(name) != value:
            has = f"has {own[name]}" if name in own else "has its own; leave it out"
            raise UserError(f"{name} {value}: the model {names[0]} {has}")
    described = []
    for name, folder in zip(names, folders, strict=True) if len(folders) > 1 else ():
        sides = dict(zip(("source", "target"), folder.dictionaries, strict=True))
        described.append(describe(sides, folder.config.languages, folder.path, **texts))
        check(described[0], described[-1], names[0], f"{name} has")
    return folders


def _as_networks(
    folders: Sequence[ModelFolder],
    trained: LoadedModels,
    device: "str | torch.device",
    compute_dtype: LoadedDtype | None,
) -> "EngineNetworks | TorchNetworks":
    """Return the models of folders: in the engine, or as modules of torch."""
    as_modules = functools.partial(_folders_as_modules, folders, trained, device, compute_dtype)
    if str(device) == "cpu" and compute_dtype != "tf32":
        networks = [network_of(one.parameters, compute_dtype or "float32") for one in folders]
        return EngineNetworks(networks, as_modules)
    if compute_dtype == "int8":
        raise UserError(f"compute_dtype int8: on a CPU only, not on {device}")
    return as_modules()


def _folders_as_modules(
    folders: Sequence[ModelFolder],
    trained: LoadedModels,
    device: "str | torch.device",
    compute_dtype: LoadedDtype | None,
) -> "TorchNetworks":
    models = [folder.model for folder in folders]
    for model in models:
        model.to(device)  # move first: rounding depends on the device
        model.compute_in("float32" if compute_dtype in (None, "int8") else compute_dtype)
        model.prepare_to_translate()
    return _as_modules(trained._replace(models=models))


def _as_modules(trained: LoadedModels) -> "TorchNetworks":
    from fairseq_rnnsearch.commands.torch_networks import TorchNetworks

    left = trained.left_pad_source
    return TorchNetworks(trained.models, *trained.dictionaries, left_pad_source=left)
