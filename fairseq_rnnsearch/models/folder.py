"""A model as a folder of plain files, for sharing: nothing in it can run code.

    model.safetensors     matrices: float32, float16, or int8 with one scale for each row
    config.json           architecture, sizes, languages, limit of length, version
    dict.*.txt            the dictionaries, as fairseq-preprocess wrote them
    preprocessing.json    how text becomes tokens, and the BPE codes that it names
    README.md             the model card
    SHA256SUMS            digests of all of them

``rnnsearch-export`` writes one. ``load`` and the commands take it wherever they take a checkpoint.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from fairseq_rnnsearch import __version__
from fairseq_rnnsearch.decoding.length_limit import FAIRSEQ_LIMIT, LengthLimit
from fairseq_rnnsearch.engine.parameters import Parameters
from fairseq_rnnsearch.engine.shapes import SCALE, check_shapes, shapes_of
from fairseq_rnnsearch.errors import UserError, as_text, reason
from fairseq_rnnsearch.files import replacing
from fairseq_rnnsearch.models.find import CONFIG, PARAMETERS
from fairseq_rnnsearch.older_models import current_names, drop_removed
from fairseq_rnnsearch.text import plain_text
from fairseq_rnnsearch.text.checksums import check_checksum, write_list
from fairseq_rnnsearch.text.dictionary_file import Dictionary, read_dictionary, written

if TYPE_CHECKING:
    import torch

    from fairseq_rnnsearch.network import TranslationModel

CARD = "README.md"
_FORMAT = "fairseq_rnnsearch 1"


class ModelConfig(NamedTuple):
    """The contents of ``config.json``.

    Attributes:
        architecture: as ``--arch``.
        options: the model's options, by their names in `ModelOptions`.
        languages: of the source and the target.
        left_pad_source: whether shorter sentences in a batch are padded on the left.
        length_limit: the maximum length of a translation.
        licence: a line about the training data, which pages show.
        examples: source sentences that pages offer.
        validation: facts about the translations of the validation text; see ``commands.doubt``.
    """

    architecture: str
    options: dict[str, Any]
    languages: tuple[str, str]
    left_pad_source: bool
    length_limit: LengthLimit
    licence: str = ""
    examples: Sequence[str] = ()
    validation: Mapping[str, float] = {}


@dataclass(frozen=True)
class ModelFolder:
    """A folder that has been read, without torch.

    Attributes:
        parameters: float32; or int8, with the scale of each row under the name with ``.scale``
            behind it.
    """

    path: Path
    config: ModelConfig
    dictionaries: tuple[Dictionary, Dictionary]
    parameters: Parameters

    @cached_property
    def model(self) -> "TranslationModel":
        """The model as a module of torch, in float32."""
        import torch

        from fairseq_rnnsearch.network import ModelOptions, TranslationModel, networks_of

        options = ModelOptions(**self.config.options)
        with _together(self.path), torch.device("meta"):  # the values are there
            model = TranslationModel(*networks_of(options, *self.dictionaries))
        values = {name: torch.from_numpy(self.parameters[name]) for name in model.state_dict()}
        model.load_state_dict(values, assign=True)
        return model.eval()


class LoadedModels(NamedTuple):
    """The models of an ensemble, of folders or checkpoints, and what they share.

    Attributes:
        data: the folder with the dictionaries and ``preprocessing.json``.
        options: fairseq's, of the last checkpoint's model, with its architecture as ``_name``.
    """

    models: "Sequence[torch.nn.Module]"
    dictionaries: tuple[Any, Any]
    languages: tuple[str, str]
    data: Path
    left_pad_source: bool
    length_limit: LengthLimit
    options: Any = None


# --- writing -------------------------------------------------------------------------------------


def write_folder(
    out: Path,
    model: "TranslationModel",
    config: ModelConfig,
    dictionaries: tuple[Any, Any],
    data: Path,
    *,
    weights: str = "float32",
    card: str | None = None,
) -> None:
    """Write a model's folder, whole or not at all.

    Args:
        data: the folder with the training's preprocessing.json and BPE codes.
        weights: how to store matrices, one of ``checks.WEIGHTS``; vectors stay float32.
        card: text of the README.md (default: one from the config).

    Raises:
        UserError: if the folder exists already, or if float16 cannot hold the parameters.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out {out}: is there already; name a new folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out, may_be_folder=True) as folder:
        folder.mkdir()
        (folder / PARAMETERS).write_bytes(save(dict(_as_stored(model, weights))))
        for language, dictionary in zip(config.languages, dictionaries, strict=True):
            (folder / f"dict.{language}.txt").write_text(written(dictionary), encoding="utf-8")
        _copy_preprocessing(data, config.languages, folder)
        facts = {"format": _FORMAT, "version": __version__, **config._asdict(), "weights": weights}
        written_facts = json.dumps(facts, ensure_ascii=False, indent=1) + "\n"
        (folder / CONFIG).write_text(written_facts, encoding="utf-8")
        text = _card(model, config, weights) if card is None else card
        (folder / CARD).write_text(text, encoding="utf-8")
        write_list(folder, sorted(path.name for path in folder.iterdir()))


def _as_stored(model: "TranslationModel", weights: str) -> Iterator[tuple[str, np.ndarray]]:
    for name, parameter in model.named_parameters():
        values = parameter.detach().float().cpu().contiguous().numpy()
        if weights == "float32" or values.ndim == 1:
            yield name, values
        elif weights == "int8":
            steps, scales = quantised(values)
            yield name, steps
            yield name + SCALE, scales
        elif (largest := np.abs(values).max()) > (end := np.finfo(np.float16).max):
            raise UserError(
                f"--weights float16: {name} has numbers up to {largest:.3g}, and float16 ends at "
                f"{end:,.0f}; expected float32 or int8"
            )
        else:
            yield name, values.astype(np.float16)


def quantised(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round a matrix; return its 8-bit numbers and its rows' scales."""
    scales = np.abs(values).max(axis=1).astype(np.float32) / np.float32(127)
    steps = np.divide(values, scales[:, None], out=np.zeros_like(values), where=scales[:, None] > 0)
    return np.rint(steps).astype(np.int8), scales


def _copy_preprocessing(data: Path, languages: tuple[str, str], folder: Path) -> None:
    settings = plain_text.settings_of(data)
    for language in settings.keys() - set(languages):
        del settings[language]
    for language, of_language in settings.items():
        if codes := of_language.get("bpe_codes"):
            of_language["bpe_codes"] = f"codes.{language}"  # a name that no other file has
            shutil.copyfile(data / codes, folder / of_language["bpe_codes"])
    plain_text.write_settings(folder, settings)


def _card(model: "TranslationModel", config: ModelConfig, weights: str) -> str:
    numbers = sum(parameter.numel() for parameter in model.parameters())
    sizes = config.options
    kind = "RNNencdec" if sizes["fixed_context"] else "RNNsearch"
    options = "\n".join(f"| `{name}` | {value} |" for name, value in config.options.items())
    source, target = config.languages
    return f"""---
language:
- {source}
- {target}
library_name: fairseq_rnnsearch
pipeline_tag: translation
---

# {kind} with {sizes["decoder_hidden_size"]} hidden units, {source} to {target}

The model of "Neural Machine Translation by Jointly Learning to Align and Translate" (Bahdanau, Cho
and Bengio, ICLR 2015) with embeddings of {sizes["encoder_embed_dim"]} and
{sizes["maxout_size"]} maxout units: {numbers:,} parameters, stored in {weights}. Nobody has written
yet what it was trained on, how well it translates and what it is not good for: `rnnsearch-export
--card FILE` takes such a text.

```python
from fairseq_rnnsearch import load

print(load("THIS_FOLDER").translate("...").text)
```

| option | value |
|---|---|
{options}
"""


# --- reading -------------------------------------------------------------------------------------


def read_folder(path: Path) -> ModelFolder:
    """Read a model's folder.

    Raises:
        UserError: a file is missing, damaged, or does not fit the others.
    """
    config = read_config(path)
    dictionaries = [f"dict.{language}.txt" for language in config.languages]
    codes = [of_language.get("bpe_codes") for of_language in plain_text.settings_of(path).values()]
    for name in (CONFIG, plain_text.FILE_NAME, *dictionaries, *filter(None, codes), PARAMETERS):
        if not (path / name).is_file():
            raise UserError(f"{path} is not a complete model: it lacks {name}")
        check_checksum(path / name, "rnnsearch-export")
    source, target = (read_dictionary(path / name) for name in dictionaries)
    with _together(path):
        shapes = shapes_of(len(source), len(target), **config.options)
        arrays = _checked(current_names(load_file(path / PARAMETERS)), shapes)
        parameters = Parameters(arrays, config.options.get("decoder_order", "program"))
    return ModelFolder(path, config, (source, target), parameters)


def read_config(path: Path) -> ModelConfig:
    """Read ``config.json``.

    Raises:
        UserError: it does not describe a model.
    """
    file = path / CONFIG
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
        if described["format"] != _FORMAT:
            raise ValueError(f'"format" must be "{_FORMAT}"')
        source, target = described["languages"]
        drop_removed(described["options"])
        return ModelConfig(
            described["architecture"],
            described["options"],
            (source, target),
            described.get("left_pad_source") is True,
            LengthLimit(*(described.get("length_limit") or FAIRSEQ_LIMIT)),
            as_text(described.get("licence", "")),
            tuple(map(as_text, described.get("examples", ()))),
            {name: float(value) for name, value in described.get("validation", {}).items()},
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{file} cannot be read: {reason(problem)}") from problem


@contextlib.contextmanager
def _together(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, RuntimeError, SafetensorError) as problem:
        raise UserError(
            f"{path / PARAMETERS} and {CONFIG} do not form a model together: {reason(problem)}"
        ) from problem


def _checked(
    stored: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Return parameters of these shapes, as 8-bit numbers with their scales or as float32.

    Raises:
        ValueError: the stored ones are others, or hold numbers that are not finite.
    """
    check_shapes(stored, shapes)
    parameters = {
        name: values
        if name in shapes and values.dtype == np.int8
        else values.astype(np.float32, copy=False)
        for name, values in stored.items()
    }
    broken = [name for name, values in parameters.items() if not np.isfinite(values).all()]
    if broken:
        raise ValueError(
            f"{len(broken)} of {len(parameters)} parameters hold numbers that are not finite, "
            f"{broken[0]} first: take a checkpoint from before training went wrong"
        )
    return parameters
